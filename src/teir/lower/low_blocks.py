"""Where there are few vector registers: outer reductions around all register blocks of a tile.

    for every panel of rows                 for every index of the outer reduction
      for every block of columns              for every panel of rows
        C += A B, over all reductions   ->      for every block of columns
                                                  C += A B, over the inner reductions

A low panel meets few columns at a time, so what it reads of A must stay in the first cache, where
rows in place take lines of which they use a part. The results are read and written once more for
every index, in the same order: no bit changes. Measured on Zen 3, configurations of section 5.3:
0.93 of the time in FP32 and 0.8 in FP64.
"""

from __future__ import annotations

from math import prod

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.contraction_tile import ContractionTile
from teir.lower.gemm import lower_gemm
from teir.lower.gemm_axes import GemmAxes
from teir.lower.kernel_program import KernelNode
from teir.passes.line_sets import lines_of_step
from teir.target import LINE_BYTES, MANY_REGISTERS, Isa

_PANEL_LINES = 1
"""Lines that a panel of two short vectors fills."""
NEAR_PANEL_BYTES = 16 << 10
"""Of a panel, that stay in the first cache beside columns and results."""
_FEWEST_PRODUCTS = 16
"""Per result inside, that repay its way to and from memory."""
PLAIN = (DataType.FP32, DataType.FP64)


def has_outer_reduction(tile: ContractionTile, axes: GemmAxes, isa: Isa) -> bool:
    """True where a panel of all reductions leaves the first cache, and one of the inner ones not.

    Rows are adjacent plain numbers, more of them than one panel has.
    """
    if isa.vector_registers >= MANY_REGISTERS or len(tile.reductions) < 2:
        return False
    kind, place = tile.in_type, 1 if axes.swapped else 0
    if kind not in PLAIN or tile.out_type is not kind or axes.lanes.strides[0] != kind.width:
        return False
    if axes.lanes.extent * kind.width <= _PANEL_LINES * LINE_BYTES:
        return False
    inner = tile.reductions[1:]
    depth = prod(axis.extent for axis in inner)
    panel_bytes = panel_bytes_in_place(depth, inner[-1].strides[place])
    is_left = tile.reductions[0].extent * panel_bytes > NEAR_PANEL_BYTES
    return is_left and depth >= _FEWEST_PRODUCTS and panel_bytes <= NEAR_PANEL_BYTES


def panel_bytes_in_place(depth: int, step_bytes: int) -> int:
    """What a panel of two short vectors takes of the first cache: lines it uses in part."""
    return depth * lines_of_step(_PANEL_LINES, step_bytes) * LINE_BYTES


def lower_outer_reduction(
    tile: ContractionTile, axes: GemmAxes, isa: Isa
) -> tuple[KernelNode, ...]:
    """The blocks of the first index, which may start from zero, and a loop over the others."""
    outer = tile.reductions[0]
    first, second = first_parts(tile, outer, tile.reductions[1:])
    rest = TileAxis(outer.extent - 1, outer.strides)
    body = lower_gemm(second, axes, isa, None, None, None)
    loop = wrap_in_loops((rest,), second.operands, body)
    return (*lower_gemm(first, axes, isa, None, None, None), *loop)


def first_parts(
    tile: ContractionTile, outer: TileAxis, inner: tuple[TileAxis, ...]
) -> tuple[ContractionTile, ContractionTile]:
    """The tiles of the first two indices of ``outer``, ``inner`` summed in each; the second, and
    those after it, go on with what is there."""
    first = replace(tile, reductions=inner, ahead=(0,) * len(tile.ahead))
    moved = tuple(
        replace(address, offset_bytes=address.offset_bytes + stride)
        for address, stride in zip(tile.operands, outer.strides, strict=True)
    )
    return first, replace(first, operands=moved, from_zero=False)
