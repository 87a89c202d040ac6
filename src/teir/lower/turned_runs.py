"""Pairs of runs of a packed operand that lie once more further on, taken round.

Four copies in a row leave them so: one of all rows, and three of parts of each run, behind these:
the rows from the first whole line of an output on, those before them, half a line between. See
`PanelBlock.turns` for the order that they make.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from operator import attrgetter

import msgspec

from teir.ir.nodes import Axis, Primitive, Program
from teir.lower.copied_scratch import copied_scratch
from teir.lower.turned_rows import (
    ROW_COPIES,
    TurnedRows,
    begin_of,
    lie_apart,
    turned_of_tile,
    turned_rows,
    walk_of,
)
from teir.target import ARRAY_START_BYTES, LINE_BYTES

_NAME = attrgetter("name")
_RUN_COPIES = 4
_RUNS = 2


class TurnedRuns(msgspec.Struct, frozen=True, gc=False):
    """The axes of the rows and of the runs, and the other axes that move the tensor.

    ``offset_bytes`` is where all rows begin, from the tensor's base on; ``distance_bytes`` how much
    further on the turned ones do.
    """

    rows: Axis
    runs: Axis
    others: frozenset[str]
    offset_bytes: int
    distance_bytes: int


Turned = TurnedRows | TurnedRuns


def turned_operands(program: Program) -> dict[str, Turned]:
    """The scratch tensors that copies, and nothing else, fill with rows and turned rows."""
    found: dict[str, Turned] = {}
    axes: dict[str, Axis] = {}
    for names, copies in copied_scratch(program, min(ROW_COPIES, _RUN_COPIES)):
        axes = axes or program.axis_table()
        above = [axes[name] for name in names]
        turned: Turned | None = None
        if len(copies) == ROW_COPIES:
            turned = turned_rows(copies, above, axes)
        elif len(copies) == _RUN_COPIES:
            turned = _turned(copies, above, axes)
        if turned is not None:
            found[copies[0].output] = turned
    return found


def turned_operand_of_tile(
    turned: Turned | None, tensor: str, consumed: Sequence[Axis], around: Sequence[Axis]
) -> Turned | None:
    """``turned``, if a tile that walks ``consumed`` inside ``around`` walks all rows from where the
    copies begin, and else only axes that all copies walk."""
    if not isinstance(turned, TurnedRuns):
        return turned_of_tile(turned, tensor, consumed, around)
    walked = [axis for axis in (*consumed, *around) if axis.strides[tensor]]
    own = [_among(axis, walked, tensor) for axis in (turned.rows, turned.runs)]
    inside = [axis for axis in own if axis is not None and axis in consumed]
    others = {axis.name for axis in walked if axis not in inside}
    is_whole = len(inside) == len(own) and others <= turned.others
    begin = begin_of((*consumed, *around), tensor)
    return turned if is_whole and begin == turned.offset_bytes else None


def _among(axis: Axis, walked: Sequence[Axis], tensor: str) -> Axis | None:
    """The one axis of ``walked`` that walks the tensor as ``axis`` does."""
    found = [one for one in walked if walk_of(one, tensor) == walk_of(axis, tensor)]
    return found[0] if len(found) == 1 else None


def _turned(
    copies: Sequence[Primitive], above: Sequence[Axis], axes: dict[str, Axis]
) -> TurnedRuns | None:
    """Rows and runs of the first copy, if the others copy them once more behind themselves."""
    whole = copies[0]
    (source,), target = whole.inputs, whole.output
    shared = set(whole.axes).intersection(*[one.axes for one in copies[1:]])
    own = [[axes[name] for name in one.axes if name not in shared] for one in copies]
    if list(map(len, own)) != [2] * _RUN_COPIES or target in whole.inputs:
        return None
    rows, runs = sorted(own[0], key=lambda axis: axis.strides[target])
    width, run_bytes = rows.strides[target], runs.strides[target]
    is_pair = runs.extent == _RUNS and run_bytes == rows.extent * width == 3 * LINE_BYTES // 2
    if not is_pair or width <= 0 or ARRAY_START_BYTES % width:
        return None
    if [name for one in copies for name in one.axes if axes[name].segments]:
        return None
    if [axis for axis in above if axis.strides[target]]:
        return None
    distance = begin_of(own[1], target) - begin_of(own[0], target)
    begins = begin_of((rows, runs), source), begin_of((rows, runs), target) + distance
    for part, one in zip(_parts(width), own[1:], strict=True):
        if not _is_part(part, one, (rows, runs), (source, target), begins):
            return None
    walked = [*above, *map(axes.__getitem__, whole.axes)]
    moving = [axis for axis in walked if axis.name in shared and axis.strides[target]]
    walks = [(distance, 2), *[(axis.strides[target], axis.extent) for axis in moving]]
    if not lie_apart(walks, _RUNS * run_bytes):
        return None
    others = frozenset(map(_NAME, moving))
    return TurnedRuns(rows, runs, others, begin_of(walked, target), distance)


class _Part(msgspec.Struct, frozen=True, gc=False):
    """Rows of each run from ``first`` on, where they lie in the turned ones, and runs apart."""

    first: int
    count: int
    place_bytes: int
    apart_bytes: int


def _parts(width: int) -> tuple[_Part, ...]:
    early, late = ARRAY_START_BYTES // width, (LINE_BYTES - ARRAY_START_BYTES) // width
    return (
        _Part(late, late, 0, LINE_BYTES),
        _Part(0, early, LINE_BYTES - ARRAY_START_BYTES, LINE_BYTES),
        _Part(early, late - early, _RUNS * LINE_BYTES, LINE_BYTES // 2),
    )


def _is_part(
    part: _Part,
    own: Sequence[Axis],
    whole: tuple[Axis, Axis],
    tensors: tuple[str, str],
    begins: tuple[int, int],
) -> bool:
    """True where the axes ``own`` of a copy walk that part of ``whole``, rows and runs, which begin
    at ``begins`` on the input, and turned on the output."""
    (source, target), (all_rows, all_runs) = tensors, whole
    start = begins[0] + part.first * all_rows.strides[source]
    place = begins[1] + part.place_bytes
    if begin_of(own, source) != start or begin_of(own, target) != place:
        return False
    wanted = (
        (part.count, all_rows.strides[source], all_rows.strides[target]),
        (all_runs.extent, all_runs.strides[source], part.apart_bytes),
    )
    walks = [(axis.extent, axis.strides[source], axis.strides[target]) for axis in own]
    return wanted in permutations(walks)
