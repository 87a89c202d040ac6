"""The entry point's look at overlaps: no operand that is written shares a byte with another.

Part of `teir.backends.llvm.entry_ir`: entered at %overlap, left for %place, or for
%release_unexpected where bytes are shared.
"""

from __future__ import annotations

from teir.backends.llvm.entry_layout import (
    WRITABLE_FLAG,
    operand_text,
    view_text,
)


def _span_text(name: str) -> str:
    """``%<name>_low`` and ``%<name>_high``: the bytes used of operand number ``%<name>``."""
    return f"""{view_text(name)}
  %{name}_start = load i64, ptr %{name}_view
  %{name}_before_at = getelementptr i8, ptr %{name}_operand, i64 40
  %{name}_before = load i64, ptr %{name}_before_at
  %{name}_low = sub i64 %{name}_start, %{name}_before
  %{name}_after_at = getelementptr i8, ptr %{name}_operand, i64 48
  %{name}_after = load i64, ptr %{name}_after_at
  %{name}_high = add i64 %{name}_start, %{name}_after
"""


OVERLAP_TEXT = f"""overlap:
  br label %written_test
written_test:
  %written = phi i64 [ 0, %overlap ], [ %written_next, %written_done ]
{operand_text("written")}
  %written_flags = load i64, ptr %written_operand
  %writable = and i64 %written_flags, {WRITABLE_FLAG}
  %is_written = icmp ne i64 %writable, 0
  br i1 %is_written, label %written_span, label %written_done
written_span:
{_span_text("written")}  br label %other_test
other_test:
  %other = phi i64 [ 0, %written_span ], [ %other_next, %other_done ]
  %itself = icmp eq i64 %other, %written
  br i1 %itself, label %other_done, label %other_span
other_span:
{operand_text("other")}
{_span_text("other")}  %below = icmp ult i64 %written_low, %other_high
  %above = icmp ult i64 %other_low, %written_high
  %overlaps = and i1 %below, %above
  br i1 %overlaps, label %overlapping, label %other_done
overlapping:
  store atomic i32 0, ptr %busy_at release, align 4
  br label %release_unexpected
other_done:
  %other_next = add i64 %other, 1
  %more_others = icmp slt i64 %other_next, %wanted
  br i1 %more_others, label %other_test, label %written_done
written_done:
  %written_next = add i64 %written, 1
  %more_written = icmp slt i64 %written_next, %wanted
  br i1 %more_written, label %written_test, label %place

"""
