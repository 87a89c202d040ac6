"""Dot products of one row with the rows that a fibre names, some stored elements at a time.

    load the fixed row
    for every ``ROWS`` positions, then for fewer
      one multiply-add per vector and position, chains halved side by side, one store

The fixed row waits in registers. Rows are read in whole cache lines as in `emit_walked_sum`: that
turns the chains in a circle, and chains that are halved are half a circle apart wherever it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from teir.backends.llvm.emit_fibres import emit_fibre, line_lanes, load_index
from teir.backends.llvm.emit_halving import emit_halving
from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_numbers import narrow, round_factor, widen
from teir.backends.llvm.emit_products import Arithmetic, multiply_add
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, vector
from teir.lower.kernels import Access, WalkedDots
from teir.target import Isa

WALKED_DOTS_ARGUMENTS = ("last_lanes", "accumulate", "b_stride")

_ROWS = (8, 4, 1)


def emit_walked_dots_body(kernel: WalkedDots, isa: Isa, operands: Sequence[str]) -> FunctionText:
    """The body of the function for ``operands`` and the arguments of `WalkedDots`."""
    text = FunctionText()
    text.label("entry")
    begin, left = emit_fibre(text, kernel.pos_type, operands[0])
    a, b = operands[2:4]
    lanes = _lanes(text, kernel, isa)
    if kernel.aligns:
        inside, lanes = line_lanes(text, kernel.data_type, kernel.lanes, kernel.vectors, b)
        back = text.value(f"sub i64 0, {inside}")
        a, b = shift_pointer(text, a, back), shift_pointer(text, b, back)
    body = _Body(text, kernel, isa, operands[1], b, operands[4:], lanes, [])
    body.fixed.extend(body.row(a))
    position = begin
    for rows in _ROWS:
        step = partial(body.dots, rows)
        carried = [Carried("i64", position)]
        left, (position,) = emit_loop(text, f"rows{rows}", left, rows, carried, step)
    text.effect("ret void")
    return text


def _lanes(text: FunctionText, kernel: WalkedDots, isa: Isa) -> list[Lanes]:
    """The vectors of a row, ``chains`` elements after one another."""
    per_chain = kernel.chains // kernel.lanes
    made = []
    for number in range(kernel.vectors * per_chain):
        left = None
        if kernel.masked and number >= (kernel.vectors - 1) * per_chain:
            before = (number - (kernel.vectors - 1) * per_chain) * kernel.lanes
            rest = text.value(f"sub i64 %last_lanes, {before}")
            some = text.value(f"icmp sgt i64 {rest}, 0")
            left = text.value(f"select i1 {some}, i64 {rest}, i64 0")
        unit = Access.UNIT
        made.append(lanes_in_memory(text, isa, kernel.data_type, kernel.lanes, unit, "", left))
    return made


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written; ``fixed`` holds the vectors of the fixed row."""

    text: FunctionText
    kernel: WalkedDots
    isa: Isa
    crd: str
    b: str
    ends: Sequence[str]
    lanes: list[Lanes]
    fixed: list[str]

    @property
    def kind(self) -> Arithmetic:
        return Arithmetic(self.isa, self.kernel.data_type, self.kernel.lanes)

    def row(self, place: str) -> list[str]:
        width = self.kernel.lanes * self.kernel.data_type.width
        return [self._factor(place, number, width) for number in range(len(self.lanes))]

    def _factor(self, place: str, number: int, width: int) -> str:
        text, data_type = self.text, self.kernel.data_type
        stored = load(text, self.lanes[number], shift_pointer(text, place, number * width))
        numbers = widen(text, data_type, self.isa, stored, self.kernel.lanes)
        return round_factor(text, data_type, numbers, self.kernel.lanes)

    def dots(self, rows: int, now: Values) -> Values:
        """The dot products of ``rows`` positions."""
        text, (position,) = self.text, now
        chains = [self._chains(position, row) for row in range(rows)]
        packs = emit_halving(text, self.kind, chains, 1)
        self._finish(position, rows, [pack.value for pack in packs])
        return [text.value(f"add i64 {position}, {rows}")]

    def _chains(self, position: str, row: int) -> list[str]:
        text, kernel, kind = self.text, self.kernel, self.kind
        at = text.value(f"add i64 {position}, {row}")
        byte = text.value(f"mul i64 {at}, {kernel.crd_type.width}")
        coordinate = load_index(text, kernel.crd_type, shift_pointer(text, self.crd, byte))
        place = shift_pointer(text, self.b, text.value(f"mul i64 {coordinate}, %b_stride"))
        count = kernel.chains // kernel.lanes
        sums = ["zeroinitializer"] * count
        width = kernel.lanes * kernel.data_type.width
        for number, fixed in enumerate(self.fixed):
            loaded = self._factor(place, number, width)
            sums[number % count] = multiply_add(text, kind, fixed, loaded, sums[number % count])
        return sums

    def _finish(self, position: str, rows: int, dots: list[str]) -> None:
        """out += scale * dot on as many elements as one pack holds."""
        text, data_type = self.text, self.kernel.data_type
        each = rows // len(dots)
        kind = Arithmetic(self.isa, data_type, each)
        lanes = Lanes(data_type, each)
        for number, dot in enumerate(dots):
            at = text.value(f"add i64 {position}, {number * each}")
            byte = text.value(f"mul i64 {at}, {data_type.width}")
            out = shift_pointer(text, self.ends[-1], byte)
            stored = widen(text, data_type, self.isa, load(text, lanes, out), each)
            some = text.value("icmp ne i64 %accumulate, 0")
            start = text.value(
                f"select i1 {some}, {kind.kind} {stored}, {kind.kind} zeroinitializer"
            )
            if self.kernel.scales:
                place = shift_pointer(text, self.ends[0], byte)
                scale = widen(text, data_type, self.isa, load(text, lanes, place), each)
                scale = round_factor(text, data_type, scale, each)
                dot = round_factor(text, data_type, dot, each)
                total = multiply_add(text, kind, scale, dot, start)
            else:
                total = text.value(f"fadd {vector(kind.element, each)} {start}, {dot}")
            store(text, lanes, out, narrow(text, data_type, self.isa, total, each))
