"""What every part of lowering knows: the program's tables, and the place of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import (
    Axis,
    Node,
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

_OFFSETS = attrgetter("offsets")


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
    parted: dict[str, int]
    """Of primitives whose fibres may be walked in parts: the coordinates of a part."""
    has_sparse: bool
    """Whether an axis of the program is sparse."""
    asks: bool
    """Whether blocks may ask in passing for an input of a Contraction."""
    is_part: bool = False
    """Whether a part of the fibres is what is lowered."""


class Path(msgspec.Struct, frozen=True, gc=False):
    """What surrounds a node: the iterated axes, and reductions absorbed by the next Contraction."""

    axes: tuple[Axis, ...]
    absorbed: tuple[Axis, ...]
    grid_axes: int
    """The iterated axes, outermost first, up to the last one of the grid; 0 outside of one."""

    @property
    def in_grid(self) -> bool:
        return self.grid_axes > 0

    def inside(self, axis: Axis) -> Path:
        return Path((*self.axes, axis), self.absorbed, self.grid_axes)


def steps_of(axis: Axis, context: Context) -> tuple[Step, ...]:
    number = context.slots.number
    steps = []
    for tensor, stride in axis.strides.items():
        if tensor in number:
            steps.append(Step(slot=number[tensor], stride_bytes=stride))
    return tuple(steps)


def axes_of(primitive: Primitive, context: Context) -> list[Axis]:
    """The axes that a primitive consumes."""
    return list(map(context.axes.__getitem__, primitive.axes))


def operands_of(
    names: Sequence[str], path: Path, consumed: Sequence[Axis], context: Context
) -> tuple[tuple[Address, ...], tuple[DataType, ...]]:
    """Addresses of the first element of a tile, relative to what the loops add, and types.

    Of the tensors ``names``; the tile walks ``consumed``.
    """
    slots, number = context.slots.slots, context.slots.number
    moved = list(filter(None, map(_OFFSETS, (*path.axes, *path.absorbed, *consumed))))
    addresses, types = [], []
    for name in names:
        slot, start = number[name], 0
        for offsets in moved:
            start += offsets.get(name, 0)
        addresses.append(Address(slot=slot, offset_bytes=start))
        types.append(slots[slot].data_type)
    return tuple(addresses), tuple(types)
