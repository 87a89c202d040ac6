"""What fibres gather: operands of Contractions of which every coordinate chooses a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.ir.nodes import InvocationNode, Operation
from teir.passes.draft import Draft, Path
from teir.target import LINE_BYTES


@dataclass(frozen=True, slots=True)
class Gather:
    """A tensor by the sparse axis whose coordinates choose its rows and the axis along a row."""

    tensor: str
    rows: str
    row: str


def gathers_of(draft: Draft, path: Path, leaf: InvocationNode) -> Iterator[Gather]:
    """The operands of which a Contraction reads a row of whole lines per coordinate."""
    primitive = draft.primitives[leaf.primitive]
    if primitive.operation is not Operation.CONTRACTION:
        return
    given = {tensor.name for tensor in draft.program.tensors} - draft.written(draft.program.roots)
    for name in dict.fromkeys(primitive.inputs):
        used = dict.fromkeys((*(node.axis for node in path), *primitive.axes))
        moving = [one for one in used if moves(draft, one, name)]
        if name not in given or len(moving) != 2 or moving[1] not in primitive.axes:
            continue
        gather = Gather(name, *moving)
        if _is_gather(draft, gather):
            yield gather


def moves(draft: Draft, axis: str, tensor: str) -> bool:
    """Whether a step along the axis, or its offset, moves the tensor."""
    walked = draft.axes[axis]
    return walked.strides[tensor] != 0 or walked.offsets[tensor] != 0


def _is_gather(draft: Draft, gather: Gather) -> bool:
    rows, row, width = draft.axes[gather.rows], draft.axes[gather.row], draft.width(gather.tensor)
    if len(rows.segments) != 1 or gather.tensor in rows.segments[0].by_position or row.is_sparse:
        return False
    if rows.offsets[gather.tensor] or row.offsets[gather.tensor]:
        return False
    is_adjacent = row.strides[gather.tensor] == width
    return is_adjacent and row.extent * width % LINE_BYTES == 0


def row_bytes(draft: Draft, gather: Gather) -> int:
    """Bytes of one row."""
    return draft.axes[gather.row].extent * draft.width(gather.tensor)


def gathered_bytes(draft: Draft, gather: Gather) -> int:
    """Bytes of all rows."""
    return draft.axes[gather.rows].extent * row_bytes(draft, gather)
