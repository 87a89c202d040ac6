"""Rows of a packed operand that lie once more further on, taken round.

Three copies in a row leave them so: one of all rows, one of the rows from one on, and one of those
before it, behind these. Whoever reads the rows may then read them in either order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from teir.ir.nodes import Axis, Primitive

ROW_COPIES = 3


class TurnedRows(msgspec.Struct, frozen=True, gc=False):
    """The axis of the rows, the other axes that move the tensor, and the row turned first.

    ``offset_bytes`` is where all rows begin, from the tensor's base on; ``distance_bytes`` how much
    further on the turned ones do.
    """

    rows: Axis
    others: frozenset[str]
    first: int
    offset_bytes: int
    distance_bytes: int


def turned_of_tile(
    turned: TurnedRows | None, tensor: str, consumed: Sequence[Axis], around: Sequence[Axis]
) -> TurnedRows | None:
    """``turned``, if a tile that walks ``consumed`` inside ``around`` walks all rows from where the
    copies begin, and else only axes that all copies walk."""
    if turned is None:
        return None
    walked = [axis for axis in (*consumed, *around) if axis.strides[tensor]]
    rows = [axis for axis in walked if walk_of(axis, tensor) == walk_of(turned.rows, tensor)]
    others = {axis.name for axis in walked if axis not in rows}
    is_whole = len(rows) == 1 and rows[0] in consumed and others <= turned.others
    return (
        turned
        if is_whole and begin_of((*consumed, *around), tensor) == turned.offset_bytes
        else None
    )


def begin_of(axes: Iterable[Axis], tensor: str) -> int:
    """Where a walk along these axes begins; also one that stays moves it by an offset."""
    begin = 0
    for axis in axes:
        begin += axis.offsets.get(tensor, 0)
    return begin


def walk_of(axis: Axis, tensor: str) -> tuple[int, int, int]:
    return axis.extent, axis.strides.get(tensor, 0), axis.offsets.get(tensor, 0)


def turned_rows(
    copies: Sequence[Primitive], above: Sequence[Axis], axes: dict[str, Axis]
) -> TurnedRows | None:
    """The rows of the first of `ROW_COPIES` copies, if the others copy them once more behind
    themselves."""
    whole, late, early = copies
    names, more, others = whole.axes, late.axes, early.axes
    shared = set(names).intersection(more, others)
    own = [axes[name] for name in (*names, *more, *others) if name not in shared]
    is_one_each = len(own) == ROW_COPIES and len(names) == len(more) == len(others)
    if not is_one_each or whole.output in whole.inputs:
        return None
    also = [axes[name] for name in names if name in shared]
    if [axis for axis in (*own, *also) if axis.segments]:
        return None
    rows, last, first = own
    (source,), target = whole.inputs, whole.output
    if [axis for axis in above if axis.strides[target]]:
        return None
    extent, step, begin = walk_of(rows, source)
    _, place, start = walk_of(rows, target)
    count, distance = first.extent, last.offsets[target] - start
    is_turned = (
        walk_of(last, source) == (extent - count, step, begin + count * step)
        and last.strides[target] == place
        and walk_of(first, source) == (count, step, begin)
        and walk_of(first, target)[1:] == (place, start + distance + (extent - count) * place)
    )
    moving = {axis.name: axis for axis in also if axis.strides[target]}
    walks = [(distance, 2), *[(axis.strides[target], axis.extent) for axis in moving.values()]]
    if not is_turned or place <= 0 or not lie_apart(walks, extent * place):
        return None
    begins = begin_of((*above, rows, *also), target)
    return TurnedRows(rows, frozenset(moving), count, begins, distance)


def lie_apart(walks: Sequence[tuple[int, int]], size_bytes: int) -> bool:
    """True where places of walks (stride, extent) are ``size_bytes`` apart at least: no copy meets
    another's."""
    for stride, extent in sorted(walks):
        if stride < size_bytes:
            return False
        size_bytes += (extent - 1) * stride
    return True
