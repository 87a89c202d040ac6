"""Offsets of axes that move a tensor no further than that.

    axis k = 3: in0 4, in1 4, out 0 + 8

Every node below a loop over ``k`` finds ``out`` eight bytes further on, and none outside it does,
though no step along ``k`` moves ``out``. What a pass concludes from strides, that a leaf may leave
the loop, that leaves write the same tile, that a copy serves all turns, is wrong here. Programs
rarely say so; passes that conclude such things leave those that do as they are.
"""

from __future__ import annotations

from teir.ir.nodes import Axis, Program


def has_still_offsets(program: Program) -> bool:
    """True where an axis adds an offset to a tensor that its steps do not move."""
    return any(axis.offsets and _has_still_offset(axis) for axis in program.axes)


def _has_still_offset(axis: Axis) -> bool:
    return any(
        offset and not axis.strides[tensor] and not _is_walked(axis, tensor)
        for tensor, offset in axis.offsets.items()
    )


def _is_walked(axis: Axis, tensor: str) -> bool:
    return any(tensor in segment.by_position for segment in axis.segments)
