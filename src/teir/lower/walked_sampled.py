"""Lowering of a sparse loop that samples a dot product and scales a row with it: one kernel.

    j over a fibre { t = C[i, :] . D[j, :]; A[i, :] += B[p] * t * E[j, :] }

The fixed row and the row of the output stay in registers for all of the fibre. Rows that are too
long for that, and rows from far away, are formed in runs (`teir.lower.fission`).
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.lower.axes import TileAxis, fuse_any_order
from teir.lower.blocking import full_lanes
from teir.lower.kernel_program import Address, Call, KernelNode
from teir.lower.walked import ASKED_BYTES, lies_far
from teir.lower.walked_fibre import Fibre, Leaf
from teir.lower.walked_kernels import Follows, WalkedSampledSum
from teir.target import Isa

_MOST_VECTORS = 4
"""Vectors of the fixed row, and of the output."""
_AHEAD = 12
_FAR_BYTES = 5 << 20
"""Both gathered operands together: so many times what the second cache holds that many rows come
from beyond it; they are asked for ahead, every second line of them."""
_FARTHER_BYTES = 7 << 20
"""Where most come from beyond it, every line."""


def lower_walked_sampled_sum(
    dot: Leaf, consumer: Leaf, temporary: int, fibre: Fibre, chains: int, isa: Isa
) -> tuple[KernelNode, ...] | None:
    """A call of `WalkedSampledSum`; None where the leaves are anything else.

    ``dot`` is formed in ``chains`` chains and lies in the slot ``temporary``.
    """
    data_type = dot.in_type
    if not isa.has_masks or data_type.is_complex or data_type is not data_type.accumulator:
        return None
    lanes = full_lanes(isa, data_type, data_type)
    if chains != lanes or fibre.above is not None:
        return None
    if {dot.out_type, consumer.in_type, consumer.out_type} != {data_type}:
        return None
    sampled = _sampled_rows(dot, fibre)
    summed = _summed_rows(consumer, temporary, fibre)
    if sampled is None or summed is None:
        return None
    (fixed, gathered, k), (row, scale, m) = sampled, summed
    steps = (fibre.move(gathered)[1], fibre.move(row)[1])
    sizes = tuple(-(-axis.extent // lanes) for axis in (k, m))
    lasts = tuple((axis.extent - 1) % lanes + 1 for axis in (k, m))
    if max(sizes) > _MOST_VECTORS or any(lies_far(step, fibre) for step in steps):
        return None
    gathered_bytes = sum(steps) * fibre.extent
    far_bytes = ASKED_BYTES if isa.asks_nearest else _FAR_BYTES
    kernel = WalkedSampledSum(
        data_type=data_type,
        pos_type=fibre.pos_type,
        crd_type=fibre.crd_type,
        lanes=lanes,
        dot_vectors=sizes[0],
        dot_masked=lasts[0] < lanes,
        vectors=sizes[1],
        masked=lasts[1] < lanes,
        scales=scale is not None,
        ahead=_AHEAD if gathered_bytes >= far_bytes else None,
        in_pairs=_FAR_BYTES <= gathered_bytes < _FARTHER_BYTES and not isa.asks_nearest,
    )
    scales = () if scale is None else (scale,)
    operands = (fibre.pos, fibre.crd, fixed, gathered, row, *scales, consumer.operands[-1])
    arguments = (*lasts, int(consumer.accumulate), *steps)
    return (Call(kernel=kernel, operands=operands, arguments=arguments),)


def _sampled_rows(dot: Leaf, fibre: Fibre) -> tuple[Address, Address, TileAxis] | None:
    """The row that stays, the one that follows the coordinate, and their only axis."""
    width = dot.in_type.width
    if len(dot.axes) != 1 or len(dot.operands) != 3 or dot.accumulate:
        return None
    if dot.axes[0].strides != (width, width, 0):
        return None
    follows = [fibre.move(one)[0] for one in dot.operands[:2]]
    if follows == [Follows.NOTHING, Follows.COORDINATE]:
        return dot.operands[0], dot.operands[1], dot.axes[0]
    if follows == [Follows.COORDINATE, Follows.NOTHING]:
        return dot.operands[1], dot.operands[0], dot.axes[0]
    return None


def _summed_rows(
    consumer: Leaf, temporary: int, fibre: Fibre
) -> tuple[Address, Address | None, TileAxis] | None:
    """The gathered row, the scale, and the axis of the output.

    Products are formed left to right: of three factors the row has to be the last.
    """
    free = fuse_any_order(consumer.axes)
    *inputs, output = consumer.operands
    if len(free) != 1 or fibre.move(output)[0] is not Follows.NOTHING:
        return None
    width, rest = consumer.in_type.width, [one for one in inputs if one.slot != temporary]
    if len(rest) != len(inputs) - 1 or not 1 <= len(rest) <= 2:
        return None
    row, scale = rest[-1], rest[0] if len(rest) == 2 else None
    if fibre.move(row)[0] is not Follows.COORDINATE or (scale is not None and row != inputs[-1]):
        return None
    if scale is not None and fibre.move(scale) != (Follows.POSITION, width):
        return None
    return (row, scale, free[0]) if _is_row(free[0], inputs, row, width) else None


def _is_row(axis: TileAxis, inputs: Sequence[Address], row: Address, width: int) -> bool:
    """True when the axis walks the row and the output element by element, and nothing else."""
    return axis.strides == (*(width if one == row else 0 for one in inputs), width)
