"""Tensor maps of operands: every axis a dimension, strides ascending.

One driver has been seen to take strides that do not ascend; dimensions are sorted by stride all the
same. Where two boxed axes then come in another order than a kernel needs, it takes another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.cuda.kernel import MapParameter
from teir.backends.cuda.problem import Operand
from teir.dtypes import DataType
from teir.tma.element_types import ElementType
from teir.tma.tensor_map import Fill, TensorMap, check_tensor_map

MAP_ALIGNMENT = 16
_MOST_EXTENT = 2**31 - 1
"""Coordinates are signed 32-bit integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapAxis:
    """An axis as a dimension: ``name`` is the C++ expression of its coordinate."""

    name: str
    extent: int
    stride: int
    box: int


def tensor_map(
    operand: Operand, axes: Sequence[MapAxis], swizzle_bytes: int
) -> tuple[MapParameter, tuple[str, ...]] | None:
    """The map of an operand and its coordinates, innermost first; None where there is none.

    Axes that do not move the operand are no dimensions. The first axis by stride must be adjacent
    and its box must span the swizzle.
    """
    width = operand.data_type.width
    moving = sorted((axis for axis in axes if axis.stride), key=lambda axis: axis.stride)
    if not moving or moving[0].stride != width:
        return None
    if any(axis.box > 1 and not axis.stride for axis in axes):
        return None
    if any(axis.extent > _MOST_EXTENT for axis in moving):
        return None
    described = TensorMap(
        element_type=_element_type(operand.data_type),
        address=operand.offset,
        sizes=tuple(axis.extent for axis in moving),
        strides_bytes=tuple(axis.stride for axis in moving[1:]),
        box=tuple(axis.box for axis in moving),
        element_strides=(1,) * len(moving),
        swizzle_bytes=swizzle_bytes,
        interleave_bytes=0,
        fill=Fill.ZERO,
    )
    concerned = ((),) * len(moving)
    if check_tensor_map(described, concerned, strides_must_ascend=False):
        return None
    parameter = MapParameter(tensor=operand.tensor, described=described)
    return parameter, tuple(axis.name for axis in moving)


def _element_type(data_type: DataType) -> ElementType:
    """The type that moves bits unchanged, by width."""
    match data_type:
        case DataType.BF16:
            return ElementType.BF16
        case DataType.FP16:
            return ElementType.F16
        case DataType.FP32 | DataType.TF32:
            return ElementType.F32
        case DataType.FP64:
            return ElementType.F64
        case _:
            return ElementType.U64
