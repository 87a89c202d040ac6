"""Which copies are permutations, and which of them are one tile that the lowering cuts."""

from __future__ import annotations

from teir.passes.short_sides import has_short_sides
from teir.search.machine import SAME_PLACE_BYTES, Machine
from teir.search.shape import extent_of, outermost_first
from teir.search.step import Step

LARGE_BYTES, FAR_BYTES, _FAR_OF_FEW_ROWS_BYTES = 3 << 20, 8 << 20, 16 << 20
"""Permutations from the first on may be one tile, which the lowering cuts, and from the second, or
where few rows are followed the third, all are; between them only those that squares do not suit.
Measured on Zen 4: 0.25 to 1.5 of the time there, 0.6 in the mean; on Golden Cove, whose squares ask
for what they store to: 0.42 to 1.02, 0.63 in the mean, up to 8 where squares are not full."""
_LONG_SIDE = 12
"""Elements that fill squares."""


def is_permutation(step: Step) -> bool:
    """True where axes are adjacent on the input and on the output, and no value changes."""
    (source,), target = step.inputs, step.output
    if source.data_type is not target.data_type or len(step.axes) < 2:
        return False
    return all(
        min(axis.stride(tensor.name) for axis in step.axes) == tensor.data_type.width
        for tensor in (source, target)
    )


def is_large(step: Step, machine: Machine) -> bool:
    """True for a permutation that goes through a tile in scratch.

    Also where a third cache holds it, if its squares would not be full or their rows would fall
    into the same few lines. Where a processor follows few rows, streams suit some such (see
    `teir.search.streamed_copies`).
    """
    total_bytes = extent_of(step.axes) * step.output.data_type.width
    if total_bytes < LARGE_BYTES:
        return False
    source, target = step.inputs[0], step.output
    along_input, along_output = (outermost_first(step.axes, one)[-1] for one in (source, target))
    are_full = min(along_input.extent, along_output.extent) >= _LONG_SIDE
    strides = along_input.stride(target.name), along_output.stride(source.name)
    collide = any(stride % SAME_PLACE_BYTES == 0 for stride in strides)
    far_bytes = _FAR_OF_FEW_ROWS_BYTES if machine.follows_few_rows else FAR_BYTES
    return total_bytes >= far_bytes or not are_full or collide


def is_cells(step: Step) -> bool:
    """True for the many short axes that the lowering copies cell by cell."""
    first, last = (outermost_first(step.axes, side)[-1] for side in (step.inputs[0], step.output))
    return has_short_sides([axis.extent for axis in step.axes], first.extent, last.extent)
