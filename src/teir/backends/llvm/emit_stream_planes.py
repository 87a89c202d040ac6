"""The loop over the planes of the outer axes, around permutations that read rows side by side."""

from __future__ import annotations

from teir.backends.llvm.emit_text import FunctionText


def emit_plane(text: FunctionText, before: str, inside: str) -> None:
    """Block %plane, entered from block ``before``: one step of the outer axes, the first fastest.

    It leaves where the plane begins in %plane_in and %plane_out, and goes on at ``inside``.
    """
    text.write(f"""
plane:
%plane0 = phi i64 [ 0, %{before} ], [ %plane0_next, %plane_end ]
%plane1 = phi i64 [ 0, %{before} ], [ %plane1_next, %plane_end ]
%in0 = mul i64 %plane0, %o_in0
%in1 = mul i64 %plane1, %o_in1
%in_bytes = add i64 %in0, %in1
%plane_in = getelementptr i8, ptr %A, i64 %in_bytes
%out0 = mul i64 %plane0, %o_out0
%out1 = mul i64 %plane1, %o_out1
%out_bytes = add i64 %out0, %out1
%plane_out = getelementptr i8, ptr %B, i64 %out_bytes
br label %{inside}
""")


def emit_plane_end(text: FunctionText) -> None:
    """Blocks %group_end and %plane_end: the next group or plane, or %finish."""
    text.write("""
group_end:
br i1 %is_last, label %plane_end, label %group
plane_end:
%plane0_up = add i64 %plane0, 1
%plane0_ends = icmp eq i64 %plane0_up, %o0
%plane0_next = select i1 %plane0_ends, i64 0, i64 %plane0_up
%plane0_carry = zext i1 %plane0_ends to i64
%plane1_next = add i64 %plane1, %plane0_carry
%plane_more = icmp slt i64 %plane1_next, %o1
br i1 %plane_more, label %plane, label %finish
""")
