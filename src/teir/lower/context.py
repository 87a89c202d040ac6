"""What every part of lowering knows: the program's tables, and the place of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import (
    Axis,
    Node,
    Operation,
    Primitive,
)
from teir.lower.contraction_tile import (
    Accumulator,
)
from teir.lower.kernel_program import (
    Address,
    KernelNode,
    Step,
)
from teir.lower.slots import (
    ScratchRoom,
    SlotTable,
)
from teir.lower.turned_runs import Turned
from teir.target import Isa


class Context(msgspec.Struct, frozen=True):
    """What lowering looks up, and the scratch it adds."""

    axes: dict[str, Axis]
    primitives: dict[str, Primitive]
    slots: SlotTable
    index_cells: dict[str, int]
    isa: Isa
    accumulator: Accumulator
    room: ScratchRoom
    siblings: Callable[[Sequence[Node], Path, Context], tuple[KernelNode, ...]]
    """How the children of a node are lowered."""
    turned: dict[str, Turned]


class Path(msgspec.Struct, frozen=True, gc=False):
    """What surrounds a node: the iterated axes, and reductions absorbed by the next Contraction."""

    axes: tuple[Axis, ...]
    absorbed: tuple[Axis, ...]
    in_grid: bool

    def inside(self, axis: Axis) -> Path:
        return Path((*self.axes, axis), self.absorbed, self.in_grid)


def steps_of(axis: Axis, context: Context) -> tuple[Step, ...]:
    number = context.slots.number
    return tuple(
        [
            Step(slot=number[tensor], stride_bytes=stride)
            for tensor, stride in axis.strides.items()
            if tensor in number
        ]
    )


def operand_names(primitive: Primitive) -> tuple[str, ...]:
    if primitive.operation is Operation.ZERO:
        return (primitive.output,)
    return primitive.operands


def operands_of(
    primitive: Primitive, path: Path, context: Context
) -> tuple[tuple[Address, ...], tuple[DataType, ...]]:
    """Addresses of the first element of the tile, relative to what the loops add, and types."""
    names = operand_names(primitive)
    slots, number = context.slots.slots, context.slots.number
    fixed = [context.axes[name] for name in primitive.axes]
    moved = [axis.offsets for axis in (*path.axes, *path.absorbed, *fixed) if axis.offsets]
    addresses, types = [], []
    for name in names:
        slot = number[name]
        start = sum([offsets[name] for offsets in moved]) if moved else 0
        addresses.append(Address(slot=slot, offset_bytes=start))
        types.append(slots[slot].data_type)
    return tuple(addresses), tuple(types)
