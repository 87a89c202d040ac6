"""Copies of short runs that input and output share, as copies of elements as wide as the run.

    in[b, a, 2] -> out[a, b, 2] of FP32:  in[b, a] -> out[a, b] of elements of 8 bytes

The tiles are those of such elements; each copies the run besides, and the lowering copies it as one
(`teir.lower.wide_elements`).
"""

from __future__ import annotations

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.search.step import Span, Step

_TYPES = {4: DataType.FP32, 8: DataType.FP64, 16: DataType.C128}
"""Types as wide as a run, by its bytes."""


class WideCopy(msgspec.Struct, frozen=True, gc=False):
    """A copy of wide elements, and the axis along each; none where elements are as they are."""

    step: Step
    run: tuple[Span, ...]


def wide_copy_of(step: Step) -> WideCopy:
    """The copy with a run that input and output share as one element, where a type is as wide."""
    (source,), target = step.inputs, step.output
    width = target.data_type.width
    if source.data_type is not target.data_type or len(step.axes) < 2:
        return WideCopy(step, ())
    for axis in step.axes:
        if axis.stride(target.name) == axis.stride(source.name) == width:
            wide = _TYPES.get(axis.extent * width)
            return WideCopy(step, ()) if wide is None or axis.offsets else _wide(step, axis, wide)
    return WideCopy(step, ())


def _wide(step: Step, run: Span, wide: DataType) -> WideCopy:
    (source,), target = step.inputs, step.output
    tensors = [Tensor(name=one.name, data_type=wide) for one in (source, target)]
    axes = tuple(axis for axis in step.axes if axis is not run)
    return WideCopy(Step((tensors[0],), tensors[1], axes, step.is_kept, step.standing), (run,))
