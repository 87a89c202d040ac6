"""A step with some of its tensors in scratch instead: copied before it, or after it.

    A' = A;  out' = product of A' and B;  out = out'

The scratch may have another type, or its axes in another order. Every sum stays the chain it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from teir.ir.nodes import Tensor
from teir.search.copies import emit_copy
from teir.search.emission import Body, Emission
from teir.search.machine import Machine
from teir.search.shape import dense, extent_of, outermost_first
from teir.search.step import Span, Step, normalise

EmitStep = Callable[[Emission, Step, Machine], Body]


class Moved(msgspec.Struct, frozen=True, gc=False):
    """A tensor, the scratch that stands for it, and its bytes per axis, by the axis' identity."""

    tensor: Tensor
    scratch: Tensor
    strides: Mapping[int, int]


class InParts(msgspec.Struct, frozen=True, gc=False):
    """Loops over batches, and inside them the copies around a product."""

    batch: tuple[Span, ...]
    before: tuple[Step, ...]
    product: Step
    after: tuple[Step, ...]
    scratch: tuple[Tensor, ...]


def in_parts(
    step: Step, axes: Sequence[Span], moved: Sequence[Moved], batch: tuple[Span, ...] = ()
) -> InParts:
    """The step, ``axes`` inside the loops over ``batch``, on the scratch of what is ``moved``."""
    by_name = {one.tensor.name: one for one in moved}

    def used(tensor: Tensor) -> Tensor:
        one = by_name.get(tensor.name)
        return tensor if one is None else one.scratch

    output = step.output.name
    product = Step(
        tuple(map(used, step.inputs)),
        used(step.output),
        tuple(_on_scratch(axis, by_name) for axis in axes),
        step.is_kept or output in by_name,
        step.standing,
    )
    before = tuple(
        Step((one.tensor,), one.scratch, _between(axes, one))
        for one in moved
        if one.tensor.name != output
    )
    after = tuple(
        Step((one.scratch,), one.tensor, _between(axes, one))
        for one in moved
        if one.tensor.name == output
    )
    return InParts(batch, before, product, after, tuple(one.scratch for one in moved))


def emit_in_parts(emission: Emission, one: InParts, machine: Machine, emit_step: EmitStep) -> Body:
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


def moved_to(emission: Emission, tensor: Tensor, how: str, order: Sequence[Span]) -> Moved:
    """The tensor in scratch, dense, its axes in this order, the outermost first."""
    scratch = Tensor(name=emission.name(f"{tensor.name}_{how}"), data_type=tensor.data_type)
    return Moved(tensor, scratch, dense(order, tensor.data_type.width))


def starts_where_it_moves(step: Step) -> bool:
    """True where every offset belongs to a walk on its tensor, which a copy keeps."""
    return all(axis.strides.get(name) for axis in step.axes for name in axis.offsets)


def run_of(adjacent: Span, axes: Sequence[Span], tensor: Tensor) -> tuple[Span, ...]:
    """A tensor's adjacent axis after those of these whose elements go on where its own end."""
    run, end = [adjacent], adjacent.extent * tensor.data_type.width
    for axis in reversed(outermost_first(axes, tensor)):
        if axis.stride(tensor.name) == end:
            run.insert(0, axis)
            end *= axis.extent
    return tuple(run)


def run_bytes(adjacent: Span, axes: Sequence[Span], tensor: Tensor) -> int:
    """Bytes of a tensor that are next to each other along its adjacent axis and some of these."""
    return extent_of(run_of(adjacent, axes, tensor)) * tensor.data_type.width


def in_both(along: tuple[Span, ...], out: Tensor) -> int:
    """Results that follow each other along these axes, outermost first, and in ``out``."""
    count = 1
    for here, there in zip(outermost_first(along, out)[::-1], along[::-1], strict=True):
        if here is not there:
            break
        count *= here.extent
    return count


def axes_of(tensor: Tensor, step: Step) -> list[Span]:
    """The axes that move a tensor."""
    return [axis for axis in step.axes if axis.strides.get(tensor.name)]


def repeats_of(step: Step) -> list[Span]:
    """The axes of the output that no input moves: results repeat along them."""
    return [
        axis
        for axis in axes_of(step.output, step)
        if not any(axis.stride(one.name) for one in step.inputs)
    ]


def is_batch(axis: Span, step: Step) -> bool:
    """True for an axis that moves the inputs and the output."""
    return all(axis.stride(tensor.name) for tensor in (*step.inputs, step.output))


def nearest_of(axes: Sequence[Span], out: Tensor) -> Span:
    """The axis that results lie next to each other along."""
    return min(axes, key=lambda axis: (axis.stride(out.name), -axis.extent))


def _between(axes: Sequence[Span], one: Moved) -> tuple[Span, ...]:
    """The axes of a copy between a tensor and its scratch, which may repeat it."""
    name, scratch = one.tensor.name, one.scratch.name
    return tuple(
        axis.only(name).on(scratch, one.strides[id(axis)])
        for axis in axes
        if id(axis) in one.strides
    )


def _on_scratch(axis: Span, moved: Mapping[str, Moved]) -> Span:
    """The axis on the scratch where it was on the tensors."""
    strides = {name: step for name, step in axis.strides.items() if name not in moved}
    for one in moved.values():
        if id(axis) in one.strides:
            strides[one.scratch.name] = one.strides[id(axis)]
    offsets = {name: start for name, start in axis.offsets.items() if name not in moved}
    return Span(axis.label, axis.extent, strides, offsets)
