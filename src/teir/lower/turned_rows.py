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
    return sum([axis.offsets[tensor] for axis in axes if tensor in axis.offsets])


def walk_of(axis: Axis, tensor: str) -> tuple[int, int, int]:
    return axis.extent, axis.strides.get(tensor, 0), axis.offsets.get(tensor, 0)


def turned_rows(
    copies: Sequence[Primitive], above: Sequence[Axis], axes: dict[str, Axis]
) -> TurnedRows | None:
    """The rows of the first of `ROW_COPIES` copies, if the others copy them once more behind
    themselves."""
    whole, late, early = copies
    shared = set(whole.axes) & set(late.axes) & set(early.axes)
    own = [[axes[name] for name in one.axes if name not in shared] for one in copies]
    if any(len(one) != 1 for one in own) or whole.output in whole.inputs:
        return None
    if any(axes[name].is_sparse for one in copies for name in one.axes):
        return None
    (rows,), (last,), (first,) = own
    (source,), target = whole.inputs, whole.output
    if any(axis.strides[target] for axis in above):
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
    moving = [axes[name] for name in shared if axes[name].strides[target]]
    walks = [(2, distance), *((axis.extent, axis.strides[target]) for axis in moving)]
    if not is_turned or place <= 0 or not lie_apart(walks, extent * place):
        return None
    others = frozenset(axis.name for axis in moving)
    walked = (*above, *(axes[name] for name in whole.axes))
    return TurnedRows(rows, others, count, begin_of(walked, target), distance)


def lie_apart(walks: Sequence[tuple[int, int]], size_bytes: int) -> bool:
    """True where places of walks (extent, stride) are ``size_bytes`` apart at least: no copy meets
    another's."""
    for extent, stride in sorted(walks, key=lambda walk: walk[1]):
        if stride < size_bytes:
            return False
        size_bytes += (extent - 1) * stride
    return True
