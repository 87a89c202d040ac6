"""IR text, for functions that Python calls: the entry point run on inputs and the result."""

from __future__ import annotations

from teir.backends.llvm.entry_ir import RUN_ENTRY
from teir.backends.llvm.entry_layout import MOST_OPERANDS


def arguments_room() -> str:
    """The instruction that makes ``%arguments``, room for as many as an entry point takes."""
    return f"  %arguments = alloca [{MOST_OPERANDS} x ptr], align 16"


def entry_run(inputs: str, result: str, before: str, is_new: str) -> str:
    """The end of block ``before``, and blocks up to the unended one that makes ``%has_run``.

    The ``%count`` arguments at ``inputs`` and then ``result`` are handed over, ``%wanted``
    together; the entry point's record is read from ``%record``. ``is_new``: as `RUN_ENTRY` has it.
    """
    return f"""\
  %out_at = getelementptr ptr, ptr %arguments, i64 %count
  store ptr {result}, ptr %out_at
  br label %take_test
take_test:
  %taken = phi i64 [ 0, %{before} ], [ %taken_next, %take ]
  %more = icmp slt i64 %taken, %count
  br i1 %more, label %take, label %run
take:
  %input_at = getelementptr ptr, ptr {inputs}, i64 %taken
  %input = load ptr, ptr %input_at
  %argument_at = getelementptr ptr, ptr %arguments, i64 %taken
  store ptr %input, ptr %argument_at
  %taken_next = add i64 %taken, 1
  br label %take_test
run:
  %entry_record_at = getelementptr i8, ptr %record, i64 8
  %entry_record = load ptr, ptr %entry_record_at
  %has_run = call i1 @{RUN_ENTRY}(
    ptr %entry_record, ptr %arguments, i64 %wanted, i1 {is_new}
  )"""
