"""A vector times a large matrix with adjacent rows: some rows at a time, over their length.

    for every ``rows`` rows (then for the rows left, one by one)
      one element of the vector per row in all lanes
      for every vector along m: what out holds, one multiply-add per row, store

Read in this order the matrix comes in a few long runs, which prefetchers follow. The sums wait in
the first cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_when
from teir.backends.llvm.emit_numbers import numbers_per_element, round_factor, widen
from teir.backends.llvm.emit_products import (
    Arithmetic,
    Scale,
    add_product,
    as_factor,
    load_scale,
)
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.lower.kernels import Access, RowSweep
from teir.target import Isa

ROW_SWEEP_ARGUMENTS = ("m", "k", "a_k", "b_k", "accumulate")

_WIDE = 2
"""Vectors of one pass along a row."""


def emit_row_sweep_body(kernel: RowSweep, isa: Isa) -> FunctionText:
    """The body of the function for operands %A, %B, %C and the arguments of `RowSweep`."""
    text = FunctionText()
    text.label("entry")
    count = kernel.lanes * numbers_per_element(kernel.data_type)
    body = _Body(text, kernel, isa, Arithmetic(isa, kernel.data_type, count))
    left, now = "%k", ["%A", "%B", "%accumulate"]
    for rows in dict.fromkeys((kernel.rows, 1)):
        kinds = ("ptr", "ptr", "i64")
        carried = [Carried(*pair) for pair in zip(kinds, now, strict=True)]
        left, now = emit_loop(text, f"rows{rows}", left, rows, carried, partial(body.sweep, rows))
    text.effect("ret void")
    return text


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written."""

    text: FunctionText
    kernel: RowSweep
    isa: Isa
    kind: Arithmetic

    def sweep(self, rows: int, now: Values) -> Values:
        """Add ``rows`` rows to the sums; returns where the next ones lie, and that sums count."""
        text, (a, b, counts) = self.text, now
        some = text.value(f"icmp ne i64 {counts}, 0")
        scales = [
            load_scale(text, self.kind, shift_pointer(text, b, self._times("%b_k", row)))
            for row in range(rows)
        ]
        offsets = [self._times("%a_k", row) for row in range(rows)]
        places, left = [a, "%C"], "%m"
        for vectors in (_WIDE, 1):
            step = partial(self._step, offsets, scales, some, vectors, None)
            carried = [Carried("ptr", place) for place in places]
            label = f"rows{rows}_{vectors}"
            left, places = emit_loop(text, label, left, vectors * self.kernel.lanes, carried, step)
        self._rest(rows, left, partial(self._step, offsets, scales, some, 1, left), places)
        return [
            shift_pointer(text, a, self._times("%a_k", rows)),
            shift_pointer(text, b, self._times("%b_k", rows)),
            "1",
        ]

    def _times(self, stride: str, count: int) -> str | int:
        if count < 2:
            return stride if count else 0
        return self.text.value(f"mul i64 {stride}, {count}")

    def _rest(self, rows: int, left: str, step: partial[Values], places: Values) -> None:
        """The elements that fill no vector: masked, or one by one where there are no masks."""
        if self.kernel.lanes == 1:
            return
        text = self.text
        if self.isa.has_masks:
            some = text.value(f"icmp sgt i64 {left}, 0")

            def masked() -> Values:
                step(places)
                return []

            emit_when(text, f"rows{rows}_rest", some, [], masked)
            return
        carried = [Carried("ptr", place) for place in places]
        emit_loop(text, f"rows{rows}_rest", left, 1, carried, step)

    def _step(
        self,
        offsets: list[str | int],
        scales: list[Scale],
        counts: str,
        vectors: int,
        rest: str | None,
        places: Values,
    ) -> Values:
        """Some vectors of the sums; ``rest`` is how many elements are left where fewer are."""
        a, c = places
        single = rest is not None and not self.isa.has_masks
        lanes = self._lanes(1 if single else self.kernel.lanes, None if single else rest)
        kind = Arithmetic(self.isa, self.kernel.data_type, lanes.numbers)
        if single:
            scales = [self._narrowed(scale, kind) for scale in scales]
        width = lanes.count * self.kernel.data_type.width
        sums = [
            self._sum(lanes, kind, shift_pointer(self.text, c, v * width), counts)
            for v in range(vectors)
        ]
        for offset, scale in zip(offsets, scales, strict=True):
            row = shift_pointer(self.text, a, offset)
            for number in range(vectors):
                stored = load(self.text, lanes, shift_pointer(self.text, row, number * width))
                numbers = widen(self.text, kind.data_type, self.isa, stored, kind.count)
                numbers = round_factor(self.text, kind.data_type, numbers, kind.count)
                factor = as_factor(self.text, kind, numbers)
                sums[number] = add_product(self.text, kind, factor, scale, sums[number])
        for number, total in enumerate(sums):
            store(self.text, lanes, shift_pointer(self.text, c, number * width), total)
        return [shift_pointer(self.text, place, vectors * width) for place in places]

    def _lanes(self, count: int, existing: str | None) -> Lanes:
        return lanes_in_memory(
            self.text, self.isa, self.kernel.data_type, count, Access.UNIT, "", existing
        )

    def _narrowed(self, scale: Scale, kind: Arithmetic) -> Scale:
        """The scale of a whole vector as that of one element."""

        def first(numbers: str) -> str:
            picked = ", ".join(f"i32 {lane}" for lane in range(kind.count))
            return self.text.value(
                f"shufflevector {self.kind.kind} {numbers}, {self.kind.kind} poison, "
                f"<{kind.count} x i32> <{picked}>"
            )

        return Scale(first(scale.real), None if scale.imaginary is None else first(scale.imaginary))

    def _sum(self, lanes: Lanes, kind: Arithmetic, place: str, counts: str) -> str:
        """What the sums start from: the output where it counts, else zero."""
        stored = load(self.text, lanes, place)
        return self.text.value(
            f"select i1 {counts}, {kind.kind} {stored}, {kind.kind} zeroinitializer"
        )
