"""Copies of every second element, every third, and so on.

    for every o
      for every vector of n, the last one moved back over its neighbour
        load step vectors, of each only the elements that are copied;  one vector is stored

What lies between the elements is nobody's to read: it may be written meanwhile, or not exist
behind the last one.
"""

from __future__ import annotations

from functools import partial

from teir.backends.llvm.emit_row_vectors import emit_row_vectors
from teir.backends.llvm.emit_shuffles import Shuffles
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.lower.copy_kernels import SteppedCopy

STEPPED_COPY_ARGUMENTS = ("n", "o", "in_o", "out_o")


def emit_stepped_copy_body(kernel: SteppedCopy) -> FunctionText:
    """The body for operands %A, %B and the arguments of `SteppedCopy`."""
    return emit_row_vectors(kernel.lanes, partial(_vector, kernel))


def _vector(kernel: SteppedCopy, text: FunctionText, source: str, target: str, place: str) -> None:
    """One vector, from this element on."""
    width, step = kernel.element_bytes, kernel.step
    shuffles = Shuffles(text, width, kernel.lanes)
    from_here = text.value(f"mul i64 {place}, {step * width}")
    to_here = text.value(f"mul i64 {place}, {width}")
    picked = shuffles.every(shift_pointer(text, source, from_here), step)
    text.effect(
        f"store {shuffles.kind} {picked}, ptr {shift_pointer(text, target, to_here)}, align 1"
    )
