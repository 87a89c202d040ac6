"""Dot products of one row with the rows that a fibre names, some stored elements at a time.

    for every row, or two whose fibres hold the same coordinates
      for every ``_POSITIONS`` positions, then for fewer under a mask
        one multiply-add per vector and position, chains halved side by side, one store

Rows that begin inside a cache line are read in whole lines as in `emit_walked_sum`: that turns the
chains in a circle, and chains that are halved are half a circle apart wherever it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from teir.backends.llvm.emit_fibres import (
    emit_by_place,
    emit_end_of_rows,
    emit_fibre,
    emit_first_row,
    emit_rows,
    emit_start,
    emit_together,
    line_lanes,
    load_index,
)
from teir.backends.llvm.emit_halving import emit_halving
from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_when
from teir.backends.llvm.emit_numbers import narrow, round_factor, widen
from teir.backends.llvm.emit_opaque import opaque
from teir.backends.llvm.emit_products import Arithmetic, multiply_add
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    constants,
    prefetch,
    shift_pointer,
    shuffle,
    splat,
    vector,
)
from teir.lower.access import Access
from teir.lower.walked_kernels import Follows, WalkedDots, WalkedRows
from teir.target import LINE_BYTES, Isa

_ARGUMENTS = ("last_lanes", "accumulate", "b_stride")

_POSITIONS = (8, 4, 1)
_REST_STEP = 2
"""What is left of a fibre is formed by so many positions more or fewer, the last under a mask."""
_MOST_KEPT = 18
"""Vectors of the fixed rows that wait in registers; more are read again for every block."""
_MOST_WHOLE = 8
"""Vectors of a row up to which one less of them is worth code of its own."""
_ROWS_AHEAD = 4
"""Fixed rows are asked for so many rows before: all of one is read at once, between gathered rows,
which is not a run that prefetchers follow. Single rows are where gathered ones are too, some at
once, whose fibres are long, always."""
_LONG_ROW = 8
"""Vectors from which rows formed at once are asked for."""
_FORMED = 2
"""Vectors from which the address of a row formed by itself is formed once."""


def walked_dots_arguments(kernel: WalkedDots) -> tuple[str, ...]:
    if kernel.rows is None:
        return _ARGUMENTS
    return (*_ARGUMENTS, "rows", "pos_row", "c_row", "row0", "row1")


def emit_walked_dots_body(kernel: WalkedDots, isa: Isa, operands: Sequence[str]) -> FunctionText:
    """The body of the function for ``operands`` and the arguments of `WalkedDots`."""
    text = FunctionText()
    text.label("entry")
    above = 0 if kernel.rows is None else kernel.rows.index_arrays
    pos, crd, a, b, *ends = operands[above:]
    last = ""
    if kernel.ahead is not None:
        end = emit_end_of_rows(text, kernel.rows, operands)
        last = text.value(f"sub i64 {emit_start(text, kernel.pos_type, pos, end)}, 1")
    shared = _Body(text, kernel, isa, (pos, crd), a, b, ends, _lanes(text, kernel, isa), last)
    body = _in_lines(shared) if kernel.aligns else shared
    if kernel.rows is None:
        _emit_row(body, shared)
    else:
        _emit_rows(body, shared, kernel.rows, operands[:above])
    text.effect("ret void")
    return text


def _in_lines(body: _Body) -> _Body:
    """The body with gathered rows read in whole cache lines."""
    text, kernel = body.text, body.kernel
    inside, lanes = line_lanes(text, kernel.data_type, kernel.lanes, kernel.vectors, body.b)
    back = text.value(f"sub i64 0, {inside}")
    a, b = shift_pointer(text, body.a, back), shift_pointer(text, body.b, back)
    return replace(body, a=a, b=b, lanes=lanes, inside=inside)


def _emit_row(body: _Body, shared: _Body) -> None:
    """One row; short ones whose gathered rows begin with a line are formed by ``shared``."""
    if not body.kernel.aligns or body.kernel.vectors > _MOST_WHOLE:
        body.emit("", 1)
        return
    whole, lines = partial(shared.emit, "_whole", 1), partial(body.emit, "", 1)
    emit_by_place(body.text, body.inside, whole, lines)


def _emit_rows(body: _Body, shared: _Body, rows: WalkedRows, bounds: Sequence[str]) -> None:
    """One row after the other; some at once where their fibres hold the same coordinates.

    Where the fixed rows stay in registers, reading a vector for several rows takes less time than
    its multiply-adds: ``shared`` has the fewest vectors there can be.
    """
    text = body.text
    begin_left = emit_first_row(text, rows, bounds)
    is_long = len(shared.lanes) >= _LONG_ROW

    def form(most: int, row: str, left: str) -> str:
        here = _at_row(body, rows, bounds, row)
        if body.kernel.ahead is not None or (most > 1 and is_long):
            _bring_rows_near(shared, rows, bounds, row, most)
        if most == 1:
            _emit_row(here, _at_row(shared, rows, bounds, row))
            return "1"

        def some(count: int) -> Callable[[], Values]:
            is_kept = 1 < count <= _MOST_KEPT // len(shared.lanes)
            formed = _at_row(shared, rows, bounds, row) if is_kept else here
            return partial(_of_rows, formed, count)

        return emit_together(text, body.kernel, here.arrays, left, most, some)

    emit_rows(text, rows, (body.kernel.pos_type, body.arrays[0]), begin_left, form)


def _bring_rows_near(
    body: _Body, rows: WalkedRows, bounds: Sequence[str], row: str, count: int
) -> None:
    """Fixed rows that are numbered are asked for before their turn."""
    if rows.inputs[0] is not Follows.POSITION:
        return
    for number in range(_ROWS_AHEAD, _ROWS_AHEAD + count):
        further = body.text.value(f"add i64 {row}, {number}")
        body.ask_for_row(_at_row(body, rows, bounds, further).a)


def _of_rows(body: _Body, count: int) -> Values:
    body.emit(f"_{count}", count)
    return []


def _at_row(body: _Body, rows: WalkedRows, bounds: Sequence[str], row: str) -> _Body:
    text, index, a = body.text, row, body.a
    if rows.inputs[0] is Follows.COORDINATE and rows.crd is not None:
        byte = text.value(f"mul i64 {row}, {rows.crd.width}")
        index = load_index(text, rows.crd, shift_pointer(text, bounds[-1], byte))
    if rows.inputs[0] is not Follows.NOTHING:
        a = shift_pointer(text, a, text.value(f"mul i64 {index}, %row0"))
    first = text.value(f"mul i64 {row}, %pos_row")
    arrays = (shift_pointer(text, body.arrays[0], first), body.arrays[1])
    return replace(body, arrays=arrays, a=a)


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
class _Block:
    """Positions whose dots are formed side by side, for each of some rows.

    ``fibre``: first position and number of positions of a row's fibre. ``existing``: how many of
    the positions there are, all but ``_REST_STEP - 1`` of them at least; None for all.
    """

    rows: int
    positions: int
    fibre: tuple[str, str]
    kept: Sequence[Sequence[str]]
    existing: str | None

    @property
    def places(self) -> int:
        """Positions as halving takes them: a power of two."""
        return 1 << (self.positions - 1).bit_length()


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written: index arrays, the fixed row, the gathered rows."""

    text: FunctionText
    kernel: WalkedDots
    isa: Isa
    arrays: tuple[str, str]
    a: str
    b: str
    ends: Sequence[str]
    lanes: list[Lanes]
    last: str
    """The last position of a call, where rows are brought near ahead."""
    inside: str = ""
    """The bytes from the line of a gathered row to the row, where rows are read in whole lines."""

    @property
    def kind(self) -> Arithmetic:
        return Arithmetic(self.isa, self.kernel.data_type, self.kernel.lanes)

    def emit(self, label: str, rows: int) -> None:
        """The dots of ``rows`` rows whose fibres hold the same coordinates."""
        text = self.text
        fibre = emit_fibre(text, self.kernel.pos_type, self.arrays[0])
        sizes = [size // rows for size in _POSITIONS[: 1 if self.isa.has_masks else None]]
        kept: list[list[str]] = []
        if rows * len(self.lanes) <= _MOST_KEPT:
            kept = [
                [self._fixed(row, number) for number in range(len(self.lanes))]
                for row in range(rows)
            ]
        position, left = fibre
        for size in sizes:
            name = f"rows{label}_{size}"
            step = partial(self._dots, _Block(rows, size, fibre, kept, None))
            carried = [Carried("i64", position)]
            left, (position,) = emit_loop(text, name, left, size, carried, step)
        if self.isa.has_masks:
            for size in range(_REST_STEP, sizes[0] + 1, _REST_STEP):
                more = text.value(f"icmp sgt i64 {left}, {size - _REST_STEP}")
                fits = text.value(f"icmp sle i64 {left}, {size}")
                some = text.value(f"and i1 {more}, {fits}")
                name = f"rest{label}_{size}"
                block = _Block(rows, size, fibre, kept, left)
                rest = partial(self._rest, block, position)
                emit_when(text, name, some, (), rest)

    def _rest(self, block: _Block, position: str) -> Values:
        self._dots(block, [position])
        return []

    def _fixed(self, row: int, number: int) -> str:
        distance: str | int = 0
        if row:
            distance = self.text.value(f"mul i64 %row0, {row}")
        return self._factor(shift_pointer(self.text, self.a, distance), number)

    def _factor(self, place: str, number: int) -> str:
        text, data_type = self.text, self.kernel.data_type
        width = self.kernel.lanes * data_type.width
        stored = load(text, self.lanes[number], shift_pointer(text, place, number * width))
        numbers = widen(text, data_type, self.isa, stored, self.kernel.lanes)
        return round_factor(text, data_type, numbers, self.kernel.lanes)

    def _dots(self, block: _Block, now: Values) -> Values:
        """The dot products of the positions from the one in ``now`` on."""
        text, (position,) = self.text, now
        count = self.kernel.chains // self.kernel.lanes
        if self.kernel.ahead is not None and block.rows == 1:
            for number in range(block.positions):
                self._bring_near(position, self.kernel.ahead + number)
        places = [self._row(block, position, number) for number in range(block.positions)]
        sums = [["zeroinitializer"] * count for _ in range(block.rows * block.places)]
        for number in range(len(self.lanes)):
            fixed = [
                block.kept[row][number] if block.kept else self._fixed(row, number)
                for row in range(block.rows)
            ]
            for at, place in enumerate(places):
                loaded = self._factor(place, number)
                for row, one in enumerate(fixed):
                    chains = sums[row * block.places + at]
                    total = chains[number % count]
                    chains[number % count] = multiply_add(text, self.kind, one, loaded, total)
        packs = emit_halving(text, self.kind, sums, 1)
        self._finish(block, position, [pack.value for pack in packs])
        return [text.value(f"add i64 {position}, {block.positions}")]

    def _bring_near(self, position: str, distance: int) -> None:
        text = self.text
        far = text.value(f"add i64 {position}, {distance}")
        last = text.value(f"call i64 @llvm.smin.i64(i64 {far}, i64 {self.last})")
        self.ask_for_row(self._row_at(last))

    def ask_for_row(self, place: str) -> None:
        """Ask for the lines of the row at ``place``, which need not exist."""
        row_bytes = len(self.lanes) * self.kernel.lanes * self.kernel.data_type.width
        cache = Cache.FIRST if self.isa.asks_nearest else Cache.SECOND
        for line in range(0, row_bytes, LINE_BYTES):
            prefetch(self.text, shift_pointer(self.text, place, line), cache)

    def _row(self, block: _Block, position: str, number: int) -> str:
        """Where the gathered row of a position lies; beyond the last that of the last."""
        text = self.text
        offset = str(number)
        if block.existing is not None and number > block.positions - _REST_STEP:
            inside = text.value(f"icmp sgt i64 {block.existing}, {number}")
            offset = text.value(f"select i1 {inside}, i64 {number}, i64 0")
        place = self._row_at(text.value(f"add i64 {position}, {offset}"))
        if block.rows > 1 or len(self.lanes) < _FORMED or not self.isa.multiplies_from_memory:
            return place
        # Else LLVM adds a base and an index in each multiply-add, which Intel's split in two.
        return opaque(text, "ptr", place)

    def _row_at(self, position: str) -> str:
        text, width = self.text, self.kernel.crd_type.width
        place = shift_pointer(text, self.arrays[1], text.value(f"mul i64 {position}, {width}"))
        coordinate = load_index(text, self.kernel.crd_type, place)
        return shift_pointer(text, self.b, text.value(f"mul i64 {coordinate}, %b_stride"))

    def _finish(self, block: _Block, position: str, dots: list[str]) -> None:
        """out += scale * dot, on as many adjacent elements as one pack holds of one row."""
        text, element = self.text, self.kind.element
        each = block.rows * block.places // len(dots)
        run = min(each, block.places)
        for number, pack in enumerate(dots):
            for part in range(0, each, run):
                row, at = divmod(number * each + part, block.places)
                lanes = range(part, part + run)
                dot = pack if run == each else shuffle(text, element, each, pack, "poison", lanes)
                self._add(block, position, row, at, run, dot)

    def _add(self, block: _Block, position: str, row: int, at: int, count: int, dot: str) -> None:
        text, data_type = self.text, self.kernel.data_type
        kind = Arithmetic(self.isa, data_type, count)
        lanes = Lanes(data_type, count, mask=self._mask(block, at, count))
        place = text.value(f"add i64 {position}, {at}")
        for _ in range(row):
            place = text.value(f"add i64 {place}, {block.fibre[1]}")
        byte = text.value(f"mul i64 {place}, {data_type.width}")
        out = shift_pointer(text, self.ends[-1], byte)
        # Without a branch: what other rows need would be put off until after it, and spilled.
        stored = widen(text, data_type, self.isa, load(text, lanes, out), count)
        some = text.value("icmp ne i64 %accumulate, 0")
        start = text.value(f"select i1 {some}, {kind.kind} {stored}, {kind.kind} zeroinitializer")
        if self.kernel.scales:
            scales = load(text, lanes, shift_pointer(text, self.ends[0], byte))
            scale = widen(text, data_type, self.isa, scales, count)
            scale = round_factor(text, data_type, scale, count)
            dot = round_factor(text, data_type, dot, count)
            total = multiply_add(text, kind, scale, dot, start)
        else:
            total = text.value(f"fadd {vector(kind.element, count)} {start}, {dot}")
        store(text, lanes, out, narrow(text, data_type, self.isa, total, count))

    def _mask(self, block: _Block, at: int, count: int) -> str | None:
        if block.existing is None:
            return None
        wide = splat(self.text, "i64", block.existing, count)
        numbered = constants("i64", range(at, at + count))
        return self.text.value(f"icmp ult {vector('i64', count)} {numbered}, {wide}")
