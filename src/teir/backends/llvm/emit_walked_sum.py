"""Sums of products over the stored elements of one fibre, a register block of the output at a time.

    load the output, or zero
    for every position: coordinate, places of the inputs, one multiply-add per vector and column
    store

A row that begins inside a cache line would split every load. With ``aligns`` pointers are moved
down to the line of the gathered row: one more vector, the first and the last under masks, which are
those of their multiply-adds, so that every gathered load is one line. All rows begin at the same
place of a line, for they are whole lines apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from teir.backends.llvm.emit_fibres import (
    emit_by_place,
    emit_end_of_rows,
    emit_fibre,
    emit_first_row,
    emit_groups,
    emit_row_by_row,
    emit_start,
    emit_together,
    line_lanes,
    load_index,
)
from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory
from teir.backends.llvm.emit_loops import Carried, Values, emit_strides, emit_when
from teir.backends.llvm.emit_row_pairs import (
    emit_pays_in_pairs,
    emit_row_pairs,
    has_row_pairs,
)
from teir.backends.llvm.emit_single_rows import (
    emit_are_single,
    emit_single_rows,
    has_single_rows,
)
from teir.backends.llvm.emit_text import FunctionText, prefetch_to_write, shift_pointer
from teir.backends.llvm.walked_sum_body import SumBody
from teir.lower.access import Access
from teir.lower.walked_kernels import Follows, WalkedRows, WalkedSum
from teir.target import LINE_BYTES, Isa

_MOST_TOGETHER = 9
"""Vectors of each of some rows that are formed at once."""
_MOST_ELEMENTS_OF_ASKED = 12
"""Longer sums outlast the writing of the row before."""


def walked_sum_arguments(kernel: WalkedSum) -> tuple[str, ...]:
    count = range(len(kernel.inputs))
    steps = (f"step{number}" for number in count)
    columns = (f"column{number}" for number in count)
    names = ("last_lanes", "accumulate", "c_n", "pos_step", *steps, *columns)
    if kernel.rows is None:
        return names
    return (*names, "rows", "pos_row", "c_row", *(f"row{number}" for number in count))


def emit_walked_sum_body(kernel: WalkedSum, isa: Isa, operands: Sequence[str]) -> FunctionText:
    """The body of the function for ``operands`` and the arguments of `WalkedSum`."""
    text = FunctionText()
    text.label("entry")
    pointers = dict(enumerate(operands[kernel.index_arrays :]))
    vectors = _vectors(text, kernel, isa)
    above = 0 if kernel.rows is None else kernel.rows.index_arrays
    columns = {number: f"%column{number}" for number in range(len(kernel.inputs))}
    arrays = operands[above : kernel.index_arrays]
    last = {} if kernel.ahead is None else _last_positions(text, kernel, operands)
    shared = SumBody(text, kernel, isa, arrays, pointers, vectors, columns, "%c_n", last)
    body = shared if kernel.aligns is None else _in_lines(shared, kernel.aligns)
    if kernel.rows is None:
        _emit_by_place(body, shared, SumBody.sum)
    else:
        _emit_rows(body, shared, kernel.rows, operands[:above])
    text.effect("ret void")
    return text


def _last_positions(
    text: FunctionText, kernel: WalkedSum, operands: Sequence[str]
) -> dict[Follows, str]:
    """The last position of all fibres of a call by what follows its coordinate."""
    arrays = operands[: kernel.index_arrays]
    end = emit_end_of_rows(text, kernel.rows, arrays)
    last = {}
    if kernel.outer is not None:
        end = emit_start(text, kernel.outer[0], arrays[-4], end)
        last[Follows.OUTER_COORDINATE] = text.value(f"sub i64 {end}, 1")
    end = emit_start(text, kernel.pos_type, arrays[-2], end)
    last[Follows.COORDINATE] = text.value(f"sub i64 {end}, 1")
    return last


def _emit_rows(body: SumBody, shared: SumBody, rows: WalkedRows, bounds: Sequence[str]) -> None:
    """One row after the other; some at once where their fibres hold the same coordinates.

    ``shared`` forms those: reading a vector for several rows takes less time than its
    multiply-adds, so it has the fewest vectors there can be.
    """
    text = body.text
    begin_left = emit_first_row(text, rows, bounds)

    def together(row: str, left: str) -> str:
        here, single = _at_row(shared, rows, bounds, row), _at_row(body, rows, bounds, row)

        def alone() -> Values:
            _emit_by_place(single, here, SumBody.sum, "_1")
            return []

        def some(count: int) -> Callable[[], Values]:
            return alone if count == 1 else partial(_sums, here, rows, count)

        return emit_together(text, body.kernel, here.arrays, left, rows.together, some)

    kernel = body.kernel
    pos, compared = (kernel.pos_type, body.arrays[0]), (kernel, body.arrays[-1])
    left = emit_groups(text, rows, pos, begin_left, together, compared)

    def alone(read: SumBody, label: str) -> None:
        if rows.crd is None:
            _emit_moving_rows(read, rows, label, (begin_left[0], left))
            return

        def form(row: str, _: str) -> str:
            _at_row(read, rows, bounds, row).sum(label)
            return "1"

        emit_row_by_row(text, f"each_row{label}", (begin_left[0], left), form)

    _emit_by_place(body, shared, alone)


def _emit_by_place(
    body: SumBody, shared: SumBody, form: Callable[[SumBody, str], None], label: str = ""
) -> None:
    """``form(body, label)``; where what is gathered begins with a line, with ``shared``."""
    if body.kernel.aligns is None:
        form(body, label)
        return
    whole, lines = partial(form, shared, f"_whole{label}"), partial(form, body, label)
    emit_by_place(body.text, body.inside, whole, lines, label)


def _emit_moving_rows(
    body: SumBody, rows: WalkedRows, label: str, begin_left: tuple[str, str]
) -> None:
    """Rows one by one, all pointers moved from each to the next, without a branch on where they
    start from in between."""
    text, (begin, left) = body.text, begin_left
    any_left = text.value(f"icmp sgt i64 {left}, 0")
    for from_zero, argument in ((True, 0), (False, 1)):
        asked = text.value(f"icmp eq i64 %accumulate, {argument}")
        chosen = text.value(f"and i1 {any_left}, {asked}")
        kind = f"{label}_from_zero" if from_zero else label
        these = replace(body, begins_from_zero=from_zero)
        if from_zero and has_row_pairs(body):
            chosen = _emit_pairs(these, rows, kind, (begin, left), chosen)
        if from_zero and has_single_rows(body):
            chosen = _emit_singles(these, rows, kind, (begin, left), chosen)
        form = partial(_moving_rows, these, rows, kind, (begin, left))
        emit_when(text, f"rows{kind}", chosen, (), form)


def _emit_pairs(
    body: SumBody, rows: WalkedRows, label: str, begin_left: tuple[str, str], chosen: str
) -> str:
    """Rows two at once where ``chosen`` and where that pays: whether they are still to be formed.

    One or the other, never one after the other: what single rows need would have to be kept while
    pairs are formed, and short rows are slower by it.
    """
    text, (begin, left) = body.text, begin_left

    def look() -> Values:
        return [emit_pays_in_pairs(body, begin, left)]

    (pays,) = emit_when(text, f"long{label}", chosen, [Carried("i1", "false")], look)

    def pairs() -> Values:
        steps = {number: _row_step(rows, number) for number in _moved(rows)}
        emit_row_pairs(label, _at_row(body, rows, (), begin), steps, left)
        return []

    emit_when(text, f"pairs{label}", pays, (), pairs)
    is_left = text.value(f"xor i1 {pays}, true")
    return text.value(f"and i1 {chosen}, {is_left}")


def _emit_singles(
    body: SumBody, rows: WalkedRows, label: str, begin_left: tuple[str, str], chosen: str
) -> str:
    """Rows of one element each, all of them or none: whether they are still to be formed."""
    text, (begin, left) = body.text, begin_left

    def look() -> Values:
        return [emit_are_single(label, _at_row(body, rows, (), begin), left)]

    (single,) = emit_when(text, f"few{label}", chosen, [Carried("i1", "false")], look)

    def singles() -> Values:
        emit_single_rows(label, _at_row(body, rows, (), begin), left)
        return []

    emit_when(text, f"single{label}", single, (), singles)
    is_left = text.value(f"xor i1 {single}, true")
    return text.value(f"and i1 {chosen}, {is_left}")


def _moving_rows(
    body: SumBody, rows: WalkedRows, label: str, begin_left: tuple[str, str]
) -> Values:
    """At least one row.

    How long a fibre is is known one row before. A processor that has foreseen a wrong length finds
    out when it gets there, and not after the loads that the length comes from.
    """
    text, (begin, left) = body.text, begin_left
    first = _at_row(body, rows, (), begin)
    moved = _moved(rows)
    pos_type, pos = body.first_pos_type, first.arrays[0]

    def form(left_now: str, now: Values) -> tuple[str, Values]:
        here, start, length, *pointers = now
        next_pos = shift_pointer(text, here, "%pos_row")
        is_last = text.value(f"icmp eq i64 {left_now}, 1")
        next_pos = text.value(f"select i1 {is_last}, ptr {here}, ptr {next_pos}")
        next_fibre = emit_fibre(text, pos_type, next_pos)
        row = replace(
            first,
            arrays=(here, *first.arrays[1:]),
            first_fibre=(start, length),
            pointers=first.pointers | dict(zip(moved, pointers, strict=True)),
        )
        _ask_for_next_row(row, rows, label, length)
        row.sum(label)
        steps = [_row_step(rows, number) for number in moved]
        shifted = [shift_pointer(text, *one) for one in zip(pointers, steps, strict=True)]
        return "1", [next_pos, *next_fibre, *shifted]

    fibre = emit_fibre(text, pos_type, pos)
    carried = [Carried("ptr", pos), *(Carried("i64", one) for one in fibre)]
    carried += [Carried("ptr", first.pointers[number]) for number in moved]
    emit_strides(text, f"each_row{label}", left, carried, form)
    return []


def _ask_for_next_row(row: SumBody, rows: WalkedRows, label: str, length: str) -> None:
    """The lines of the output's row after this one, unless this one takes long.

    After the last row nobody's lines are asked for.
    """
    text, kernel = row.text, row.kernel
    if not rows.asks:
        return

    def ask() -> Values:
        following = shift_pointer(text, row.pointers[len(kernel.inputs)], "%c_row")
        row_bytes = kernel.vectors * kernel.lanes * kernel.out_type.width
        for start in range(0, row_bytes, LINE_BYTES):
            prefetch_to_write(text, shift_pointer(text, following, start))
        return []

    is_short = text.value(f"icmp ule i64 {length}, {_MOST_ELEMENTS_OF_ASKED}")
    emit_when(text, f"asked{label}", is_short, (), ask)


def _at_row(body: SumBody, rows: WalkedRows, bounds: Sequence[str], row: str) -> SumBody:
    """The body with its pointers moved to a row."""
    text, index = body.text, {Follows.POSITION: row}
    if rows.crd is not None:
        byte = text.value(f"mul i64 {row}, {rows.crd.width}")
        place = shift_pointer(text, bounds[-1], byte)
        index[Follows.COORDINATE] = load_index(text, rows.crd, place)
    pointers = {}
    for number, follows in enumerate((*rows.inputs, rows.output)):
        pointers[number] = body.pointers[number]
        if follows is not Follows.NOTHING:
            step = _row_step(rows, number)
            byte = text.value(f"mul i64 {index[follows]}, {step}")
            pointers[number] = shift_pointer(text, pointers[number], byte)
    first = text.value(f"mul i64 {row}, %pos_row")
    arrays = (shift_pointer(text, body.arrays[0], first), *body.arrays[1:])
    return replace(body, arrays=arrays, pointers=pointers)


def _moved(rows: WalkedRows) -> list[int]:
    """The numbers of the pointers that a row moves."""
    return [
        number
        for number, follows in enumerate((*rows.inputs, rows.output))
        if follows is not Follows.NOTHING
    ]


def _row_step(rows: WalkedRows, number: int) -> str:
    return "%c_row" if number == len(rows.inputs) else f"%row{number}"


def _sums(body: SumBody, rows: WalkedRows, count: int) -> Values:
    """``count`` rows whose fibres hold the same coordinates: columns of one block."""
    if count == 1:
        body.sum("_1")
        return []
    text, kernel = body.text, body.kernel
    length = emit_fibre(text, kernel.pos_type, body.arrays[0])[1]
    columns, inputs = {}, []
    for number, one in enumerate(kernel.inputs):
        moves = one.follows is Follows.POSITION or rows.inputs[number] is not Follows.NOTHING
        inputs.append(replace(one, has_columns=moves))
        columns[number] = _row_step(rows, number)
        if one.follows is Follows.POSITION:
            columns[number] = text.value(f"mul i64 {length}, %step{number}")
    block = replace(kernel, columns=count, inputs=tuple(inputs))
    pieces = -(-len(body.vectors) // _MOST_TOGETHER)
    size = -(-len(body.vectors) // pieces)
    for piece in range(0, len(body.vectors), size):
        part = replace(
            body,
            kernel=block,
            vectors=body.vectors[piece : piece + size],
            columns=columns,
            c_n=_row_step(rows, len(inputs)),
            last={},
        )
        part.sum(f"_{count}_{piece}")
    return []


def _vectors(text: FunctionText, kernel: WalkedSum, isa: Isa) -> list[tuple[int, Lanes, Lanes]]:
    """Number, input and output lanes of every vector."""
    existing = "%last_lanes" if kernel.masked else None
    pairs = []
    for number in range(kernel.vectors):
        left = existing if number == kernel.vectors - 1 else None
        pair = tuple(
            lanes_in_memory(text, isa, data_type, kernel.lanes, Access.UNIT, "", left)
            for data_type in (kernel.in_type, kernel.out_type)
        )
        pairs.append((number, pair[0], pair[1]))
    return pairs


def _in_lines(body: SumBody, aligned: int) -> SumBody:
    """The body with rows moved to where the line of the input ``aligned`` begins."""
    text, kernel, pointers = body.text, body.kernel, dict(body.pointers)
    row = pointers[aligned]
    inside, lanes = line_lanes(text, kernel.in_type, kernel.lanes, kernel.vectors, row)
    back = text.value(f"sub i64 0, {inside}")
    for number, one in enumerate(kernel.inputs):
        if one.access is Access.UNIT:
            pointers[number] = shift_pointer(text, pointers[number], back)
    output = len(kernel.inputs)
    pointers[output] = shift_pointer(text, pointers[output], back)
    vectors = [(number, one, one) for number, one in enumerate(lanes)]
    return replace(body, pointers=pointers, vectors=vectors, inside=inside)
