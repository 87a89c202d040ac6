"""Transposing copies with a short side: vectors put together in registers, or taken apart.

for every o
  for every vector of n, the last one moved back over its neighbour
    put together   load one vector of each s;  side vectors of whole rows are stored
    taken apart    load side vectors of whole rows;  one vector of each s is stored
"""

from __future__ import annotations

from functools import partial

from teir.backends.llvm.emit_row_vectors import emit_row_vectors
from teir.backends.llvm.emit_shuffles import Shuffles
from teir.backends.llvm.emit_text import FunctionText, ask_to_store, shift_pointer
from teir.lower.copy_kernels import ShortTranspose
from teir.target import Isa

SHORT_TRANSPOSE_ARGUMENTS = ("n", "apart", "o", "in_o", "out_o")

_LINES_AHEAD = 4
"""From what is stored to what is asked for to be stored soon; eight lines gained as much."""


def emit_short_transpose_body(kernel: ShortTranspose, isa: Isa) -> FunctionText:
    """The body for operands %A, %B and the arguments of `ShortTranspose`."""
    return emit_row_vectors(kernel.lanes, partial(_block, kernel, isa))


def _block(
    kernel: ShortTranspose, isa: Isa, text: FunctionText, source: str, target: str, row: str
) -> None:
    """A vector of n from this row on, along the whole short side."""
    width, side, step = kernel.element_bytes, kernel.side, kernel.step
    vectors = Shuffles(text, width, kernel.lanes)
    read = text.value(f"mul i64 {row}, {step * width * (1 if kernel.joins else side)}")
    written = text.value(f"mul i64 {row}, {width * (side if kernel.joins else 1)}")
    places = _places(text, kernel, shift_pointer(text, source, read), kernel.joins, step)
    loaded = [vectors.every(place, step) for place in places]
    made = vectors.joined(loaded) if kernel.joins else vectors.split(loaded)
    places = _places(text, kernel, shift_pointer(text, target, written), not kernel.joins, 1)
    for place, value in zip(places, made, strict=True):
        text.effect(f"store {vectors.kind} {value}, ptr {place}, align 1")
        if not kernel.joins:
            ask_to_store(text, isa, place, _LINES_AHEAD)


def _places(
    text: FunctionText, kernel: ShortTranspose, start: str, is_apart: bool, step: int
) -> list[str]:
    """Where the vectors of a block, of elements ``step`` from one to the next, lie on one side."""
    if not is_apart:
        vector_bytes = step * kernel.lanes * kernel.element_bytes
        return [shift_pointer(text, start, vector_bytes * place) for place in range(kernel.side)]
    places = [start]
    for _ in range(kernel.side - 1):
        places.append(shift_pointer(text, places[-1], "%apart"))
    return places
