"""Rows of a packed operand that lie once more behind the last of them.

Two copies in a row leave them so: one of all rows, one of the first few, to the place where the
rows end. Whoever reads the rows may then begin with a later one and go on round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from teir.ir.nodes import Axis, InvocationNode, IterationNode, Node, Operation, Primitive, Program


class RepeatedRows(msgspec.Struct, frozen=True):
    """The axis of the rows, the other axes that move the tensor, and how many rows lie again."""

    rows: Axis
    others: frozenset[str]
    again: int


def repeated_rows(program: Program) -> dict[str, RepeatedRows]:
    """The scratch tensors that two copies, and nothing else, fill with rows and rows again."""
    pairs = list(_pairs_of_copies(program))
    if not pairs:
        return {}
    axes = program.axis_table()
    writes = [node.primitive for _, node in program.invocations()]
    primitives = program.primitive_table()
    outputs = [primitives[name].output for name in writes]
    found = {}
    for whole, few in pairs:
        repeated = _repeated(whole, few, axes)
        if repeated is not None and outputs.count(whole.output) == len((whole, few)):
            found[whole.output] = repeated
    return found


def rows_again(
    repeated: RepeatedRows | None, tensor: str, consumed: Sequence[Axis], around: Sequence[Axis]
) -> int:
    """How many rows lie again behind those of a tile that walks ``consumed`` inside ``around``.

    0 unless the tile walks all rows, and else only axes that both copies walk.
    """
    if repeated is None:
        return 0
    walked = [axis for axis in (*consumed, *around) if axis.strides[tensor]]
    rows = [axis for axis in walked if _is_same_walk(axis, repeated.rows, tensor)]
    others = {axis.name for axis in walked if axis not in rows}
    is_whole = len(rows) == 1 and rows[0] in consumed and others <= repeated.others
    return repeated.again if is_whole else 0


def _is_same_walk(axis: Axis, other: Axis, tensor: str) -> bool:
    return _walk(axis, tensor) == _walk(other, tensor)


def _walk(axis: Axis, tensor: str) -> tuple[int, int, int]:
    return axis.extent, axis.strides[tensor], axis.offsets[tensor]


def _pairs_of_copies(program: Program) -> Iterator[tuple[Primitive, Primitive]]:
    """Copies from one tensor to another that follow one another, run always both."""
    primitives = program.primitive_table()
    inside = [node.children for node in program.nodes() if isinstance(node, IterationNode)]
    for siblings in (program.roots, *inside):
        copies = [_copy(node, primitives) for node in siblings]
        for first, second in pairwise(copies):
            if first is not None and second is not None and first.operands == second.operands:
                yield first, second


def _copy(node: Node, primitives: dict[str, Primitive]) -> Primitive | None:
    if not isinstance(node, InvocationNode) or node.guard:
        return None
    primitive = primitives[node.primitive]
    return primitive if primitive.operation is Operation.COPY else None


def _repeated(whole: Primitive, few: Primitive, axes: dict[str, Axis]) -> RepeatedRows | None:
    """What ``few`` repeats of ``whole``: the first of its rows, each at the end of its own rows."""
    shared = set(whole.axes) & set(few.axes)
    own = [[axes[name] for name in one.axes if name not in shared] for one in (whole, few)]
    is_walk = not any(axes[name].is_sparse for name in (*whole.axes, *few.axes))
    if [len(one) for one in own] != [1, 1] or whole.output in whole.inputs or not is_walk:
        return None
    (rows,), (again,) = own
    (source,), target = whole.inputs, whole.output
    step, end = rows.strides[target], rows.offsets[target] + rows.extent * rows.strides[target]
    is_begin = again.extent <= rows.extent and all(
        _walk(axis, source)[1:] == (rows.strides[source], rows.offsets[source])
        for axis in (rows, again)
    )
    if not is_begin or (again.strides[target], again.offsets[target]) != (step, end) or step <= 0:
        return None
    moving = [axes[name] for name in shared if axes[name].strides[target]]
    if not _lie_apart(moving, target, (rows.extent + again.extent) * step):
        return None
    return RepeatedRows(rows, frozenset(axis.name for axis in moving), again.extent)


def _lie_apart(axes: Sequence[Axis], tensor: str, size_bytes: int) -> bool:
    """True where places of the axes are ``size_bytes`` apart at least: no copy meets another's."""
    for axis in sorted(axes, key=lambda one: one.strides[tensor]):
        if axis.strides[tensor] < size_bytes:
            return False
        size_bytes += (axis.extent - 1) * axis.strides[tensor]
    return True
