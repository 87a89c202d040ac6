"""Products of FP16 whose operands are copied to FP32 first, and whose result is rounded at the end.

    out[i, k] = sum of A[i, j] * B[j, k]:  A32 = A;  B32 = B;  out32 = A32 B32;  out = out32

Register blocks of FP16 convert every vector of A once for a few columns, and every element of B
once for a few vectors, on the ports that multiply. A processor that multiplies twice a cycle has
none to spare there: on Golden Cove such blocks reach 40 % of its peak, so an element that meets
others is converted once. Sums are those of FP32 in either way.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.search.elementwise import emit_copy
from teir.search.emission import Body, Emission
from teir.search.machine import Machine
from teir.search.shape import extent_of
from teir.search.step import Span, Step, normalise

_FEWEST_PRODUCTS = 2
"""Products for each element of the operands from which copying them pays: with 2 to 30 of them the
product took 0.25 to 0.85 of the time (Golden Cove)."""
_SHORT_SUM = 32
"""Shorter sums do not pay for writing and reading results that leave the second cache: 1.1 of the
time with 8 and 16 products."""

EmitStep = Callable[[Emission, Step, Machine], Body]


class Widened(msgspec.Struct, frozen=True, gc=False):
    """Loops over batches, and inside them the copies around a product of FP32."""

    batch: tuple[Span, ...]
    before: tuple[Step, ...]
    product: Step
    after: tuple[Step, ...]
    scratch: tuple[Tensor, ...]


def widened(emission: Emission, step: Step, machine: Machine) -> Widened | None:
    """The step in parts; None where its operands are better converted inside the product."""
    if not machine.multiplies_twice_a_cycle or not _is_narrow(step):
        return None
    names = [tensor.name for tensor in (*step.inputs, step.output)]
    batch = tuple(axis for axis in step.axes if all(map(axis.stride, names)))
    axes = tuple(axis for axis in step.axes if not any(axis is one for one in batch))
    if (batch and machine.threads > 1) or not _pays(axes, names, machine):
        return None
    narrow = [one for one in (*step.inputs, step.output) if one.data_type is DataType.FP16]
    wide = {one.name: _wide(emission, one) for one in narrow}
    strides = {one.name: _dense(axes, one.name, wide[one.name].data_type.width) for one in narrow}
    moves = [_moved(axes, one, wide[one.name], strides[one.name]) for one in narrow]
    product = Step(
        tuple(wide[one.name] for one in step.inputs),
        wide.get(step.output.name, step.output),
        tuple(_instead(axis, wide, strides) for axis in axes),
        step.is_kept or step.output.name in wide,
    )
    before = tuple(
        Step((one,), wide[one.name], moved)
        for one, moved in zip(narrow, moves, strict=True)
        if one is not step.output
    )
    after = tuple(
        Step((wide[one.name],), one, moved)
        for one, moved in zip(narrow, moves, strict=True)
        if one is step.output
    )
    return Widened(batch, before, product, after, tuple(wide.values()))


def emit_widened(emission: Emission, one: Widened, machine: Machine, emit_step: EmitStep) -> Body:
    """The copies, the product, and the copy back; ``emit_step`` makes the product."""

    def inside() -> Body:
        body = Body()
        for copy in one.before:
            body += emit_copy(emission, normalise(copy), machine)
        body += emit_step(emission, one.product, machine)
        for copy in one.after:
            body += emit_copy(emission, normalise(copy), machine)
        return Body(body.nodes, (*body.scratch, *one.scratch))

    return emission.loops(one.batch, inside, parallel=False)


def _is_narrow(step: Step) -> bool:
    """True for a sum of products of two inputs of FP16."""
    is_narrow = all(tensor.data_type is DataType.FP16 for tensor in step.inputs)
    return is_narrow and len(step.inputs) == 2 and bool(step.reductions)


def _pays(axes: tuple[Span, ...], names: list[str], machine: Machine) -> bool:
    """``names``: the tensors, the output last."""
    if not all(axis.stride(name) for axis in axes for name in axis.offsets if name in names):
        return False
    sizes = [extent_of([axis for axis in axes if axis.stride(name)]) for name in names]
    products, results = extent_of(axes), sizes[-1]
    is_far = results * DataType.FP32.width > machine.l2_bytes
    if is_far and products < _SHORT_SUM * results:
        return False
    return products >= _FEWEST_PRODUCTS * sum(sizes)


def _wide(emission: Emission, tensor: Tensor) -> Tensor:
    return Tensor(name=emission.name(f"{tensor.name}_wide"), data_type=DataType.FP32)


def _dense(axes: tuple[Span, ...], name: str, width: int) -> dict[int, int]:
    """Strides without gaps, in the order the tensor lies in, by the identity of the axis."""
    strides: dict[int, int] = {}
    for axis in sorted((one for one in axes if one.stride(name)), key=lambda one: one.stride(name)):
        strides[id(axis)] = width
        width *= axis.extent
    return strides


def _moved(
    axes: tuple[Span, ...], narrow: Tensor, wide: Tensor, strides: dict[int, int]
) -> tuple[Span, ...]:
    """The axes of a copy between a tensor and its wide form."""
    return tuple(
        Span(
            axis.label,
            axis.extent,
            {narrow.name: axis.stride(narrow.name), wide.name: strides[id(axis)]},
            {name: start for name, start in axis.offsets.items() if name == narrow.name},
        )
        for axis in axes
        if id(axis) in strides
    )


def _instead(axis: Span, wide: dict[str, Tensor], strides: dict[str, dict[int, int]]) -> Span:
    """The axis on the wide tensors where it was on the narrow ones."""
    moves = {name: step for name, step in axis.strides.items() if name not in wide}
    for name, tensor in wide.items():
        if id(axis) in strides[name]:
            moves[tensor.name] = strides[name][id(axis)]
    offsets = {name: start for name, start in axis.offsets.items() if name not in wide}
    return Span(axis.label, axis.extent, moves, offsets)
