"""A vector times a large matrix with adjacent rows: some rows at a time, over their length.

    for every ``rows`` rows (then for the rows left, one by one)
      one element of the vector per row in all lanes, unless the vector's place moves along m too
      the elements in front of the first whole line of out, masked
      for every vector along m: what out holds, one multiply-add per row, store

Read in this order the matrix comes in a few long runs, which prefetchers follow. The sums wait in
the first cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from teir.backends.llvm.emit_chunks import elements_in_front
from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_when
from teir.backends.llvm.emit_numbers import numbers_per_element, round_factor, widen
from teir.backends.llvm.emit_products import (
    Arithmetic,
    Scale,
    add_product,
    as_factor,
    as_scale,
    load_scale,
)
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, shuffle
from teir.lower.access import Access
from teir.lower.kernels import RowSweep
from teir.target import Isa

ROW_SWEEP_ARGUMENTS = ("m", "k", "a_k", "b_k", "accumulate")

_WIDE = 2
"""Vectors of one pass along a row."""
_LONG_VECTORS = 8
"""Vectors of a row from which its lines are worth an incomplete vector in front."""


def emit_row_sweep_body(kernel: RowSweep, isa: Isa) -> FunctionText:
    """The body of the function for operands %A, %B, %C and the arguments of `RowSweep`."""
    text = FunctionText()
    text.label("entry")
    body = _Body(text, kernel, isa)
    left, now = "%k", ["%A", "%B", "%accumulate"]
    for rows in dict.fromkeys((kernel.rows, 1)):
        kinds = ("ptr", "ptr", "i64")
        carried = [Carried(*pair) for pair in zip(kinds, now, strict=True)]
        left, now = emit_loop(text, f"rows{rows}", left, rows, carried, partial(body.sweep, rows))
    text.effect("ret void")
    return text


@dataclass(frozen=True, slots=True)
class _Sweep:
    """What is fixed during one pass along the rows: their offsets, and the factors of each."""

    a_rows: tuple[str | int, ...]
    b_rows: tuple[str | int, ...]
    scales: tuple[Scale, ...]
    """One per row; none where B moves along m."""
    counts: str


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written."""

    text: FunctionText
    kernel: RowSweep
    isa: Isa

    def sweep(self, rows: int, now: Values) -> Values:
        """Add ``rows`` rows to the sums; returns where the next ones lie, and that sums count."""
        text, (a, b, counts) = self.text, now
        some = text.value(f"icmp ne i64 {counts}, 0")
        a_rows = tuple(self._times("%a_k", row) for row in range(rows))
        b_rows = tuple(self._times("%b_k", row) for row in range(rows))
        moves = self.kernel.b_access is Access.UNIT
        kind = self._kind(self.kernel.lanes)
        scales = (
            ()
            if moves
            else tuple(load_scale(text, kind, shift_pointer(text, b, offset)) for offset in b_rows)
        )
        sweep = _Sweep(a_rows, b_rows, scales, some)
        places, left = [a, "%C", b], "%m"
        if self.isa.has_masks and self.kernel.lanes > 1:
            places, left = self._head(f"rows{rows}_head", sweep, places)
        for vectors in (_WIDE, 1):
            step = partial(self._step, sweep, vectors, None)
            carried = [Carried("ptr", place) for place in places]
            label = f"rows{rows}_{vectors}"
            left, places = emit_loop(text, label, left, vectors * self.kernel.lanes, carried, step)
        self._rest(f"rows{rows}_rest", left, partial(self._step, sweep, 1, left), places)
        return [
            shift_pointer(text, a, self._times("%a_k", rows)),
            shift_pointer(text, b, self._times("%b_k", rows)),
            "1",
        ]

    def _head(self, label: str, sweep: _Sweep, places: Values) -> tuple[Values, str]:
        """The elements in front of the first line of a long C; the places after them, and how many
        are left."""
        text, width = self.text, self.kernel.data_type.width
        lanes = self.kernel.lanes
        head = elements_in_front(text, places[1], width, lanes, _LONG_VECTORS * lanes)
        some = text.value(f"icmp ne i64 {head}, 0")

        def masked() -> Values:
            self._step(sweep, 1, head, places)
            return []

        emit_when(text, label, some, [], masked)
        moved = text.value(f"mul i64 {head}, {width}")
        moves = 3 if self.kernel.b_access is Access.UNIT else 2
        following = [shift_pointer(text, place, moved) for place in places[:moves]]
        return [*following, *places[moves:]], text.value(f"sub i64 %m, {head}")

    def _kind(self, lanes: int) -> Arithmetic:
        count = lanes * numbers_per_element(self.kernel.data_type)
        return Arithmetic(self.isa, self.kernel.data_type, count)

    def _times(self, stride: str, count: int) -> str | int:
        if count < 2:
            return stride if count else 0
        return self.text.value(f"mul i64 {stride}, {count}")

    def _rest(
        self, label: str, left: str, step: Callable[[Values], Values], places: Values
    ) -> None:
        """The elements that fill no vector: masked, or one by one where there are no masks."""
        if self.kernel.lanes == 1:
            return
        if not self.isa.has_masks:
            carried = [Carried("ptr", place) for place in places]
            emit_loop(self.text, label, left, 1, carried, step)
            return

        def masked() -> Values:
            step(places)
            return []

        some = self.text.value(f"icmp sgt i64 {left}, 0")
        emit_when(self.text, label, some, [], masked)

    def _step(self, sweep: _Sweep, vectors: int, rest: str | None, places: Values) -> Values:
        """Some vectors of the sums; ``rest`` is how many elements are left where fewer are."""
        text, (a, c, b) = self.text, places
        single = rest is not None and not self.isa.has_masks
        lanes = self._lanes(1 if single else self.kernel.lanes, None if single else rest)
        kind, width = self._kind(lanes.count), lanes.count * self.kernel.data_type.width
        sums = [
            self._sum(lanes, kind, shift_pointer(text, c, number * width), sweep.counts)
            for number in range(vectors)
        ]
        for row, offset in enumerate(sweep.a_rows):
            a_row, b_row = shift_pointer(text, a, offset), sweep.b_rows[row]
            for number in range(vectors):
                factor = as_factor(text, kind, self._load(lanes, kind, a_row, number * width))
                if sweep.scales:
                    scale = sweep.scales[row]
                    scale = self._narrowed(scale, kind) if single else scale
                else:
                    place = shift_pointer(text, b, b_row)
                    scale = as_scale(text, kind, self._load(lanes, kind, place, number * width))
                sums[number] = add_product(text, kind, factor, scale, sums[number])
        for number, total in enumerate(sums):
            store(text, lanes, shift_pointer(text, c, number * width), total)
        moved = (a, c, b) if self.kernel.b_access is Access.UNIT else (a, c)
        following = [shift_pointer(text, place, vectors * width) for place in moved]
        return [*following, b][:3]

    def _load(self, lanes: Lanes, kind: Arithmetic, place: str, offset: int) -> str:
        stored = load(self.text, lanes, shift_pointer(self.text, place, offset))
        numbers = widen(self.text, kind.data_type, self.isa, stored, kind.count)
        return round_factor(self.text, kind.data_type, numbers, kind.count)

    def _lanes(self, count: int, existing: str | None) -> Lanes:
        return lanes_in_memory(
            self.text, self.isa, self.kernel.data_type, count, Access.UNIT, "", existing
        )

    def _narrowed(self, scale: Scale, kind: Arithmetic) -> Scale:
        """The scale of a whole vector as that of one element."""
        whole = self._kind(self.kernel.lanes)

        def first(numbers: str) -> str:
            lanes = range(kind.count)
            return shuffle(self.text, kind.element, whole.count, numbers, "poison", lanes)

        imaginary = None if scale.imaginary is None else first(scale.imaginary)
        return Scale(first(scale.real), imaginary)

    def _sum(self, lanes: Lanes, kind: Arithmetic, place: str, counts: str) -> str:
        """What the sums start from: the output where it counts, else zero."""
        stored = load(self.text, lanes, place)
        return self.text.value(
            f"select i1 {counts}, {kind.kind} {stored}, {kind.kind} zeroinitializer"
        )
