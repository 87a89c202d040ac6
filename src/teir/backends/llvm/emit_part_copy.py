"""Rows copied step by step, complex ones in parts: real ones of two vectors, then imaginary ones.

Loops over outer, batch and k read a column of rows each; what is written is adjacent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_parts import in_parts
from teir.backends.llvm.emit_products import Arithmetic
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.lower.access import Access
from teir.lower.kernels import PartCopy
from teir.target import Isa

PART_COPY_ARGUMENTS = ("k", "a_k", "batch", "a_batch", "outer", "a_outer", "last_lanes")


def emit_part_copy_body(kernel: PartCopy, isa: Isa) -> FunctionText:
    """The body of the function for operands %A, %B (the room) and the arguments of `PartCopy`."""
    text = FunctionText()
    text.label("entry")
    lanes = [_lanes(text, kernel, isa, None)] * kernel.vectors
    if kernel.masked:
        lanes[-1] = _lanes(text, kernel, isa, "%last_lanes")
    step = partial(_copy_step, text, kernel, isa, tuple(lanes))
    levels = (("outer", "%a_outer"), ("batch", "%a_batch"), ("k", "%a_k"))
    _emit_nest(text, levels, ["%A", "%B"], step)
    text.effect("ret void")
    return text


def _lanes(text: FunctionText, kernel: PartCopy, isa: Isa, existing: str | None) -> Lanes:
    return lanes_in_memory(text, isa, kernel.data_type, kernel.lanes, Access.UNIT, "0", existing)


def _emit_nest(
    text: FunctionText,
    levels: tuple[tuple[str, str], ...],
    places: Values,
    step: Callable[[Values], Values],
) -> Values:
    """Loops of so many passes, A moved by so much in each; the places behind what was copied."""
    if not levels:
        return step(places)
    (name, stride), *inner = levels

    def body(now: Values) -> Values:
        _, room = _emit_nest(text, tuple(inner), now, step)
        return [shift_pointer(text, now[0], stride), room]

    carried = [Carried("ptr", place) for place in places]
    return emit_loop(text, f"every_{name}", f"%{name}", 1, carried, body)[1]


def _copy_step(
    text: FunctionText, kernel: PartCopy, isa: Isa, lanes: tuple[Lanes, ...], places: Values
) -> Values:
    """One column of rows; the places after it, the first one still."""
    a, room = places
    rows_bytes = kernel.lanes * kernel.data_type.width
    kind = Arithmetic(isa, kernel.data_type, lanes[0].numbers)
    elements = [
        load(text, vector, shift_pointer(text, a, number * rows_bytes))
        for number, vector in enumerate(lanes)
    ]
    if kernel.data_type.is_complex:
        elements = in_parts(text, kind, elements)
    for number, part in enumerate(elements):
        place = shift_pointer(text, room, number * rows_bytes)
        text.effect(f"store {kind.kind} {part}, ptr {place}, align 1")
    return [a, shift_pointer(text, room, kernel.vectors * rows_bytes)]
