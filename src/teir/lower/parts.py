"""Rows of complex factors copied in parts, for the register blocks of many columns.

A product of complex elements needs every vector of A turned, (re, im) to (-im, re), at every step:
two instructions on the units that multiply, a fifth of the time of a block of 4 x 5. Where numbers
lie in parts (`PartCopy`) nothing is turned, and the multiply-adds are the same. Measured on Golden
Cove, operands in the first cache: blocks of 4 x 5 reach 92 instead of 78 % of the peak. On Zen 4,
which turns vectors beside its products, they reach more than that as they are.

    PartCopy      A's rows of the next blocks, all steps -> room
    GemmBlock     room, the first columns of B -> C, and so on
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from teir.lower.axes import TileAxis
from teir.lower.contraction_tile import ContractionTile
from teir.lower.gemm_axes import GemmAxes
from teir.lower.kernel_program import Address, Call
from teir.lower.kernels import PartCopy
from teir.target import Isa

_LEAST_COLUMNS = 18
"""Columns that repay the copy: three blocks."""
_MOST_ROOM_BYTES = 1 << 20
_TALLEST = 4
"""Vectors of the tallest blocks of `part_shapes`."""


def takes_parts(tile: ContractionTile, axes: GemmAxes, lanes: int, depth: int, isa: Isa) -> bool:
    """True where blocks of the tile read rows in parts, ``lanes`` in a vector, ``depth`` steps."""
    if not tile.in_type.is_complex or not isa.multiplies_twice_a_cycle:
        return False
    width = tile.in_type.width
    a_m, _, c_m = axes.lanes.strides
    vectors = -(-axes.lanes.extent // lanes)
    return (
        a_m == width
        and c_m == width
        and lanes * width == isa.vector_bytes
        and has_pairs(vectors)
        and axes.columns.extent >= _LEAST_COLUMNS
        and min(vectors, _TALLEST) * isa.vector_bytes * depth <= _MOST_ROOM_BYTES
    )


def has_pairs(vectors: int) -> bool:
    """False where the vector left over by pairs would cost what they save."""
    return vectors > 1 and vectors != 3


def part_copy(
    tile: ContractionTile,
    operands: tuple[Address, Address],
    reductions: Sequence[TileAxis],
    lanes: tuple[int, int],
    vectors: int,
) -> Call:
    """The call that copies ``vectors`` vectors of A to the room.

    ``operands`` are A and the room; ``reductions`` as `GemmBlock` has them, outermost first;
    ``lanes`` of a vector and of the last one.
    """
    full, last = lanes
    kernel = PartCopy(data_type=tile.in_type, lanes=full, vectors=vectors, masked=last < full)
    steps = [value for axis in reversed(reductions) for value in (axis.extent, axis.strides[0])]
    return Call(kernel=kernel, operands=operands, arguments=(*steps, last))


def part_copy_room(call: Call) -> int:
    """Bytes of the room that a call of a `PartCopy` fills."""
    assert isinstance(call.kernel, PartCopy)
    return _step_bytes(call.kernel) * prod(call.arguments[:6:2])


def reductions_in_parts(call: Call, reductions: Sequence[TileAxis]) -> tuple[TileAxis, ...]:
    """``reductions`` of blocks that read what ``call`` copied instead of A."""
    assert isinstance(call.kernel, PartCopy)
    moved = []
    distance = _step_bytes(call.kernel)
    for axis in reversed(reductions):
        moved.append(TileAxis(axis.extent, (distance, *axis.strides[1:])))
        distance *= axis.extent
    return tuple(reversed(moved))


def _step_bytes(kernel: PartCopy) -> int:
    return kernel.vectors * kernel.lanes * kernel.data_type.width
