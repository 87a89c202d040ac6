"""The sums of one block over one fibre, or over the fibres of a fibre, while they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as product_of

from teir.backends.llvm.emit_fibre_chains import FibreChains
from teir.backends.llvm.emit_fibres import emit_fibre, load_index
from teir.backends.llvm.emit_lanes import Lanes, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_to_zero, emit_when
from teir.backends.llvm.emit_masked_products import add_product_in_memory, multiplies_in_memory
from teir.backends.llvm.emit_numbers import (
    narrow,
    numbers_per_element,
    round_factor,
    stored_number,
    widen,
)
from teir.backends.llvm.emit_opaque import opaque
from teir.backends.llvm.emit_products import Arithmetic, add_product, as_factor, as_scale, product
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    prefetch,
    prefetch_to_write,
    shift_pointer,
    splat,
)
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.walked_kernels import Follows, WalkedSum
from teir.target import LINE_BYTES, Isa

_ASKED_LINES = 16
_MOST_VECTORS_UNASKED = 8


@dataclass(frozen=True, slots=True)
class SumBody:
    """The body while it is written; ``pointers`` by number of the input, the output last."""

    text: FunctionText
    kernel: WalkedSum
    isa: Isa
    arrays: Sequence[str]
    """The index arrays, those of the level above first."""
    pointers: dict[int, str]
    vectors: list[tuple[int, Lanes, Lanes]]
    """Number of the vector, its lanes in inputs and in the output."""
    columns: Mapping[int, str]
    c_n: str
    last: Mapping[Follows, str]
    """The last positions, where rows are brought near ahead."""
    inside: str = ""
    """The bytes from the line of a row to the row, where one is read in whole lines."""
    first_fibre: tuple[str, str] | None = None
    """First position and length of the fibre that the first array bounds, where they are known."""
    begins_from_zero: bool = False
    """True where it is known that no sum starts from the output."""

    @property
    def kind(self) -> Arithmetic:
        count = self.kernel.lanes * numbers_per_element(self.kernel.in_type)
        return Arithmetic(self.isa, self.kernel.in_type, count)

    @property
    def first_pos_type(self) -> DataType:
        """The type of the bounds in the first array."""
        return self.kernel.pos_type if self.kernel.outer is None else self.kernel.outer[0]

    def sum(self, label: str) -> None:
        """All sums of the block; ``label`` tells the loops of several blocks apart."""
        text, outer = self.text, self.kernel.outer
        sums = self.start(label)
        begin, left = self.first_fibre or emit_fibre(text, self.first_pos_type, self.arrays[0])
        if outer is None:
            sums = self.sum_fibre(label, (begin, left), {}, sums)
        else:
            kinds = [Carried("i64", begin), *self.carried(sums)]
            add = partial(self.add_fibre, label)
            sums = emit_loop(text, f"fibres{label}", left, 1, kinds, add)[1][1:]
        self.store(sums)

    def start(self, label: str) -> Values:
        """What the sums start from, columns outermost."""
        count = self.kernel.columns * len(self.vectors)
        zeros = [Carried(self.kind.kind, "zeroinitializer")] * count
        if self.begins_from_zero:
            return [one.start for one in zeros]
        some = self.text.value("icmp ne i64 %accumulate, 0")
        return emit_when(self.text, f"preload{label}", some, zeros, self._preload)

    def _preload(self) -> Values:
        sums = []
        for column in range(self.kernel.columns):
            for number, _, lanes in self.vectors:
                stored = load(self.text, lanes, self._output(column, number))
                kind = self.kernel.out_type
                sums.append(widen(self.text, kind, self.isa, stored, self.kind.count))
        return sums

    def store(self, sums: Values) -> None:
        count, kind = len(self.vectors), self.kernel.out_type
        for column in range(self.kernel.columns):
            for place, (number, _, lanes) in enumerate(self.vectors):
                total = sums[column * count + place]
                stored = narrow(self.text, kind, self.isa, total, self.kind.count)
                store(self.text, lanes, self._output(column, number), stored)

    def _output(self, column: int, number: int) -> str:
        place = shift_pointer(
            self.text, self.pointers[len(self.kernel.inputs)], self.times(self.c_n, column)
        )
        width = self.kernel.lanes * self.kernel.out_type.width
        return shift_pointer(self.text, place, number * width)

    def carried(self, sums: Values) -> list[Carried]:
        return [Carried(self.kind.kind, value) for value in sums]

    def add_fibre(self, label: str, now: Values) -> Values:
        """The products of one fibre below a position of the level above."""
        text, (position, *sums) = self.text, now
        outer = self.kernel.outer
        assert outer is not None
        coordinate = self._coordinate(outer[1], self.arrays[1], position)
        self._bring_near(Follows.OUTER_COORDINATE, outer[1], self.arrays[1], position)
        index = {Follows.OUTER_POSITION: position, Follows.OUTER_COORDINATE: coordinate}
        byte = text.value(f"mul i64 {position}, %pos_step")
        pos = shift_pointer(text, self.arrays[2], byte)
        fibre = emit_fibre(text, self.kernel.pos_type, pos)
        sums = self.sum_fibre(label, fibre, index, sums)
        return [text.value(f"add i64 {position}, 1"), *sums]

    def sum_fibre(
        self, label: str, fibre: tuple[str, str], outer: Mapping[Follows, str], sums: Values
    ) -> Values:
        """The sums after one fibre, of which the first position and the length are given."""
        begin, left = fibre
        if self.kernel.chains is not None:
            return [self._in_chains(label, fibre, outer, sums[0])]
        if self.counts_to_zero:
            end = self.text.value(f"add i64 {begin}, {left}")
            return self.from_position(end).sum_to_zero(f"fibre{label}", left, sums)
        carried = [Carried("i64", begin), *self.carried(sums)]
        fixed = self._places(outer)
        add = partial(self.add_position, fixed)
        return emit_loop(self.text, f"fibre{label}", left, 1, carried, add)[1][1:]

    @property
    def counts_to_zero(self) -> bool:
        """Whether the positions of a fibre are counted up to zero, from its end: of rows whose
        inputs lie one after another."""
        kernel = self.kernel
        if kernel.rows is None or kernel.columns > 1:
            return False
        if any(one is not None for one in (kernel.outer, kernel.ahead, kernel.chains)):
            return False
        return all(
            one.access is Access.BROADCAST and adjacent
            for one, adjacent in zip(kernel.inputs, kernel.adjacent, strict=True)
            if one.follows is Follows.POSITION
        )

    def sum_to_zero(self, label: str, left: str, sums: Values) -> Values:
        """The sums of ``left`` positions before those this body's places count from."""
        fixed = self._places({})

        def add(index: str, now: Values) -> Values:
            self._ask_for_result(index)
            return self.add_position(fixed, [index, *now])[1:]

        carried, has_vector = self.carried(sums), self.kind.fills_masked_vector
        return emit_to_zero(self.text, label, left, carried, add, has_vector=has_vector)

    def _ask_for_result(self, index: str) -> None:
        """One line of a long row of the output for every position, round and round.

        The lines of a result are in no near cache when they are written, and asked for all at once
        they stand in the way of those that are read. Measured on a Golden Cove core: 0.92 to 0.97
        of the time of rows of 1 KB, nothing for rows of 512 bytes.
        """
        text = self.text
        if not self.isa.asks_nearest or self.kernel.vectors <= _MOST_VECTORS_UNASKED:
            return
        number = text.value(f"and i64 {index}, {_ASKED_LINES - 1}")
        byte = text.value(f"mul i64 {number}, {LINE_BYTES}")
        output = self.pointers[len(self.kernel.inputs)]
        prefetch_to_write(text, shift_pointer(text, output, byte))

    def _in_chains(
        self, label: str, fibre: tuple[str, str], outer: Mapping[Follows, str], sum_: str
    ) -> str:
        """``sum_`` and the sum of one fibre."""
        text, kernel, chains = self.text, self.kernel, self.kernel.chains
        assert chains is not None
        element = stored_number(kernel.in_type)
        factors = {}
        for number, place in self._places(outer).items():
            loaded = text.value(f"load {element}, ptr {place}, align 1")
            factors[number] = splat(text, element, loaded, chains)
        crd = self.arrays[-1]
        fibre_sum = FibreChains(text, kernel, self.isa, crd, self.pointers, factors)
        return text.value(f"fadd {self.kind.kind} {sum_}, {fibre_sum.total(label, *fibre)}")

    def _coordinate(self, index_type: DataType, crd: str, position: str) -> str:
        byte = self.text.value(f"mul i64 {position}, {index_type.width}")
        return load_index(self.text, index_type, shift_pointer(self.text, crd, byte))

    def add_position(self, fixed: Mapping[int, str], now: Values) -> Values:
        """The products of one position; ``fixed`` holds the places it does not move."""
        text, (position, *sums) = self.text, now
        index = {Follows.POSITION: position}
        if any(one.follows is Follows.COORDINATE for one in self.kernel.inputs):
            crd_type, crd = self.kernel.crd_type, self.arrays[-1]
            index[Follows.COORDINATE] = self._coordinate(crd_type, crd, position)
        self._bring_near(Follows.COORDINATE, self.kernel.crd_type, self.arrays[-1], position)
        places = {**fixed, **self._formed(self._places(index))}
        here, count = _Position(self, places, {}), len(self.vectors)
        totals = dict(enumerate(sums))
        for number in self._order():
            column, place = divmod(number, count)
            totals[number] = here.total(column, place, totals[number])
        return [text.value(f"add i64 {position}, 1"), *totals.values()]

    def _bring_near(self, follows: Follows, crd_type: DataType, crd: str, position: str) -> None:
        """Rows that follow the coordinate some positions further on are fetched."""
        text = self.text
        rows = [
            number
            for number, one in enumerate(self.kernel.inputs)
            if one.access is Access.UNIT and one.follows is follows
        ]
        if follows not in self.last or not rows:
            return
        far = text.value(f"add i64 {position}, {self.kernel.ahead}")
        far = text.value(f"call i64 @llvm.smin.i64(i64 {far}, i64 {self.last[follows]})")
        places = self._places({follows: self._coordinate(crd_type, crd, far)})
        row_bytes = len(self.vectors) * self.kernel.lanes * self.kernel.in_type.width
        cache = Cache.FIRST if self.isa.asks_nearest else Cache.SECOND
        for number, line in product_of(rows, range(0, row_bytes, LINE_BYTES)):
            prefetch(text, shift_pointer(text, places[number], line), cache)

    def _order(self) -> list[int]:
        """The sums, those after one another that share what takes most registers."""
        columns, count = self.kernel.columns, len(self.vectors)
        if columns > count:
            return list(range(columns * count))
        return [column * count + place for place in range(count) for column in range(columns)]

    def _places(self, index: Mapping[Follows, str]) -> dict[int, str]:
        """The places of the inputs that follow what ``index`` holds, and of those that stay."""
        places = {}
        for number, one in enumerate(self.kernel.inputs):
            if one.follows in index:
                step = self._step(number, one.follows)
                byte = self.text.value(f"mul i64 {index[one.follows]}, {step}")
                places[number] = shift_pointer(self.text, self.pointers[number], byte)
            elif one.follows is Follows.NOTHING:
                places[number] = self.pointers[number]
        return places

    def _step(self, number: int, follows: Follows) -> str:
        """The bytes of an input from one index to the next."""
        is_known = follows is Follows.POSITION and self.kernel.adjacent[number]
        return str(self.kernel.in_type.width) if is_known else f"%step{number}"

    def _formed(self, places: Mapping[int, str]) -> dict[int, str]:
        """``places``; rows of several vectors whose vectors are read once have one address each.

        LLVM adds a base and an index in each multiply-add otherwise, and processors of Intel split
        one with such an address in two (Optimization Reference Manual, "Micro-fusion").
        """
        kernel = self.kernel
        if not self.isa.multiplies_from_memory or kernel.columns > 1 or len(self.vectors) == 1:
            return dict(places)
        return {
            number: opaque(self.text, "ptr", place)
            if kernel.inputs[number].access is Access.UNIT
            else place
            for number, place in places.items()
        }

    def from_position(self, position: str) -> SumBody:
        """The body of fibres whose positions count from ``position`` on."""
        text, kernel = self.text, self.kernel
        byte = text.value(f"mul i64 {position}, {kernel.crd_type.width}")
        arrays = (*self.arrays[:-1], shift_pointer(text, self.arrays[-1], byte))
        places = {**self.pointers, **self._places({Follows.POSITION: position})}
        return replace(self, arrays=arrays, pointers=places)

    def times(self, stride: str, count: int) -> str | int:
        if count < 2:
            return stride if count else 0
        return self.text.value(f"mul i64 {stride}, {count}")


@dataclass(frozen=True, slots=True)
class _Position:
    """One position while its products are written: what several sums share is made once.

    Sums are told apart by column and vector; ``made`` holds inputs, and products of the first few.
    """

    body: SumBody
    places: Mapping[int, str]
    made: dict[tuple[bool, int, int, int], str]

    def total(self, column: int, vector_number: int, sum_: str) -> str:
        """The sum with this position's product: left to right, the last factor fused."""
        text, kind, last = self.body.text, self.body.kind, len(self.body.kernel.inputs) - 1
        if not last:
            return text.value(f"fadd {kind.kind} {sum_}, {self._input(0, column, vector_number)}")
        left = as_factor(text, kind, self._product(last - 1, column, vector_number))
        lanes = self._lanes(last, vector_number)
        if self.body.kernel.columns == 1 and multiplies_in_memory(kind, lanes):
            place = self._place(last, column, vector_number)
            return add_product_in_memory(text, kind, left.numbers, lanes, place, sum_)
        right = self._input(last, column, vector_number)
        return add_product(text, kind, left, as_scale(text, kind, right), sum_)

    def _product(self, last: int, column: int, vector_number: int) -> str:
        """The product of the inputs up to ``last``."""
        if not last:
            return self._input(0, column, vector_number)
        key = self._key(True, range(last + 1), column, vector_number)
        if key not in self.made:
            text, kind = self.body.text, self.body.kind
            left = as_factor(text, kind, self._product(last - 1, column, vector_number))
            right = as_scale(text, kind, self._input(last, column, vector_number))
            self.made[key] = product(text, kind, left, right)
        return self.made[key]

    def _input(self, number: int, column: int, vector_number: int) -> str:
        """One input as numbers to multiply."""
        key = self._key(False, range(number, number + 1), column, vector_number)
        if key not in self.made:
            self.made[key] = self._load(number, key[2], vector_number)
        return self.made[key]

    def _key(
        self, is_product: bool, inputs: range, column: int, vector_number: int
    ) -> tuple[bool, int, int, int]:
        used = [self.body.kernel.inputs[number] for number in inputs]
        has_columns = any(one.has_columns for one in used)
        has_vectors = any(one.access is Access.UNIT for one in used)
        return (
            is_product,
            inputs[-1],
            column if has_columns else 0,
            vector_number if has_vectors else 0,
        )

    def _lanes(self, number: int, vector_number: int) -> Lanes:
        kernel = self.body.kernel
        if kernel.inputs[number].access is Access.BROADCAST:
            return Lanes(kernel.in_type, kernel.lanes, broadcast=True)
        return self.body.vectors[vector_number][1]

    def _place(self, number: int, column: int, vector_number: int) -> str:
        """Where the vector of an input begins."""
        body, kernel = self.body, self.body.kernel
        step = body.times(body.columns[number], column)
        place = shift_pointer(body.text, self.places[number], step)
        if kernel.inputs[number].access is Access.BROADCAST:
            return place
        far = body.vectors[vector_number][0]
        return shift_pointer(body.text, place, far * kernel.lanes * kernel.in_type.width)

    def _load(self, number: int, column: int, vector_number: int) -> str:
        body, text, data_type = self.body, self.body.text, self.body.kernel.in_type
        lanes = self._lanes(number, vector_number)
        stored = load(text, lanes, self._place(number, column, vector_number))
        numbers = widen(text, data_type, body.isa, stored, body.kind.count)
        if len(body.kernel.inputs) == 1:
            return numbers
        return round_factor(text, data_type, numbers, body.kind.count)
