"""The product of one tile of a large input that is permuted on its way in, as `tiles` cuts it."""

from __future__ import annotations

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.passes.extents import even_block
from teir.search.choice import Choice, Packing
from teir.search.machine import Machine
from teir.search.packing import all_follow
from teir.search.shape import ProductShape, extent_of
from teir.search.short_sums import short_choice

_STREAMED_VECTORS = 3
_FOLLOWING_VECTORS = 6
"""Vectors of a panel; more where rows follow one another in the output and so make longer runs."""
_SQUARE = 4
"""So many rows that lie side by side in the source are turned together."""


def is_packed_near(out: DataType, machine: Machine) -> bool:
    """True where tiles are near: asked for piece by piece, and a part of the second cache.

    Not of types narrower than their sums: `efbad,cf->abcde` of BF16 took 1.25 times as long so
    (Zen 4).
    """
    return machine.reads_short_pieces and out.accumulator is out


def packed_tile_choice(shape: ProductShape, is_near: bool, machine: Machine) -> Choice:
    """The large input packed whole, the small one where it lies; results go to the output.

    In near tiles the copy asks for the next pieces of the input, and all columns of the tile make
    one block, which finishes a panel while the first cache holds it. Where requests are forgotten
    nobody asks for lines of the output: those go past the caches, and requests for them in between
    took 1.1 to 1.2 times as long (Zen 5); on Zen 4 products without them took 1.2 to 1.3 times as
    long as with them.
    """
    choice = replace(short_choice(shape, extent_of(shape.k), machine), packed_b=Packing.NONE)
    if not is_near:
        return choice
    return replace(
        choice,
        panel=_near_panel(shape, choice.panel, machine),
        column_block=shape.columns,
        prefetches_out=choice.prefetches_out and not machine.forgets_requests,
        prefetches_packed=True,
    )


def _near_panel(shape: ProductShape, usual: int, machine: Machine) -> int:
    """Rows of a panel: whole ones of an outer axis where they follow one another in the output.

    ``usual``: what a panel has elsewhere, which may be several short runs side by side.

    Where lines of the output are asked for, not the rows of one block of six vectors, if those of
    three are whole rows: with the former `efbad,cf->abcde` took 2.8 or 4.6 ms on Zen 4 (FP32), as
    the process fell, with the latter 3.2 in every one.
    """
    lanes = machine.lanes(shape.out.data_type.width)
    if shape.m is None:
        return _STREAMED_VECTORS * lanes
    rows, outer = shape.m, shape.m_outer[-1] if shape.m_outer else None
    if outer is None or not all_follow((outer, rows), shape.out.name):
        if usual > rows.extent:
            return usual
        vectors = -(-rows.extent // lanes)
        return -(-vectors // max(1, round(vectors / _STREAMED_VECTORS))) * lanes
    aim, count = _FOLLOWING_VECTORS * lanes, round(_FOLLOWING_VECTORS * lanes / rows.extent)
    if outer.stride(shape.a.name) == shape.a.data_type.width:
        return max(1, round(count / _SQUARE)) * _SQUARE * rows.extent
    panel = even_block(outer.extent, count) * rows.extent if count > 1 else aim
    is_halved = panel == aim and aim // 2 % rows.extent == 0 and not machine.forgets_requests
    return aim // 2 if is_halved else panel
