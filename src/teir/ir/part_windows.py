"""Which part of its fibres a run of a root walks, for `teir.ir.evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from teir.dtypes import DataType
from teir.ir.coordinate_parts import PartedNest, coordinates_at_once, parted_nest
from teir.ir.nodes import Axis, InvocationNode, IterationNode, Node, Primitive


@dataclass(frozen=True, slots=True)
class Window:
    """The coordinates of one part of the fibres of a nest."""

    nest: PartedNest
    coordinates: range

    @property
    def is_first(self) -> bool:
        return self.coordinates.start == 0

    def runs(self, leaf: InvocationNode) -> bool:
        """Whether the part runs a leaf: the first one alone runs Zeros of results."""
        return self.is_first or leaf.name not in self.nest.cleared

    def chooses_fibres(self, node: IterationNode) -> bool:
        """Whether the part runs a loop only for fibres that it holds something of."""
        return node is self.nest.fibres and not (self.is_first and self.nest.cleared)

    def cuts(self, axis: Axis) -> bool:
        """Whether the part walks only some coordinates of an axis."""
        return axis.name == self.nest.walk.axis


def windows_of(
    root: Node,
    axes: Mapping[str, Axis],
    primitives: Mapping[str, Primitive],
    types: Mapping[str, DataType],
) -> tuple[Window | None, ...]:
    """The parts a root is run in; None alone where it is run as it stands."""
    nest = parted_nest(root, axes, primitives, types)
    size = None if nest is None else coordinates_at_once(primitives[nest.leaf.primitive])
    extent = 0 if nest is None else axes[nest.walk.axis].extent
    if nest is None or size is None or size >= extent:
        return (None,)
    return tuple(Window(nest, range(low, low + size)) for low in range(0, extent, size))
