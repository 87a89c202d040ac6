"""Products of factors of two types, or of FP32 factors into a narrow output.

    out = A part:  A32 = A;  out32 = A32 part;  out = out32

A narrow factor meets an FP32 one as FP32, which holds it exactly, and the result is rounded at the
end. What needs no more room than the second cache is done at once; the rest in blocks of an axis
that every narrow tensor has, so that nothing is converted twice.
"""

from __future__ import annotations

from operator import attrgetter

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.passes.extents import even_block
from teir.search.emission import Emission
from teir.search.in_parts import InParts, Moved, in_parts
from teir.search.machine import Machine
from teir.search.pieces import Pieces
from teir.search.shape import dense, outermost_first
from teir.search.step import Span, Step, elements_of, is_adjacent

_DATA_TYPE = attrgetter("data_type")
_NEAR = 1 / 4
"""The part of the second cache that the copies of a block take."""


def is_mixed(step: Step) -> bool:
    """True for products and sums with a narrow tensor, and an input that is FP32."""
    types = list(map(_DATA_TYPE, step.inputs))
    if DataType.FP32 not in types or types.count(step.output.data_type) == len(types):
        return False
    is_copy = len(types) == 1 and not step.reductions
    return not is_copy and bool(_narrow(step))


def mixed(emission: Emission, step: Step) -> InParts:
    """The step on copies of its narrow tensors in FP32, each in the order it lies in."""
    return in_parts(step, step.axes, [_moved(emission, one, step) for one in _narrow(step)])


def mixed_blocks(step: Step, machine: Machine) -> Pieces | None:
    """The axis to be cut, and a block whose copies are near; None where they are, or none helps."""
    narrow, width = _narrow(step), DataType.FP32.width
    total_bytes = width * sum(elements_of(tensor, step) for tensor in narrow)
    near_bytes = int(_NEAR * machine.l2_bytes)
    axes = [axis for axis in step.axes if _may_be_cut(axis, step)]
    if total_bytes <= near_bytes or not axes:
        return None
    axis = max(axes, key=lambda axis: axis.stride(step.output.name))
    size = even_block(axis.extent, max(1, near_bytes * axis.extent // total_bytes), 1)
    return Pieces(axis, size)


def _may_be_cut(axis: Span, step: Step) -> bool:
    """True for batches, and where there are no matrices for every axis of the narrow tensors; but
    for those along which a tensor is read or written."""
    tensors = (*step.inputs, step.output)
    moved = tensors if _are_matrices(step) else _narrow(step)
    is_whole = any(is_adjacent(axis, tensor) for tensor in tensors)
    return not is_whole and all(axis.stride(one.name) for one in (*moved, step.output))


def _are_matrices(step: Step) -> bool:
    """True where either input alone moves along an axis of the output."""
    free = [axis for axis in step.axes if axis.stride(step.output.name)]
    return len(step.inputs) == 2 and all(
        any(not axis.stride(tensor.name) for axis in free) for tensor in step.inputs
    )


def _narrow(step: Step) -> list[Tensor]:
    return [one for one in (*step.inputs, step.output) if one.data_type.is_narrow]


def _moved(emission: Emission, tensor: Tensor, step: Step) -> Moved:
    kind = tensor.data_type.accumulator
    wide = replace(tensor, name=emission.name(f"{tensor.name}_wide"), data_type=kind)
    moving = [axis for axis in step.axes if axis.stride(tensor.name)]
    return Moved(tensor, wide, dense(outermost_first(moving, tensor), kind.width))
