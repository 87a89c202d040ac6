"""Sums shared among threads: slices of one reduction formed apart, then added in order.

    parallel s over slices { the step on its slice of K, into slice s of scratch }
    what remains of K, into a slice of its own
    zero; Contraction K=[slices]                                   into out

Where there are few rows and columns, cutting those would make every thread read most of the
operands, and short rows are slow to read in parts. The order of the sum then depends on the number
of threads the program is made for, never on their timing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.passes.parallelise import CHUNKS, waited_for
from teir.search.dots import dots_of
from teir.search.elementwise import emit_sum
from teir.search.emission import Body, Emission
from teir.search.machine import Machine
from teir.search.shape import comes_from_memory, extent_of
from teir.search.step import Span, Step, elements_of, normalise
from teir.target import in_lines

_SHORTEST = 1024
"""Indices of a slice: enough that its sums cost more than adding them."""
_GRANULE = 64
"""A slice of so many indices, or a multiple, is made of whole vectors."""
_ADDING = 16
"""How many times smaller all slices of the output together are than the operands."""
_REUSE = 16
"""Products per byte of the operands up to which reading them is a large part of the work."""
_MOST_RESULTS = 4096
"""Results, at most, of sums that are long together only: parts of more of them serve as well."""
_ROW_BYTES = 16 << 10
"""Bytes of a row from which its parts are read as fast as the whole."""
_FEWEST_FAR, _LONG_ROW_BYTES = 64, 64 << 10
"""Indices of a slice of a matrix from memory, each of whose elements is read once; and of all that
lies at one of them, from where on parts are read as fast."""

EmitStep = Callable[[Emission, Step, Machine], Body]


class SharedSum(msgspec.Struct, frozen=True, gc=False):
    """The reduction whose slices the threads share, and the indices of one slice."""

    axis: Span
    size: int


def shared_sum(step: Step, machine: Machine) -> SharedSum | None:
    """The slices that several threads share; None where rows or columns serve better."""
    out = step.output
    if extent_of(step.axes) < machine.threaded_work:
        return None
    if out.data_type in (DataType.BF16, DataType.FP16) or any(one.offsets for one in step.axes):
        return None
    far = _far_sum(step, machine)
    shared = _sliced(step, machine) if far is None else far
    if shared is None:
        return None
    free = [one for one in step.axes if one.stride(out.name)]
    if not free or (far is None and _has_rows_enough(step, free, machine)):
        return None
    read = sum(_bytes_of(tensor, step.axes) for tensor in step.inputs)
    adds_little = _ADDING * _slices(machine) * _bytes_of(out, free) <= read
    return shared if adds_little and extent_of(step.axes) <= _REUSE * read else None


def _far_sum(step: Step, machine: Machine) -> SharedSum | None:
    """Slices of what lies outermost in a matrix from memory of which every element is read once:
    each is one long run, where parts of rows are as many short ones as there are rows."""
    matrix = max(step.inputs, key=lambda tensor: elements_of(tensor, step))
    elements = elements_of(matrix, step)
    if not comes_from_memory(matrix, step.axes) or elements != extent_of(step.axes):
        return None
    outermost = max(step.axes, key=lambda one: one.stride(matrix.name))
    if outermost.stride(step.output.name) or outermost.extent < _FEWEST_FAR * _slices(machine):
        return None
    row_bytes = matrix.data_type.width * elements // outermost.extent
    if row_bytes > _LONG_ROW_BYTES:
        return None
    return SharedSum(outermost, outermost.extent // _slices(machine))


def _sliced(step: Step, machine: Machine) -> SharedSum | None:
    """Slices of the longest reduction, or of the outermost one of many that are long together."""
    reductions = step.reductions
    if extent_of(reductions) < _SHORTEST * _slices(machine):
        return None
    longest = max(reductions, key=lambda one: one.extent)
    if longest.extent >= _SHORTEST * _slices(machine):
        return SharedSum(longest, longest.extent // _slices(machine) // _GRANULE * _GRANULE)
    (first, *_) = step.inputs
    results = extent_of([one for one in step.axes if one.stride(step.output.name)])
    if results > _MOST_RESULTS:
        return None
    outermost = max(reductions, key=lambda one: one.stride(first.name))
    if outermost.extent < machine.threads:
        return None
    counts = range(machine.threads, min(outermost.extent, _slices(machine)) + 1)
    size = min(
        (outermost.extent // count for count in counts),
        key=lambda size: waited_for(outermost.extent, size, machine.threads),
    )
    return SharedSum(outermost, size)


def _slices(machine: Machine) -> int:
    return CHUNKS * machine.threads


def _bytes_of(tensor: Tensor, axes: Sequence[Span]) -> int:
    return tensor.data_type.width * extent_of([one for one in axes if one.stride(tensor.name)])


def _has_rows_enough(step: Step, free: Sequence[Span], machine: Machine) -> bool:
    """True where the threads share axes of the output and no operand is read in short parts."""
    batch = [one for one in free if all(one.stride(tensor.name) for tensor in step.inputs)]
    if len(step.inputs) > 1 and extent_of(batch) >= machine.threads:
        return True
    if dots_of(step) is not None:
        return extent_of(free) >= _slices(machine)
    nearest = min(free, key=lambda one: one.stride(step.output.name))
    return nearest.extent * step.output.data_type.width >= _ROW_BYTES * machine.threads


def emit_shared_sum(
    emission: Emission, step: Step, shared: SharedSum, machine: Machine, emit: EmitStep
) -> Body:
    """The nodes of a step whose slices the threads share; ``emit`` forms one."""
    axis, size = shared.axis, shared.size
    out = step.output
    parts = Tensor(name=emission.name(f"{out.name}_slices"), data_type=out.data_type)
    room = out.data_type.width
    inside: list[Span] = []
    free = [one for one in step.axes if one.stride(out.name)]
    for one in sorted(free, key=lambda one: one.stride(out.name)):
        inside.append(one.on(parts.name, room))
        room *= one.extent
    room = in_lines(room)
    count, left = divmod(axis.extent, size)
    others = [one for one in step.reductions if one is not axis]
    alone = replace(machine, threads=1)

    def slice_of(tile: Span) -> Body:
        axes = (*(_without(one, out.name) for one in inside), *others, tile)
        return emit(emission, normalise(Step(step.inputs, parts, axes)), alone)

    slices, tile = axis.split(size)
    body = emission.loops((slices.on(parts.name, room),), partial(slice_of, tile), parallel=True)
    if left:
        place, last = axis.rest_in_loop(count * size)
        place = Span(place.label, 1, {}, {**place.offsets, parts.name: count * room})
        body += emission.loops((place,), partial(slice_of, last), parallel=False)
    across = Span("slice", count + (left > 0), {parts.name: room}, {})
    added = Step((parts,), out, (*(_only(one, parts, out) for one in inside), across))
    body += emit_sum(emission, normalise(added), alone)
    return Body(body.nodes, (*body.scratch, parts))


def _without(axis: Span, tensor: str) -> Span:
    strides = {name: stride for name, stride in axis.strides.items() if name != tensor}
    return Span(axis.label, axis.extent, strides, {})


def _only(axis: Span, *tensors: Tensor) -> Span:
    strides = {tensor.name: axis.stride(tensor.name) for tensor in tensors}
    return Span(axis.label, axis.extent, strides, {})
