"""One Contraction invocation as lowering sees it: axes sorted by what they do."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from teir.dtypes import DataType
from teir.lower.axes import TileAxis, fuse_adjacent, fuse_any_order
from teir.lower.kernel_program import Address
from teir.lower.turned_runs import Turned


class TileHints(msgspec.Struct, frozen=True, gc=False):
    """Advice about memory: the output goes past the caches; operands to be asked for ahead."""

    streams: bool
    prefetched: tuple[bool, ...]


NO_TILE_HINTS = TileHints(streams=False, prefetched=(False, False, False))


class Accumulator(msgspec.Struct, frozen=True, gc=False):
    """A scratch slot that holds one block of a narrow output while its reduction runs."""

    slot: int
    bytes: int


class ContractionTile(msgspec.Struct, frozen=True, gc=False):
    """One Contraction invocation: axes by kind, operand addresses and types, inputs first.

    ``reductions`` keep the program's order, outermost first. ``from_zero`` says that the output
    counts as zero before the invocation, whatever it holds. ``ahead`` is how far each operand moves
    to the tile that comes next, in bytes. ``flushes``: subnormal numbers count as zero.
    ``turned``: of each input where its rows lie once more, taken round. ``turns``: of the loop
    around, where one input and the output move along it and the tile ``flushes``. ``tiles``: of the
    first input, in all loops around. ``rereads``: in how many turns in a row each input is the
    same, where registers are few.
    """

    free: tuple[TileAxis, ...]
    reductions: tuple[TileAxis, ...]
    operands: tuple[Address, ...]
    in_type: DataType
    out_type: DataType
    from_zero: bool
    ahead: tuple[int, ...]
    hints: TileHints
    flushes: bool = False
    turned: tuple[Turned | None, ...] = ()
    turns: int = 1
    tiles: int = 1
    rereads: tuple[int, ...] = ()

    @property
    def products(self) -> int:
        """Of one result."""
        products = 1
        for axis in self.reductions:
            products *= axis.extent
        return products

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.in_type.width,) * (len(self.operands) - 1) + (self.out_type.width,)


def contraction_tile(
    axes: Sequence[TileAxis],
    operands: tuple[Address, ...],
    in_type: DataType,
    out_type: DataType,
    from_zero: bool,
    ahead: tuple[int, ...],
    *,
    hints: TileHints = NO_TILE_HINTS,
    flushes: bool = False,
    turned: tuple[Turned | None, ...] = (),
    turns: int = 1,
    tiles: int = 1,
    rereads: tuple[int, ...] = (),
) -> ContractionTile:
    """Sort the axes into free ones and reductions, fused where memory allows."""
    free: list[TileAxis] = []
    reductions: list[TileAxis] = []
    for axis in axes:
        (free if axis.strides[-1] else reductions).append(axis)
    return ContractionTile(
        tuple(fuse_any_order(free)),
        tuple(fuse_adjacent(reductions)),
        operands,
        in_type,
        out_type,
        from_zero,
        ahead,
        hints,
        flushes,
        turned,
        turns,
        tiles,
        rereads,
    )
