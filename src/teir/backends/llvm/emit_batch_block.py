"""Small products, one after the other: every extent and stride inside one product is a constant.

    for every product of the batch
      for every block of columns
        accumulators: zero, or what C holds
        for k = 0, 1, ...: vectors of A, and per column one element of B in all lanes; multiply, add
        store

The code of a product has no loop, so the products of a batch overlap in the pipeline and hide each
other's latencies. Where registers hold all of A beside the accumulators, its vectors are loaded
before the first element of B: read in turns, inputs that lie a certain distance apart (in the same
set of the first cache, with the same tag of its way predictor) drive each other out.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_numbers import (
    narrow,
    numbers_per_element,
    require_one_accumulator,
    round_factor,
    widen,
)
from teir.backends.llvm.emit_products import (
    Arithmetic,
    Factor,
    add_product,
    as_factor,
    load_scale,
)
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.kernels import BatchBlock
from teir.target import Isa

_SPARE = 4
"""Registers for what else is at hand."""
BATCH_BLOCK_ARGUMENTS = ("batch", "a_batch", "b_batch", "c_batch", "last_lanes")


def emit_batch_block_body(kernel: BatchBlock, isa: Isa) -> FunctionText:
    """The body of the function for operands %A, %B, %C and the arguments of `BatchBlock`."""
    require_one_accumulator(kernel.in_type, kernel.out_type)
    text = FunctionText()
    text.label("entry")
    body = _Body(
        text,
        kernel,
        isa,
        Arithmetic(isa, kernel.in_type, kernel.lanes * numbers_per_element(kernel.in_type)),
        _vectors(text, kernel, isa, kernel.in_type),
        _vectors(text, kernel, isa, kernel.out_type),
    )
    carried = [Carried("ptr", name) for name in ("%A", "%B", "%C")]
    emit_loop(text, "product", "%batch", 1, carried, body.product)
    text.effect("ret void")
    return text


def _vectors(
    text: FunctionText, kernel: BatchBlock, isa: Isa, data_type: DataType
) -> tuple[Lanes, ...]:
    """How the vectors of one column lie in memory."""

    def lanes(existing: str | None) -> Lanes:
        return lanes_in_memory(text, isa, data_type, kernel.lanes, Access.UNIT, "", existing)

    whole = (lanes(None),) * kernel.vectors
    return (*whole[:-1], lanes("%last_lanes")) if kernel.masked else whole


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written."""

    text: FunctionText
    kernel: BatchBlock
    isa: Isa
    kind: Arithmetic
    a: tuple[Lanes, ...]
    c: tuple[Lanes, ...]

    def product(self, places: Values) -> Values:
        """One product; returns where the next one lies."""
        kernel = self.kernel
        for first in range(0, kernel.columns, kernel.columns_at_once):
            columns = range(first, min(first + kernel.columns_at_once, kernel.columns))
            self._block(places, columns)
        return [
            shift_pointer(self.text, place, f"%{name}_batch")
            for name, place in zip("abc", places, strict=True)
        ]

    def _block(self, places: Values, columns: range) -> None:
        a, b, c = places
        sums = [self._start(c, column) for column in columns]
        places_of_k = [
            shift_pointer(self.text, a, k * self.kernel.a_k) for k in range(self.kernel.depth)
        ]
        early = [self._factors(place) for place in places_of_k] if self._holds_a else []
        for k in range(self.kernel.depth):
            factors = early[k] if early else self._factors(places_of_k[k])
            for number, column in enumerate(columns):
                offset = column * self.kernel.b_n + k * self.kernel.b_k
                scale = load_scale(self.text, self.kind, shift_pointer(self.text, b, offset))
                sums[number] = [
                    add_product(self.text, self.kind, factor, scale, row)
                    for factor, row in zip(factors, sums[number], strict=True)
                ]
        for column, rows in zip(columns, sums, strict=True):
            for number, (lanes, row) in enumerate(zip(self.c, rows, strict=True)):
                value = narrow(self.text, self.kernel.out_type, self.isa, row, self.kind.count)
                store(self.text, lanes, self._place_of_c(c, column, number), value)

    def _start(self, c: str, column: int) -> Values:
        """The accumulators of one column."""
        if self.kernel.from_zero:
            return ["zeroinitializer"] * self.kernel.vectors
        out_type, count = self.kernel.out_type, self.kind.count
        return [
            widen(
                self.text,
                out_type,
                self.isa,
                load(self.text, lanes, self._place_of_c(c, column, number)),
                count,
            )
            for number, lanes in enumerate(self.c)
        ]

    def _place_of_c(self, c: str, column: int, vector_number: int) -> str:
        offset = vector_number * self.kernel.lanes * self.kernel.out_type.width
        return shift_pointer(self.text, c, column * self.kernel.c_n + offset)

    @property
    def _holds_a(self) -> bool:
        """True where registers are left when they hold all sums and all of A."""
        kernel = self.kernel
        vectors = kernel.vectors * (kernel.columns + kernel.depth)
        is_plain = kernel.in_type in (DataType.FP32, DataType.FP64) and kernel.lanes > 1
        return is_plain and not kernel.masked and vectors <= self.isa.vector_registers - _SPARE

    def _load_a(self, lanes: Lanes, address: str) -> str:
        if self._holds_a:
            # Else LLVM moves the loads back to where they are used.
            return self.text.value(f"load volatile {lanes.kind}, ptr {address}, align 1")
        return load(self.text, lanes, address)

    def _factors(self, place: str) -> list[Factor]:
        """The vectors of A at one k."""
        in_type, count = self.kernel.in_type, self.kind.count
        factors = []
        for number, lanes in enumerate(self.a):
            address = shift_pointer(self.text, place, number * self.kernel.lanes * in_type.width)
            numbers = widen(self.text, in_type, self.isa, self._load_a(lanes, address), count)
            rounded = round_factor(self.text, in_type, numbers, count)
            factors.append(as_factor(self.text, self.kind, rounded))
        return factors
