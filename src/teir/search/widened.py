"""Products of FP16 whose operands are copied to FP32 first, and whose result is rounded at the end.

    out[i, k] = sum of A[i, j] * B[j, k]:  A32 = A;  B32 = B;  out32 = A32 B32;  out = out32

Register blocks of FP16 convert every vector of A once for a few columns, and every element of B
once for a few vectors, on the ports that multiply. A processor that multiplies twice a cycle has
none to spare there: on Golden Cove such blocks reach 40 % of its peak, so an element that meets
others is converted once. Where whole vectors are multiplied once a cycle, blocks of one vector and
many columns are no better: drawn products on Zen 4 took 0.2 to 1.6 of the time, 0.70 in the mean.
Sums are those of FP32 in either way.
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.search.emission import Emission
from teir.search.in_parts import InParts, Moved, in_parts
from teir.search.machine import Machine
from teir.search.shape import dense, extent_of, outermost_first
from teir.search.step import Span, Step

_FEWEST_PRODUCTS, _FEWEST_BESIDE_SPARE_PORTS = 2, 2.5
"""Products for each element of the operands from which copying them pays: with 2 to 30 of them the
product took 0.25 to 0.85 of the time (Golden Cove); and where converting goes on beside
multiplying, and results, which are written once more, count twice (Zen 4)."""
_FEWEST_READERS = 8
"""Products for each element of an operand whose copy leaves the second cache (Zen 4)."""
_SHORT_SUM, _SHORT_BESIDE_SPARE_PORTS = 18, 32
"""Shorter sums do not pay for writing and reading results that leave the second cache: 1.0 to 1.2
of the time with 8 to 16 products, 0.64 to 1.04 with 19 to 24 (Golden Cove); and on Zen 4."""


def widened(emission: Emission, step: Step, machine: Machine) -> InParts | None:
    """The step in parts; None where its operands are better converted inside the product."""
    if not _is_narrow(step):
        return None
    names = [tensor.name for tensor in (*step.inputs, step.output)]
    batch = tuple(axis for axis in step.axes if all(map(axis.stride, names)))
    axes = tuple(axis for axis in step.axes if not any(axis is one for one in batch))
    if (batch and machine.threads > 1) or not _pays(axes, names, machine):
        return None
    narrow = [one for one in (*step.inputs, step.output) if one.data_type is DataType.FP16]
    return in_parts(step, axes, [_moved(emission, one, axes) for one in narrow], batch)


def _moved(emission: Emission, tensor: Tensor, axes: tuple[Span, ...]) -> Moved:
    """The tensor in FP32, its axes in the order it lies in."""
    wide = Tensor(name=emission.name(f"{tensor.name}_wide"), data_type=DataType.FP32)
    moving = [axis for axis in axes if axis.stride(tensor.name)]
    return Moved(tensor, wide, dense(outermost_first(moving, tensor), wide.data_type.width))


def _is_narrow(step: Step) -> bool:
    """True for a sum of products of two inputs of FP16."""
    types = [tensor.data_type for tensor in step.inputs]
    return types == [DataType.FP16, DataType.FP16] and bool(step.reductions)


def _pays(axes: tuple[Span, ...], names: list[str], machine: Machine) -> bool:
    """``names``: the tensors, the output last."""
    if not all(axis.stride(name) for axis in axes for name in axis.offsets if name in names):
        return False
    sizes = [extent_of([axis for axis in axes if axis.stride(name)]) for name in names]
    products, results = extent_of(axes), sizes[-1]
    is_far = results * DataType.FP32.width > machine.l2_bytes
    short = _SHORT_SUM if machine.multiplies_twice else _SHORT_BESIDE_SPARE_PORTS
    if is_far and products < short * results:
        return False
    if machine.multiplies_twice:
        return products >= _FEWEST_PRODUCTS * sum(sizes)
    near = machine.l2_bytes // DataType.FP32.width
    if any(size > near and products < _FEWEST_READERS * size for size in sizes[:-1]):
        return False
    return products >= _FEWEST_BESIDE_SPARE_PORTS * (sum(sizes) + results)
