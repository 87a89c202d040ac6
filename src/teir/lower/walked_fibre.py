"""The fibre that one kernel call walks, and the leaf that it computes at every entry."""

from __future__ import annotations

from dataclasses import dataclass, replace

from teir.dtypes import DataType
from teir.lower.axes import TileAxis
from teir.lower.kernel_program import Address, KernelNode, RunLoop, SparseLoop, Step, Walk
from teir.lower.walked_kernels import Follows

_OUTER = {
    Follows.NOTHING: Follows.NOTHING,
    Follows.POSITION: Follows.OUTER_POSITION,
    Follows.COORDINATE: Follows.OUTER_COORDINATE,
}


@dataclass(frozen=True, slots=True)
class Fibre:
    """The fibre a kernel walks, and what one position and one coordinate add to slots."""

    extent: int
    pos: Address
    pos_type: DataType
    crd: Address
    crd_type: DataType
    positions: tuple[Step, ...]
    coordinates: tuple[Step, ...]
    is_deep: bool
    """True below another compressed level."""
    above: Fibre | None = None
    """The fibre of the level above, where a kernel walks both."""

    def move(self, address: Address) -> tuple[Follows, int]:
        """What moves an operand along the fibre, and by how many bytes."""
        for follows, steps in (
            (Follows.POSITION, self.positions),
            (Follows.COORDINATE, self.coordinates),
        ):
            for step in steps:
                if step.slot == address.slot:
                    return follows, step.stride_bytes
        if self.above is None:
            return Follows.NOTHING, 0
        follows, stride = self.above.move(address)
        return _OUTER[follows], stride

    def below(self, above: Fibre) -> Fibre | None:
        """The fibre with the level above it; None where a kernel cannot walk both."""
        moved = {step.slot for step in (*above.positions, *above.coordinates)}
        own = {step.slot for step in (*self.positions, *self.coordinates)}
        if self.crd.slot in moved or any(slot in moved for slot in own - {self.crd.slot}):
            return None
        if above.move(self.pos)[0] is Follows.NOTHING:
            return None
        return replace(self, above=above)

    @property
    def number(self) -> Follows:
        """What of the level above says which of its fibres this one is."""
        if self.above is None:
            return Follows.OUTER_POSITION
        return _OUTER[self.above.move(self.pos)[0]]

    def in_run(self, bounds: Address, kept: int, stride_bytes: int) -> Fibre:
        """A run of the fibre, with a slot that has a place for every position."""
        step = Step(slot=kept, stride_bytes=stride_bytes)
        positions = (*self.positions, step)
        return replace(self, pos=bounds, pos_type=DataType.I64, positions=positions)

    def runs(
        self,
        size: int,
        bounds: Address,
        steps: tuple[Step, ...],
        body: tuple[KernelNode, ...],
        first: tuple[KernelNode, ...],
    ) -> RunLoop:
        """The fibre walked run by run, the first one by ``first`` where that holds nodes."""
        return RunLoop(
            pos=self.pos,
            pos_type=self.pos_type,
            size=size,
            bounds=bounds,
            steps=steps,
            body=body,
            first=first,
        )

    def loop(self, body: tuple[KernelNode, ...]) -> SparseLoop:
        """The fibre walked visit by visit."""
        walk = Walk(
            pos=self.pos,
            pos_type=self.pos_type,
            crd=self.crd,
            crd_type=self.crd_type,
            crd_stride_bytes=self.crd_type.width,
            steps=self.positions,
        )
        return SparseLoop(
            extent=self.extent,
            walks=(walk,),
            steps=self.coordinates,
            index=None,
            last=None,
            body=body,
        )


@dataclass(frozen=True, slots=True)
class Leaf:
    """A Contraction below a sparse loop: its axes, operands and types, inputs first."""

    axes: tuple[TileAxis, ...]
    operands: tuple[Address, ...]
    in_type: DataType
    out_type: DataType
    accumulate: bool
    chains: int | None = None
    """Of a sum over the positions of a fibre, where it is formed in chains."""
