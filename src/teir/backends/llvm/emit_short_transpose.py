"""Transposing copies with a short side: vectors put together in registers, or taken apart.

for every o
  for every vector of n, the last one moved back over its neighbour
    put together   load one vector of each s;  side vectors of whole rows are stored
    taken apart    load side vectors of whole rows;  one vector of each s is stored
"""

from __future__ import annotations

from functools import partial

from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_shuffles import Shuffles
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.lower.copy_kernels import ShortTranspose

SHORT_TRANSPOSE_ARGUMENTS = ("n", "apart", "o", "in_o", "out_o")


def emit_short_transpose_body(kernel: ShortTranspose) -> FunctionText:
    """The body for operands %A, %B and the arguments of `ShortTranspose`."""
    text = FunctionText()
    text.label("entry")
    text.effect(f"%n_last = sub i64 %n, {kernel.lanes}")
    text.effect(f"%over = add i64 %n, {kernel.lanes - 1}")
    carried = [Carried("ptr", "%A"), Carried("ptr", "%B")]
    emit_loop(text, "outer", "%o", 1, carried, partial(_rows, text, kernel))
    text.effect("ret void")
    return text


def _rows(text: FunctionText, kernel: ShortTranspose, starts: Values) -> Values:
    """All rows of one o, and where those of the next begin."""
    source, target = starts

    def block(carried: Values) -> Values:
        (begin,) = carried
        row = text.value(f"call i64 @llvm.smin.i64(i64 {begin}, i64 %n_last)")
        _block(text, kernel, source, target, row)
        return [text.value(f"add i64 {begin}, {kernel.lanes}")]

    emit_loop(text, "rows", "%over", kernel.lanes, [Carried("i64", "0")], block)
    return [shift_pointer(text, source, "%in_o"), shift_pointer(text, target, "%out_o")]


def _block(text: FunctionText, kernel: ShortTranspose, source: str, target: str, row: str) -> None:
    """A vector of n from this row on, along the whole short side."""
    width, side = kernel.element_bytes, kernel.side
    vectors = Shuffles(text, width, kernel.lanes)
    near = text.value(f"mul i64 {row}, {width}")
    whole = text.value(f"mul i64 {row}, {side * width}")
    reads, writes = (near, whole) if kernel.joins else (whole, near)
    places = _places(text, kernel, shift_pointer(text, source, reads), kernel.joins)
    loaded = [text.value(f"load {vectors.kind}, ptr {place}, align 1") for place in places]
    made = vectors.joined(loaded) if kernel.joins else vectors.split(loaded)
    places = _places(text, kernel, shift_pointer(text, target, writes), not kernel.joins)
    for place, value in zip(places, made, strict=True):
        text.effect(f"store {vectors.kind} {value}, ptr {place}, align 1")


def _places(text: FunctionText, kernel: ShortTranspose, start: str, is_apart: bool) -> list[str]:
    """Where the vectors of a block lie on one side."""
    if not is_apart:
        step = kernel.lanes * kernel.element_bytes
        return [shift_pointer(text, start, step * place) for place in range(kernel.side)]
    places = [start]
    for _ in range(kernel.side - 1):
        places.append(shift_pointer(text, places[-1], "%apart"))
    return places
