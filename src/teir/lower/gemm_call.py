"""One call of register blocks of a GEMM-shaped tile: its kernel and its arguments."""

from __future__ import annotations

from math import prod

import msgspec

from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.axes import STILL, TileAxis
from teir.lower.block_shapes import holds_depth
from teir.lower.contraction_tile import ContractionTile
from teir.lower.gemm_axes import GemmAxes
from teir.lower.kernel_program import Address, Call
from teir.lower.kernels import GemmBlock
from teir.target import Isa

BLOCK_REDUCTIONS = 3
"""Reduction loops inside a GemmBlock: k, batch, outer."""
_PLAIN = (DataType.FP32, DataType.FP64)
_FEW_VECTORS = 2
"""Vectors of blocks whose multiply-adds may read some factors from memory themselves."""


class BlockCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The blocks that one call forms: ``blocks`` beside each other, all of one shape."""

    vectors: int
    columns: int
    masked: bool
    """The last vector has the last lanes of the tile only."""
    accumulate: bool
    blocks: int = 1
    brings: bool = False
    keeps: bool = False
    """The first rows are those of the block before."""
    wide_column_bytes: int | None = None
    """From one column to the next where C is the wide accumulator."""


class BlockCalls(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What all calls of a tile have in common; ``inside`` are the reductions of a block."""

    tile: ContractionTile
    axes: GemmAxes
    inside: tuple[TileAxis, ...]
    isa: Isa
    lanes: int
    last_lanes: int
    has_parts: bool

    def call(self, block: BlockCall, operands: tuple[Address, Address, Address]) -> Call:
        return Call(kernel=self._kernel(block), operands=operands, arguments=self._arguments(block))

    def _kernel(self, block: BlockCall) -> GemmBlock:
        out_type, c_m = self._lanes_of_c(block)
        a_access = _lane_access(self.axes.lanes.strides[0], self.tile.in_type)
        return GemmBlock(
            in_type=self.tile.in_type,
            out_type=out_type,
            lanes=self.lanes,
            vectors=block.vectors,
            columns=block.columns,
            a_access=Access.UNIT if self.has_parts else a_access,
            c_access=_lane_access(c_m, out_type),
            masked=block.masked,
            flushes=self.tile.flushes,
            b_adjacent=self._walks_b(block) and self._is_b_adjacent(),
            repeats=block.blocks > 1,
            brings=block.brings,
            depth=self._fixed_depth(block),
            parts=self.has_parts,
            loads_ahead=self._loads_ahead(block),
            keeps=block.keeps,
        )

    def _arguments(self, block: BlockCall) -> tuple[int, ...]:
        wide, strides = block.wide_column_bytes, self.axes.columns.strides
        a_place, b_place = (1, 0) if self.axes.swapped else (0, 1)
        reduction = tuple(
            value
            for axis in reversed(all_loops(self.inside))
            for value in (axis.extent, *axis.strides[:2])
        )
        return (
            *reduction,
            strides[1],
            strides[2] if wide is None else wide,
            int(block.accumulate),
            self.last_lanes if block.masked or block.keeps else self.lanes,
            self.axes.lanes.strides[0],
            self._lanes_of_c(block)[1],
            self.tile.ahead[b_place],
            self.tile.ahead[-1] if wide is None else 0,
            *((block.blocks,) if block.blocks > 1 else ()),
            *((self.tile.ahead[a_place],) if block.brings else ()),
        )

    def _lanes_of_c(self, block: BlockCall) -> tuple[DataType, int]:
        """The type of C's elements and the bytes from one lane to the next."""
        if block.wide_column_bytes is None:
            return self.tile.out_type, self.axes.lanes.strides[2]
        wide = self.tile.out_type.accumulator
        return wide, wide.width

    def _fixed_depth(self, block: BlockCall) -> int | None:
        """The depth a block knows; None where it takes the depth as an argument."""
        if len(self.inside) > 1 or not self.isa.is_avx512 or self.tile.flushes:
            return None
        if self.tile.in_type not in _PLAIN or self._may_ask():
            return None
        depth = prod(axis.extent for axis in self.inside)
        holds = holds_depth(block.vectors, block.columns, depth, self._loads_ahead(block))
        return depth if holds else None

    def _may_ask(self) -> bool:
        """True for single products whose inputs are asked for: blocks ask in the loop over them."""
        return not self.inside and any(self.tile.hints.prefetched[:-1])

    def _loads_ahead(self, block: BlockCall) -> bool:
        is_masked = block.masked and block.wide_column_bytes is None
        return block.blocks > 1 and is_masked and self.columns_meet(block.vectors)

    def columns_meet(self, vectors: int) -> bool:
        """True where sums start from C and the next column begins in the line in which one of so
        many vectors ends, in a part of a vector: a load waits for an earlier store also to what its
        mask leaves out."""
        tile, (_, _, c_m) = self.tile, self.axes.lanes.strides
        width = tile.out_type.width
        is_plain = tile.in_type is tile.out_type and tile.in_type in _PLAIN
        if not (is_plain and self.isa.is_avx512) or tile.from_zero or self.last_lanes == self.lanes:
            return False
        return c_m == width and 0 < self.axes.columns.strides[2] < vectors * self.lanes * width

    def _walks_b(self, block: BlockCall) -> bool:
        """True where a block gains by knowing that the elements of a column of B are adjacent."""
        if self.tile.flushes:
            return True
        if self.tile.in_type not in _PLAIN:
            return False
        if block.vectors == 1:
            return self.isa.is_avx512 and block.columns > 2
        is_looped = self._fixed_depth(block) is None
        return self.isa.multiplies_twice_a_cycle and block.vectors <= _FEW_VECTORS and is_looped

    def _is_b_adjacent(self) -> bool:
        return bool(self.inside) and self.inside[-1].strides[1] == self.tile.in_type.width


def all_loops(inside: tuple[TileAxis, ...]) -> tuple[TileAxis, ...]:
    """The reductions of a block, those that are missing in front."""
    missing = BLOCK_REDUCTIONS - len(inside)
    return (STILL,) * missing + inside


def _lane_access(stride_bytes: int, data_type: DataType) -> Access:
    return Access.UNIT if stride_bytes == data_type.width else Access.STRIDED
