"""Rows of two operands a vector at a time, the last one moved back over its neighbour.

for every o
  for every vector of n: the work of a kernel
"""

from __future__ import annotations

from collections.abc import Callable

from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_text import FunctionText, shift_pointer

EmitVector = Callable[[FunctionText, str, str, str], None]
"""Emits one vector: given the text, where this row begins on both operands, and the first index."""


def emit_row_vectors(lanes: int, emit_vector: EmitVector) -> FunctionText:
    """The body for operands %A and %B and the arguments n (``lanes`` at least), o, in_o, out_o."""
    text = FunctionText()

    def row(starts: Values) -> Values:
        source, target = starts

        def vector(carried: Values) -> Values:
            (begin,) = carried
            first = text.value(f"call i64 @llvm.smin.i64(i64 {begin}, i64 %n_last)")
            emit_vector(text, source, target, first)
            return [text.value(f"add i64 {begin}, {lanes}")]

        emit_loop(text, "vectors", "%over", lanes, [Carried("i64", "0")], vector)
        return [shift_pointer(text, source, "%in_o"), shift_pointer(text, target, "%out_o")]

    text.label("entry")
    text.effect(f"%n_last = sub i64 %n, {lanes}")
    text.effect(f"%over = add i64 %n, {lanes - 1}")
    emit_loop(text, "outer", "%o", 1, [Carried("ptr", "%A"), Carried("ptr", "%B")], row)
    text.effect("ret void")
    return text
