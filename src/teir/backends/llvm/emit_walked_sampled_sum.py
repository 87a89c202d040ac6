"""Rows scaled with sampled dot products and added up, the fixed row and the sums in registers.

    for every row, or some whose fibres hold the same coordinates
      load the fixed row; load the row of the output, or zero
      for every position: one multiply-add per vector, chains halved to one number, its product
          with the scale, one multiply-add per vector of the other gathered row
      store

Positions are taken one by one: the multiply-adds of some of them fill the time the halving of
others takes, and short fibres leave nothing over. Rows that begin inside a cache line are read in
pieces that lie in one line each, where they are formed one by one. Where two whole vectors are
multiplied a cycle those are lines, the first and last under masks: 0.92 of the time of smaller ones
on a Golden Cove core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from teir.backends.llvm.emit_fibres import (
    emit_end_of_rows,
    emit_fibre,
    emit_first_row,
    emit_groups,
    emit_row_by_row,
    emit_start,
    emit_together,
    load_index,
)
from teir.backends.llvm.emit_halving import emit_halving
from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_strides, emit_when
from teir.backends.llvm.emit_numbers import computed_number
from teir.backends.llvm.emit_products import Arithmetic, multiply_add
from teir.backends.llvm.emit_row_pieces import Piece, load_piece, vector_pieces
from teir.backends.llvm.emit_sampled_places import (
    SampledPlace,
    SampledRows,
    gains_by_pieces,
    sampled_places,
)
from teir.backends.llvm.emit_text import (
    Cache,
    FunctionText,
    prefetch,
    shift_pointer,
    shuffle,
    vector,
)
from teir.lower.access import Access
from teir.lower.walked_kernels import Follows, WalkedRows, WalkedSampledSum
from teir.target import LINE_BYTES, Isa

_LONG_ROW = 4
"""Vectors from which fixed rows are asked for: bursts of lines that hardware does not follow."""
_ROWS_AHEAD = 4

_ARGUMENTS = ("dot_last_lanes", "last_lanes", "accumulate", "b_stride", "d_stride")


def walked_sampled_sum_arguments(kernel: WalkedSampledSum) -> tuple[str, ...]:
    return _ARGUMENTS if kernel.rows is None else (*_ARGUMENTS, "rows", "pos_row", "c_row", "row0")


def emit_walked_sampled_sum_body(
    kernel: WalkedSampledSum, isa: Isa, operands: Sequence[str]
) -> FunctionText:
    """The body of the function for ``operands`` and the arguments of `WalkedSampledSum`."""
    text = FunctionText()
    text.label("entry")
    above = 0 if kernel.rows is None else kernel.rows.index_arrays
    pos, crd, a, b, d, *ends = operands[above:]
    dot_last = "%dot_last_lanes" if kernel.dot_masked else None
    last = "%last_lanes" if kernel.masked else None
    dot = vector_pieces(_vectors(text, kernel, isa, kernel.dot_vectors, dot_last))
    row = vector_pieces(_vectors(text, kernel, isa, kernel.vectors, last))
    scale = ends[0] if kernel.scales else None
    far = ""
    if kernel.ahead is not None:
        end = emit_end_of_rows(text, kernel.rows, operands)
        far = text.value(f"sub i64 {emit_start(text, kernel.pos_type, pos, end)}, 1")
    body = _Body(text, kernel, isa, (pos, crd), a, b, d, scale, ends[-1], dot, row, far)
    places = sampled_places(text, kernel, isa, (b, d)) if gains_by_pieces(kernel) else None
    if kernel.rows is None:
        _emit_by_places(body, places, partial(_formed, count=1))
    else:
        _emit_rows(body, kernel.rows, operands[:above], places)
    text.effect("ret void")
    return text


def _emit_by_places(
    body: _Body, places: Sequence[SampledPlace] | None, form: Callable[[_Body, str], Values]
) -> None:
    """``form(body, label)`` with rows read in pieces that lie in one line each."""
    if places is None:
        form(body, "")
        return
    for number, place in enumerate(places):
        label = f"_place{number}"

        def chosen(place: SampledPlace = place, label: str = label) -> Values:
            return form(_read_at(body, place), label)

        emit_when(body.text, label[1:], place.chosen, (), chosen)


def _read_at(body: _Body, place: SampledPlace) -> _Body:
    """The body with gathered rows read as they lie."""
    found = place.read(SampledRows(body.a, body.b, body.d, body.out, body.dot_pieces, body.pieces))
    return replace(
        body,
        a=found.fixed,
        b=found.sampled,
        d=found.added,
        out=found.sums,
        dot_pieces=found.dot_pieces,
        pieces=found.pieces,
    )


def _vectors(
    text: FunctionText, kernel: WalkedSampledSum, isa: Isa, count: int, last: str | None
) -> list[Lanes]:
    """The vectors of a row; of the last one there are ``last`` lanes, None for all."""
    made = []
    for number in range(count):
        existing = last if number == count - 1 else None
        kind, unit = kernel.data_type, Access.UNIT
        made.append(lanes_in_memory(text, isa, kind, kernel.lanes, unit, "", existing))
    return made


def _emit_rows(
    body: _Body, rows: WalkedRows, bounds: Sequence[str], places: Sequence[SampledPlace] | None
) -> None:
    text = body.text
    begin_left = emit_first_row(text, rows, bounds)

    def together(row: str, left: str) -> str:
        here = _at_row(body, rows, bounds, row)

        def some(count: int) -> Callable[[], Values]:
            return partial(_formed, here, f"_{count}", count)

        return emit_together(text, body.kernel, here.arrays, left, rows.together, some)

    left = emit_groups(text, rows, (body.kernel.pos_type, body.arrays[0]), begin_left, together)

    def alone(read: _Body, label: str) -> Values:
        if places is not None and rows.crd is None:
            _emit_moving_rows(_at_row(read, rows, bounds, begin_left[0]), rows, label, left)
            return []

        def form(row: str, _: str) -> str:
            _emit_row_alone(_at_row(read, rows, bounds, row), rows, label)
            return "1"

        emit_row_by_row(text, f"each_row{label}", (begin_left[0], left), form)
        return []

    _emit_by_places(body, places, alone)


def _emit_moving_rows(first: _Body, rows: WalkedRows, label: str, left: str) -> None:
    """``left`` rows from ``first`` on one by one, all pointers moved from each to the next."""
    text = first.text
    follows = (Follows.POSITION, rows.inputs[0], rows.output)
    steps = [
        0 if one is Follows.NOTHING else step
        for one, step in zip(follows, ("%pos_row", "%row0", "%c_row"), strict=True)
    ]

    def form(_: str, now: Values) -> tuple[str, Values]:
        pos, a, out = now
        here = replace(first, arrays=(pos, first.arrays[1]), a=a, out=out)
        _emit_row_alone(here, rows, label)
        return "1", [shift_pointer(text, *one) for one in zip(now, steps, strict=True)]

    start = [Carried("ptr", one) for one in (first.arrays[0], first.a, first.out)]
    emit_strides(text, f"each_row{label}", left, start, form)


def _emit_row_alone(body: _Body, rows: WalkedRows, label: str) -> None:
    """One row; a long fixed row that is numbered is asked for before its turn."""
    kernel, text = body.kernel, body.text
    is_numbered = rows.inputs[0] is Follows.POSITION
    if kernel.ahead is not None and is_numbered and kernel.dot_vectors >= _LONG_ROW:
        there = shift_pointer(text, body.a, text.value(f"mul i64 %row0, {_ROWS_AHEAD}"))
        body.ask_for(there, kernel.dot_vectors, body.dot_pieces, LINE_BYTES)
    body.emit(label, 1)


def _formed(body: _Body, label: str, count: int) -> Values:
    body.emit(label, count)
    return []


def _at_row(body: _Body, rows: WalkedRows, bounds: Sequence[str], row: str) -> _Body:
    """The body with its pointers moved to a row."""
    text, index = body.text, {Follows.POSITION: row}
    if rows.crd is not None:
        byte = text.value(f"mul i64 {row}, {rows.crd.width}")
        place = shift_pointer(text, bounds[-1], byte)
        index[Follows.COORDINATE] = load_index(text, rows.crd, place)
    moved = []
    steps = ((body.a, rows.inputs[0], "%row0"), (body.out, rows.output, "%c_row"))
    for pointer, follows, step in steps:
        if follows is not Follows.NOTHING:
            byte = text.value(f"mul i64 {index[follows]}, {step}")
            pointer = shift_pointer(text, pointer, byte)
        moved.append(pointer)
    first = text.value(f"mul i64 {row}, %pos_row")
    arrays = (shift_pointer(text, body.arrays[0], first), body.arrays[1])
    return replace(body, arrays=arrays, a=moved[0], out=moved[1])


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written; ``pieces``: those of the output and of what is added."""

    text: FunctionText
    kernel: WalkedSampledSum
    isa: Isa
    arrays: tuple[str, str]
    a: str
    b: str
    d: str
    scale: str | None
    out: str
    dot_pieces: Sequence[Piece]
    pieces: Sequence[Piece]
    far: str
    """The last position of a call, where rows are brought near ahead."""

    def _kind(self, piece: Piece) -> Arithmetic:
        return Arithmetic(self.isa, self.kernel.data_type, piece.width)

    def emit(self, label: str, rows: int) -> None:
        """The sums of ``rows`` rows whose fibres hold the same coordinates."""
        begin, length = emit_fibre(self.text, self.kernel.pos_type, self.arrays[0])
        fixed = [self._row(self.a, "%row0", row, self.dot_pieces) for row in range(rows)]
        kinds = [self._kind(piece).kind for piece in self.pieces] * rows
        started = self._start(label, kinds, rows)
        sums = [Carried(kind, value) for kind, value in zip(kinds, started, strict=True)]
        add = partial(self._add, fixed, length)
        start = [Carried("i64", begin), *sums]
        _, (_, *made) = emit_loop(self.text, f"fibre{label}", length, 1, start, add)
        self._store(made, rows)

    def _row(self, start: str, step: str, row: int, pieces: Sequence[Piece]) -> Values:
        """The pieces of the row ``row`` rows on."""
        place = shift_pointer(self.text, start, self._times(step, row))
        return [self._piece(place, piece) for piece in pieces]

    def _piece(self, place: str, piece: Piece) -> str:
        return load_piece(self.text, piece, place, self._kind(piece).element)

    def _times(self, value: str, count: int) -> str | int:
        if count < 2:
            return value if count else 0
        return self.text.value(f"mul i64 {value}, {count}")

    def _start(self, label: str, kinds: Sequence[str], rows: int) -> Values:
        """What the sums start from, rows outermost."""

        def preload() -> Values:
            loaded = (self._row(self.out, "%c_row", row, self.pieces) for row in range(rows))
            return [one for row in loaded for one in row]

        zeros = [Carried(kind, "zeroinitializer") for kind in kinds]
        some = self.text.value("icmp ne i64 %accumulate, 0")
        return emit_when(self.text, f"preload{label}", some, zeros, preload)

    def _store(self, sums: Values, rows: int) -> None:
        for row in range(rows):
            place = shift_pointer(self.text, self.out, self._times("%c_row", row))
            for number, piece in enumerate(self.pieces):
                total = sums[row * len(self.pieces) + number]
                store(self.text, piece.lanes, shift_pointer(self.text, place, piece.byte), total)

    def _add(self, fixed: Sequence[Sequence[str]], length: str, now: Values) -> Values:
        """The sums with the products of one position."""
        text, (position, *sums) = self.text, now
        if self.kernel.ahead is not None and len(fixed) == 1:
            self._bring_near(position, self.kernel.ahead)
        sampled, added = self._gathered(position)
        dots = self._dots(fixed, sampled)
        factors = [self._factor(row, position, length, dot) for row, dot in enumerate(dots)]
        for number, piece in enumerate(self.pieces):
            loaded, kind = self._piece(added, piece), self._kind(piece)
            for row, one in enumerate(factors):
                which = row * len(self.pieces) + number
                wide = shuffle(text, kind.element, 1, one, "poison", [0] * kind.count)
                sums[which] = multiply_add(text, kind, wide, loaded, sums[which])
        return [text.value(f"add i64 {position}, 1"), *sums]

    def _gathered(self, position: str) -> tuple[str, str]:
        """Where the two rows that a position names lie."""
        text = self.text
        byte = text.value(f"mul i64 {position}, {self.kernel.crd_type.width}")
        stored = shift_pointer(text, self.arrays[1], byte)
        coordinate = load_index(text, self.kernel.crd_type, stored)
        bytes_ = [text.value(f"mul i64 {coordinate}, %{step}") for step in ("b_stride", "d_stride")]
        return shift_pointer(text, self.b, bytes_[0]), shift_pointer(text, self.d, bytes_[1])

    def _bring_near(self, position: str, distance: int) -> None:
        """The lines of the rows so many positions further on."""
        further = self.text.value(f"add i64 {position}, {distance}")
        last = self.text.value(f"call i64 @llvm.smin.i64(i64 {further}, i64 {self.far})")
        step = 2 * LINE_BYTES if self.kernel.in_pairs else LINE_BYTES
        rows = (
            (self.kernel.dot_vectors, self.dot_pieces),
            (self.kernel.vectors, self.pieces),
        )
        for place, (vectors, pieces) in zip(self._gathered(last), rows, strict=True):
            self.ask_for(place, vectors, pieces, step)

    def ask_for(self, place: str, vectors: int, pieces: Sequence[Piece], step_bytes: int) -> None:
        """The lines of the row at ``place``, or some: its end counts, wherever in one it begins."""
        row_bytes = vectors * self.kernel.lanes * self.kernel.data_type.width
        end = max(row_bytes - 1, pieces[-1].byte)
        for byte in (*range(0, end, step_bytes), end):
            prefetch(self.text, shift_pointer(self.text, place, byte), Cache.FIRST)

    def _dots(self, fixed: Sequence[Sequence[str]], place: str) -> Values:
        """The dot product of every fixed row with the row at ``place``: vectors of one element."""
        text, kind = self.text, self._kind(self.dot_pieces[0])
        sums = [dict[int, str]() for _ in fixed]
        for number, piece in enumerate(self.dot_pieces):
            loaded = self._piece(place, piece)
            for row, chains in zip(fixed, sums, strict=True):
                if piece.chains in chains:
                    sum_ = chains[piece.chains]
                    sum_ = multiply_add(text, kind, row[number], loaded, sum_)
                else:
                    # Only a zero's sign can differ from a sum with zero; zero is added at the end.
                    sum_ = text.value(f"fmul {kind.kind} {row[number]}, {loaded}")
                chains[piece.chains] = sum_
        return [emit_halving(text, kind, [list(one.values())], 1)[0].value for one in sums]

    def _factor(self, row: int, position: str, length: str, dot: str) -> str:
        """A row's dot product times the scale: a vector of one element."""
        text, one = self.text, vector(computed_number(self.kernel.data_type), 1)
        # The sum of the chains is added to a temporary that begins at zero.
        factor = text.value(f"fadd {one} {dot}, zeroinitializer")
        if self.scale is not None:
            width = self.kernel.data_type.width
            place = text.value(f"add i64 {position}, {self._times(length, row)}")
            at = shift_pointer(text, self.scale, text.value(f"mul i64 {place}, {width}"))
            scale = load(text, Lanes(self.kernel.data_type, 1), at)
            factor = text.value(f"fmul {one} {scale}, {factor}")
        return factor
