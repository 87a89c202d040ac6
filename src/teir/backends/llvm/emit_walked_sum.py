"""Sums of products over the stored elements of one fibre, a register block of the output at a time.

    load the output, or zero
    for every position: coordinate, places of the inputs, one multiply-add per vector and column
    store

A row that begins inside a cache line would split every load. With ``aligns`` pointers are moved
down to the line of the gathered row: one more vector, the first and the last under masks, so that
every gathered load is one line. All rows begin at the same place of a line, for they are whole
lines apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_when
from teir.backends.llvm.emit_numbers import narrow, numbers_per_element, round_factor, widen
from teir.backends.llvm.emit_products import Arithmetic, add_product, as_factor, as_scale, product
from teir.backends.llvm.emit_text import FunctionText, constants, shift_pointer, splat, vector
from teir.dtypes import DataType
from teir.lower.kernels import Access, Follows, WalkedInput, WalkedSum
from teir.target import Isa

LINE_BYTES = 64


def walked_sum_arguments(kernel: WalkedSum) -> tuple[str, ...]:
    count = range(len(kernel.inputs))
    steps = (f"step{number}" for number in count)
    columns = (f"column{number}" for number in count)
    return ("last_lanes", "accumulate", "c_n", "pos_step", *steps, *columns)


def emit_walked_sum_body(kernel: WalkedSum, isa: Isa, operands: Sequence[str]) -> FunctionText:
    """The body of the function for ``operands`` and the arguments of `WalkedSum`."""
    text = FunctionText()
    text.label("entry")
    pointers = dict(enumerate(operands[kernel.index_arrays :]))
    vectors = _vectors(text, kernel, isa, pointers)
    body = _Body(text, kernel, isa, operands[: kernel.index_arrays], pointers, vectors)
    sums = body.start()
    if kernel.outer is None:
        sums = body.fibre(operands[0], {}, sums)
    else:
        begin, left = emit_fibre(text, kernel.outer[0], operands[0])
        kinds = [Carried("i64", begin), *body.carried(sums)]
        sums = emit_loop(text, "fibres", left, 1, kinds, body.add_fibre)[1][1:]
    body.store(sums)
    text.effect("ret void")
    return text


def emit_fibre(text: FunctionText, pos_type: DataType, pos: str) -> tuple[str, str]:
    """The first position of a fibre, and how many there are."""
    begin = load_index(text, pos_type, pos)
    end = load_index(text, pos_type, shift_pointer(text, pos, pos_type.width))
    return begin, text.value(f"sub i64 {end}, {begin}")


def load_index(text: FunctionText, index_type: DataType, pointer: str) -> str:
    """The index at ``pointer`` as i64."""
    if index_type is DataType.I64:
        return text.value(f"load i64, ptr {pointer}, align 1")
    short = text.value(f"load i32, ptr {pointer}, align 1")
    return text.value(f"sext i32 {short} to i64")


def line_lanes(
    text: FunctionText, data_type: DataType, lanes: int, vectors: int, row: str
) -> tuple[str, list[Lanes]]:
    """The bytes from the row's line to the row, and the vectors that hold it from there on."""
    address = text.value(f"ptrtoint ptr {row} to i64")
    inside = text.value(f"and i64 {address}, {LINE_BYTES - 1}")
    before = text.value(f"udiv i64 {inside}, {data_type.width}")
    wide, numbered = splat(text, "i64", before, lanes), constants("i64", range(lanes))
    many = vector("i64", lanes)
    first = text.value(f"icmp uge {many} {numbered}, {wide}")
    last = text.value(f"icmp ult {many} {numbered}, {wide}")
    whole = Lanes(data_type, lanes)
    ends = (Lanes(data_type, lanes, mask=first), Lanes(data_type, lanes, mask=last))
    return inside, [ends[0], *[whole] * (vectors - 1), ends[1]]


def _vectors(
    text: FunctionText, kernel: WalkedSum, isa: Isa, pointers: dict[int, str]
) -> list[tuple[Lanes, Lanes]]:
    """Input lanes and output lanes of every vector; moves the pointers of rows to their lines."""
    if kernel.aligns is None:
        existing = "%last_lanes" if kernel.masked else None
        pairs = []
        for number in range(kernel.vectors):
            left = existing if number == kernel.vectors - 1 else None
            pair = tuple(
                lanes_in_memory(text, isa, data_type, kernel.lanes, Access.UNIT, "", left)
                for data_type in (kernel.in_type, kernel.out_type)
            )
            pairs.append((pair[0], pair[1]))
        return pairs
    row = pointers[kernel.aligns]
    inside, lanes = line_lanes(text, kernel.in_type, kernel.lanes, kernel.vectors, row)
    back = text.value(f"sub i64 0, {inside}")
    for number, one in enumerate(kernel.inputs):
        if one.access is Access.UNIT:
            pointers[number] = shift_pointer(text, pointers[number], back)
    output = len(kernel.inputs)
    pointers[output] = shift_pointer(text, pointers[output], back)
    return [(one, one) for one in lanes]


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written; ``pointers`` by number of the input, the output last."""

    text: FunctionText
    kernel: WalkedSum
    isa: Isa
    arrays: Sequence[str]
    """The index arrays, those of the level above first."""
    pointers: dict[int, str]
    vectors: list[tuple[Lanes, Lanes]]

    @property
    def kind(self) -> Arithmetic:
        count = self.kernel.lanes * numbers_per_element(self.kernel.in_type)
        return Arithmetic(self.isa, self.kernel.in_type, count)

    def start(self) -> Values:
        """What the sums start from, columns outermost."""
        count = self.kernel.columns * len(self.vectors)
        zeros = [Carried(self.kind.kind, "zeroinitializer")] * count
        some = self.text.value("icmp ne i64 %accumulate, 0")
        return emit_when(self.text, "preload", some, zeros, self._preload)

    def _preload(self) -> Values:
        sums = []
        for column in range(self.kernel.columns):
            for number, (_, lanes) in enumerate(self.vectors):
                stored = load(self.text, lanes, self._output(column, number))
                kind = self.kernel.out_type
                sums.append(widen(self.text, kind, self.isa, stored, self.kind.count))
        return sums

    def store(self, sums: Values) -> None:
        count, kind = len(self.vectors), self.kernel.out_type
        for column in range(self.kernel.columns):
            for number, (_, lanes) in enumerate(self.vectors):
                total = sums[column * count + number]
                stored = narrow(self.text, kind, self.isa, total, self.kind.count)
                store(self.text, lanes, self._output(column, number), stored)

    def _output(self, column: int, number: int) -> str:
        place = shift_pointer(
            self.text, self.pointers[len(self.kernel.inputs)], self._times("%c_n", column)
        )
        width = self.kernel.lanes * self.kernel.out_type.width
        return shift_pointer(self.text, place, number * width)

    def carried(self, sums: Values) -> list[Carried]:
        return [Carried(self.kind.kind, value) for value in sums]

    def add_fibre(self, now: Values) -> Values:
        """The products of one fibre below a position of the level above."""
        text, (position, *sums) = self.text, now
        outer = self.kernel.outer
        assert outer is not None
        coordinate = self._coordinate(outer[1], self.arrays[1], position)
        index = {Follows.OUTER_POSITION: position, Follows.OUTER_COORDINATE: coordinate}
        byte = text.value(f"mul i64 {position}, %pos_step")
        sums = self.fibre(shift_pointer(text, self.arrays[2], byte), index, sums)
        return [text.value(f"add i64 {position}, 1"), *sums]

    def fibre(self, pos: str, outer: Mapping[Follows, str], sums: Values) -> Values:
        """The sums after one fibre."""
        begin, left = emit_fibre(self.text, self.kernel.pos_type, pos)
        carried = [Carried("i64", begin), *self.carried(sums)]
        fixed = self._places(outer)
        add = partial(self._add, fixed)
        return emit_loop(self.text, "fibre", left, 1, carried, add)[1][1:]

    def _coordinate(self, index_type: DataType, crd: str, position: str) -> str:
        byte = self.text.value(f"mul i64 {position}, {index_type.width}")
        return load_index(self.text, index_type, shift_pointer(self.text, crd, byte))

    def _add(self, fixed: Mapping[int, str], now: Values) -> Values:
        """The products of one position; ``fixed`` holds the places it does not move."""
        text, (position, *sums) = self.text, now
        index = {Follows.POSITION: position}
        if any(one.follows is Follows.COORDINATE for one in self.kernel.inputs):
            crd_type, crd = self.kernel.crd_type, self.arrays[-1]
            index[Follows.COORDINATE] = self._coordinate(crd_type, crd, position)
        places = {**fixed, **self._places(index)}
        totals = []
        for column in range(self.kernel.columns):
            totals += self._column(column, places, sums[column * len(self.vectors) :])
        return [text.value(f"add i64 {position}, 1"), *totals]

    def _places(self, index: Mapping[Follows, str]) -> dict[int, str]:
        """The places of the inputs that follow what ``index`` holds, and of those that stay."""
        places = {}
        for number, one in enumerate(self.kernel.inputs):
            if one.follows in index:
                byte = self.text.value(f"mul i64 {index[one.follows]}, %step{number}")
                places[number] = shift_pointer(self.text, self.pointers[number], byte)
            elif one.follows is Follows.NOTHING:
                places[number] = self.pointers[number]
        return places

    def _column(self, column: int, places: Mapping[int, str], sums: list[str]) -> list[str]:
        """The sums of one column; what all lanes share is multiplied once."""
        inputs = self.kernel.inputs
        shared: str | None = None
        rows: list[str] | None = None
        for number, one in enumerate(inputs):
            is_last = number == len(inputs) - 1
            loaded = self._load(one, number, column, places)
            if is_last:
                return self._fused(rows, shared, loaded, sums)
            if rows is None and shared is None:
                shared, rows = (loaded[0], None) if len(loaded) == 1 else (None, loaded)
            elif rows is None and shared is not None and len(loaded) == 1:
                shared = self._product(shared, loaded[0])
            else:
                left = rows if rows is not None else [shared or ""] * len(self.vectors)
                right = loaded * (len(self.vectors) // len(loaded))
                rows = [self._product(a, b) for a, b in zip(left, right, strict=True)]
        raise AssertionError("a product has inputs")

    def _fused(
        self, rows: list[str] | None, shared: str | None, last: list[str], sums: list[str]
    ) -> list[str]:
        text, kind, count = self.text, self.kind, len(self.vectors)
        last = last * (count // len(last))
        if rows is None and shared is None:
            return [
                text.value(f"fadd {kind.kind} {total}, {one}")
                for total, one in zip(sums, last, strict=False)
            ]
        left = rows if rows is not None else [shared or ""] * count
        return [
            add_product(text, kind, as_factor(text, kind, a), as_scale(text, kind, b), total)
            for a, b, total in zip(left, last, sums, strict=False)
        ]

    def _product(self, left: str, right: str) -> str:
        text, kind = self.text, self.kind
        return product(text, kind, as_factor(text, kind, left), as_scale(text, kind, right))

    def _load(
        self, one: WalkedInput, number: int, column: int, places: Mapping[int, str]
    ) -> list[str]:
        """One vector for all lanes, or one per vector of the row."""
        text, data_type = self.text, self.kernel.in_type
        place = places[number]
        if one.has_columns:
            place = shift_pointer(text, place, self._times(f"%column{number}", column))
        if one.access is Access.BROADCAST:
            return [
                self._ready(load(text, Lanes(data_type, self.kernel.lanes, broadcast=True), place))
            ]
        width = self.kernel.lanes * data_type.width
        return [
            self._ready(load(text, lanes, shift_pointer(text, place, vector_number * width)))
            for vector_number, (lanes, _) in enumerate(self.vectors)
        ]

    def _ready(self, stored: str) -> str:
        text, data_type, count = self.text, self.kernel.in_type, self.kind.count
        numbers = widen(text, data_type, self.isa, stored, count)
        if len(self.kernel.inputs) == 1:
            return numbers
        return round_factor(text, data_type, numbers, count)

    def _times(self, stride: str, count: int) -> str | int:
        if count < 2:
            return stride if count else 0
        return self.text.value(f"mul i64 {stride}, {count}")
