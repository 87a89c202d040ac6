"""Sums whose lanes run along the summed axis: dots, and products of a matrix and a vector.

for every block of columns, where there are columns
 for every block of rows (then for the rows left, one by one)
  for every outer reduction
    for every ``chains`` products: load, multiply and add, one chain per lane
    the products left, lanes without one masked
  halve the chains until one is left, the rows of a block side by side; add to the output
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product

from teir.backends.llvm.emit_halving import Pack, emit_halving
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_when
from teir.backends.llvm.emit_numbers import (
    narrow,
    number_bytes,
    numbers_per_element,
    require_one_accumulator,
    round_factor,
    stored_number,
    widen,
)
from teir.backends.llvm.emit_products import Arithmetic, add_all
from teir.backends.llvm.emit_text import (
    FunctionText,
    constants,
    repeated,
    shift_pointer,
    shuffle,
    splat,
    vector,
)
from teir.lower.access import Access
from teir.lower.kernels import DotRows
from teir.target import Isa


def dot_rows_arguments(kernel: DotRows) -> tuple[str, ...]:
    inputs, reductions = range(kernel.inputs), range(kernel.reductions)
    columns = ("n", *(f"n_stride{operand}" for operand in range(kernel.inputs + 1)))
    return (
        "m",
        "accumulate",
        *(f"extent{axis}" for axis in reductions),
        *(f"m_stride{operand}" for operand in range(kernel.inputs + 1)),
        *(f"stride{axis}_{operand}" for axis in reductions for operand in inputs),
        *(columns if kernel.columns > 1 else ()),
    )


def emit_dot_rows_body(kernel: DotRows, isa: Isa, names: tuple[str, ...]) -> FunctionText:
    """The body for operand pointers ``names`` and the arguments of `DotRows`."""
    require_one_accumulator(kernel.in_type, kernel.out_type)
    text = FunctionText()
    text.label("entry")
    kind = Arithmetic(isa, kernel.in_type, kernel.lanes * numbers_per_element(kernel.in_type))
    body = _Body(text, kernel, isa, kind)
    if kernel.columns == 1:
        body.all_rows(1, list(names))
    else:
        left, places = "%n", list(names)
        for columns in (kernel.columns, 1):
            carried = [Carried("ptr", place) for place in places]
            block = partial(body.columns, columns)
            left, places = emit_loop(text, f"columns{columns}", left, columns, carried, block)
    text.effect("ret void")
    return text


_SUFFIX = {"float": "f32", "double": "f64", "i16": "i16"}


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows and columns formed together; for each input where its rows lie, or, where all rows of
    the kernel share it, its columns."""

    rows: int
    columns: int
    offsets: list[list[str | int]]


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written; values of one block of rows are ordered row, then vector."""

    text: FunctionText
    kernel: DotRows
    isa: Isa
    kind: Arithmetic

    @property
    def _vectors(self) -> int:
        """Vectors of accumulators of one row."""
        return self.kernel.chains // self.kernel.lanes

    def columns(self, columns: int, places: Values) -> Values:
        """All rows beside one block of columns; returns where the next one begins."""
        self.all_rows(columns, places)
        return [
            shift_pointer(self.text, place, self._times(f"%n_stride{number}", columns))
            for number, place in enumerate(places)
        ]

    def all_rows(self, columns: int, places: Values) -> None:
        """Blocks of rows beside ``columns`` columns, then the rows left, one by one."""
        left = "%m"
        for rows in dict.fromkeys((self.kernel.rows, 1)):
            block = partial(self.rows, rows, columns)
            carried = [Carried("ptr", place) for place in places]
            label = f"rows{rows}" if self.kernel.columns == 1 else f"columns{columns}_rows{rows}"
            left, places = emit_loop(self.text, label, left, rows, carried, block)

    def rows(self, rows: int, columns: int, places: Values) -> Values:
        """One block of rows and columns; returns where the next rows begin."""
        text, kernel = self.text, self.kernel
        offsets: list[list[str | int]] = [
            [self._times(f"%n_stride{number}", column) for column in range(columns)]
            if is_shared
            else [self._times(f"%m_stride{number}", row) for row in range(rows)]
            for number, is_shared in enumerate(kernel.shared)
        ]
        block = _Block(rows, columns, offsets)
        zeros = ["zeroinitializer"] * (rows * columns * self._vectors)
        name = f"{rows}" if kernel.columns == 1 else f"{rows}by{columns}"
        sums = self._reduce(f"sum{name}", 0, block, places[:-1], zeros)
        for column in range(columns):
            own = sums[column * rows * self._vectors : (column + 1) * rows * self._vectors]
            n_stride = self._times(f"%n_stride{kernel.inputs}", column)
            there = shift_pointer(text, places[-1], n_stride) if column else places[-1]
            self._finish(f"{name}_{column}", there, own)
        return [
            shift_pointer(text, place, self._times(f"%m_stride{number}", rows))
            for number, place in enumerate(places)
        ]

    def _times(self, stride: str, count: int) -> str | int:
        if count == 0:
            return 0
        return stride if count == 1 else self.text.value(f"mul i64 {stride}, {count}")

    def _reduce(self, label: str, axis: int, block: _Block, places: Values, sums: Values) -> Values:
        """The loops over the reductions from ``axis`` on."""
        text, kernel = self.text, self.kernel
        label = f"{label}_{axis}"
        if axis == kernel.reductions - 1:
            return self._sum(label, block, places, sums)

        def body(now: Values) -> Values:
            inner = self._reduce(label, axis + 1, block, now[: len(places)], now[len(places) :])
            moved = [
                shift_pointer(text, place, f"%stride{axis}_{number}")
                for number, place in enumerate(now[: len(places)])
            ]
            return [*moved, *inner]

        carried = [Carried("ptr", place) for place in places]
        carried += [Carried(self.kind.kind, one) for one in sums]
        _, now = emit_loop(text, label, f"%extent{axis}", 1, carried, body)
        return now[len(places) :]

    def _sum(self, label: str, block: _Block, places: Values, sums: Values) -> Values:
        """The last reduction: whole runs of ``chains`` products, then those left."""
        text, kernel = self.text, self.kernel
        count, axis = len(places), kernel.reductions - 1

        def step(now: Values) -> Values:
            added = self._add(block, now[:count], now[count:], None)
            moved = []
            for number, place in enumerate(now[:count]):
                match kernel.accesses[number]:
                    case Access.UNIT:
                        moved.append(
                            shift_pointer(text, place, kernel.chains * kernel.in_type.width)
                        )
                    case Access.STRIDED:
                        stride = self._times(f"%stride{axis}_{number}", kernel.chains)
                        moved.append(shift_pointer(text, place, stride))
                    case Access.BROADCAST:
                        moved.append(place)
            return [*moved, *added]

        kinds = ["ptr"] * count + [self.kind.kind] * len(sums)
        carried = [Carried(*pair) for pair in zip(kinds, [*places, *sums], strict=True)]
        left, now = emit_loop(text, label, f"%extent{axis}", kernel.chains, carried, step)
        some = text.value(f"icmp sgt i64 {left}, 0")
        still = [Carried(self.kind.kind, one) for one in now[count:]]
        return emit_when(
            text,
            f"{label}_rest",
            some,
            still,
            lambda: self._add(block, now[:count], now[count:], left),
        )

    def _add(self, block: _Block, places: Values, sums: Values, left: str | None) -> Values:
        """The sums with one product more per chain, or per chain below ``left``."""
        added = list(sums)
        for vector_number in range(self._vectors):
            mask = self._mask(vector_number, left)
            loaded = [
                [
                    self._load(number, vector_number, shift_pointer(self.text, place, offset), mask)
                    for offset in block.offsets[number]
                ]
                for number, place in enumerate(places)
            ]
            for column, row in product(range(block.columns), range(block.rows)):
                numbers = [
                    vectors[column if is_shared else row]
                    for vectors, is_shared in zip(loaded, self.kernel.shared, strict=True)
                ]
                place = (column * block.rows + row) * self._vectors + vector_number
                added[place] = add_all(self.text, self.kind, numbers, sums[place])
        return added

    def _mask(self, vector_number: int, left: str | None) -> str | None:
        """One bit per element, true below ``left``."""
        if left is None:
            return None
        lanes, first = self.kernel.lanes, vector_number * self.kernel.lanes
        limit = splat(self.text, "i64", left, lanes)
        numbered = constants("i64", range(first, first + lanes))
        return self.text.value(f"icmp ult {vector('i64', lanes)} {numbered}, {limit}")

    def _load(self, number: int, vector_number: int, place: str, mask: str | None) -> str:
        """One vector of one input, ready to multiply; zeros where the mask has none."""
        text, kernel = self.text, self.kernel
        first = vector_number * kernel.lanes
        match kernel.accesses[number]:
            case Access.UNIT:
                address = shift_pointer(text, place, first * kernel.in_type.width)
                stored = self._load_adjacent(address, mask)
            case Access.STRIDED:
                stored = self._gather(place, number, first, mask)
            case Access.BROADCAST:
                stored = self._load_one(place, mask)
        numbers = widen(text, kernel.in_type, self.isa, stored, self.kind.count)
        if kernel.inputs > 1:
            numbers = round_factor(text, kernel.in_type, numbers, self.kind.count)
        return numbers

    def _load_adjacent(self, address: str, mask: str | None) -> str:
        kind, count = self._stored_kind, self.kind.count
        if mask is None:
            return self.text.value(f"load {kind}, ptr {address}, align 1")
        suffix = f"v{count}{_SUFFIX[stored_number(self.kernel.in_type)]}"
        return self.text.value(
            f"call {kind} @llvm.masked.load.{suffix}.p0(ptr {address}, i32 1, "
            f"<{count} x i1> {self._per_number(mask)}, {kind} zeroinitializer)"
        )

    def _load_one(self, place: str, mask: str | None) -> str:
        """One element in every lane, or in those below the mask."""
        text, element = self.text, stored_number(self.kernel.in_type)
        parts = numbers_per_element(self.kernel.in_type)
        value = "poison"
        for part in range(parts):
            address = shift_pointer(text, place, part * number_bytes(self.kernel.in_type))
            number = text.value(f"load {element}, ptr {address}, align 1")
            value = text.value(
                f"insertelement {self._stored_kind} {value}, {element} {number}, i64 {part}"
            )
        pattern = [lane % parts for lane in range(self.kind.count)]
        value = shuffle(text, element, self.kind.count, value, "poison", pattern)
        if mask is None:
            return value
        return text.value(
            f"select <{self.kind.count} x i1> {self._per_number(mask)}, "
            f"{self._stored_kind} {value}, {self._stored_kind} zeroinitializer"
        )

    def _gather(self, place: str, number: int, first: int, mask: str | None) -> str:
        text, lanes = self.text, self.kernel.lanes
        stride = f"%stride{self.kernel.reductions - 1}_{number}"
        strides = splat(text, "i64", stride, lanes)
        numbered = constants("i64", range(first, first + lanes))
        offsets = text.value(f"mul {vector('i64', lanes)} {strides}, {numbered}")
        pointers = text.value(f"getelementptr i8, ptr {place}, {vector('i64', lanes)} {offsets}")
        word = f"i{8 * self.kernel.in_type.width}"
        kind = vector(word, lanes)
        bits = repeated("i1", lanes, "true") if mask is None else mask
        words = text.value(
            f"call {kind} @llvm.masked.gather.v{lanes}{word}.v{lanes}p0("
            f"{vector('ptr', lanes)} {pointers}, i32 1, {vector('i1', lanes)} {bits}, "
            f"{kind} zeroinitializer)"
        )
        return text.value(f"bitcast {kind} {words} to {self._stored_kind}")

    @property
    def _stored_kind(self) -> str:
        return vector(stored_number(self.kernel.in_type), self.kind.count)

    def _per_number(self, mask: str) -> str:
        """The mask over numbers, of which a complex element has two."""
        lanes = self.kernel.lanes
        if self.kind.count == lanes:
            return mask
        pattern = [number // 2 for number in range(2 * lanes)]
        return shuffle(self.text, "i1", lanes, mask, "poison", pattern)

    def _finish(self, name: str, place: str, sums: Values) -> None:
        """Halve the chains to one, add the output where it counts, store."""
        chains = [sums[at : at + self._vectors] for at in range(0, len(sums), self._vectors)]
        numbers = numbers_per_element(self.kernel.in_type)
        packs = emit_halving(self.text, self.kind, chains, numbers)
        row = 0
        for pack in packs:
            for first, total in self._outputs(pack):
                address = shift_pointer(
                    self.text, place, self._times(f"%m_stride{self.kernel.inputs}", row + first)
                )
                self._store(f"store{name}_{row + first}", address, total)
            row += pack.rows

    def _outputs(self, pack: Pack) -> list[tuple[int, tuple[str, int]]]:
        """The rows stored at once: the first one, the vector and its number of numbers."""
        if self.kernel.out_access is Access.UNIT:
            return [(0, (pack.value, pack.rows * pack.segment))]
        element, total = self.kind.element, pack.rows * pack.segment
        singles = []
        for row in range(pack.rows):
            picked = range(row * pack.segment, (row + 1) * pack.segment)
            value = shuffle(self.text, element, total, pack.value, "poison", picked)
            singles.append((row, (value, pack.segment)))
        return singles

    def _store(self, label: str, address: str, total: tuple[str, int]) -> None:
        text, out_type = self.text, self.kernel.out_type
        value, count = total
        kind, stored_kind = vector(self.kind.element, count), vector(stored_number(out_type), count)

        def load() -> Values:
            stored = text.value(f"load {stored_kind}, ptr {address}, align 1")
            return [widen(text, out_type, self.isa, stored, count)]

        counts = text.value("icmp ne i64 %accumulate, 0")
        (start,) = emit_when(text, label, counts, [Carried(kind, "zeroinitializer")], load)
        value = text.value(f"fadd {kind} {start}, {value}")
        stored = narrow(text, out_type, self.isa, value, count)
        text.effect(f"store {stored_kind} {stored}, ptr {address}, align 1")
