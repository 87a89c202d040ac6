"""The work a program states: floating-point operations, and the bytes it cannot avoid moving.

Operations are counted for every invocation as scheduled: two for each multiply-add of real numbers
and eight of complex ones, one for each addition of a one-input Contraction and for each
element-wise result. Bytes are the distinct elements of each tensor, once for reading and once for
writing: the traffic of a machine whose cache holds everything. Of invocations whose elements lie
between one another and are no part of a common box, those of the largest count alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from math import prod
from typing import assert_never

from teir.ir.check.regions import Region, joined, region
from teir.ir.nodes import Axis, GuardKind, GuardTerm, Operation, Primitive, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Operations, and bytes of the operands read and written at least once."""

    flops: int
    bytes_read: int
    bytes_written: int

    @property
    def bytes_moved(self) -> int:
        return self.bytes_read + self.bytes_written


def program_work(program: Program) -> Work:
    """The work of one run of a dense program.

    A guard term lets one iteration of its axis through. Scratch is not counted as traffic.
    """
    axes, primitives = program.axis_table(), program.primitive_table()
    outer = {tensor.name: tensor.data_type.width for tensor in program.tensors}
    complex_tensors = {
        name for name, tensor in program.tensor_table().items() if tensor.data_type.is_complex
    }
    flops = 0
    read: dict[str, set[Region]] = {}
    written: dict[str, set[Region]] = {}
    for path, leaf in program.invocations():
        primitive = primitives[leaf.primitive]
        guards = (*leaf.guard, *(term for node in path for term in node.guard))
        guarded = {term.axis for term in guards}
        iterated = [axes[node.axis] for node in path]
        consumed = [axes[name] for name in primitive.axes]
        flops += (
            prod(axis.extent for axis in iterated if axis.name not in guarded)
            * prod(axis.extent for axis in consumed)
            * _flops_per_point(primitive, primitive.output in complex_tensors)
        )
        for tensor in _reads_first(primitive, written):
            if tensor in outer:
                box = _box(tensor, iterated + consumed, guards)
                read.setdefault(tensor, set()).add(box)
        if primitive.output in outer:
            box = _box(primitive.output, iterated + consumed, guards)
            written.setdefault(primitive.output, set()).add(box)
    return Work(
        flops=flops,
        bytes_read=sum(outer[name] * _distinct(boxes) for name, boxes in read.items()),
        bytes_written=sum(outer[name] * _distinct(boxes) for name, boxes in written.items()),
    )


def _reads_first(primitive: Primitive, written: Container[str]) -> tuple[str, ...]:
    """Tensors whose values from outside the primitive reads: not those written before it."""
    return tuple(name for name in primitive.reads if name not in written)


def _box(tensor: str, axes: Iterable[Axis], guards: Iterable[GuardTerm]) -> Region:
    """The elements of a tensor that an invocation touches below these loops."""
    asked = {term.axis: term.kind for term in guards}
    begin, dims = 0, []
    for axis in axes:
        stride = axis.strides[tensor]
        begin += axis.offsets[tensor]
        if axis.name not in asked:
            dims.append((stride, axis.extent))
        elif asked[axis.name] is GuardKind.LAST:
            begin += stride * (axis.extent - 1)
    return region(begin, dims)


def _distinct(boxes: Iterable[Region]) -> int:
    """Elements in these boxes together; of boxes that lie inside one another the most of one."""
    total = largest = 0
    end: int | None = None
    for box in joined(boxes):
        if end is None or box.begin > end:
            total, largest, end = total + largest, 0, box.end
        largest, end = max(largest, _elements(box)), max(end, box.end)
    return total + largest


def _elements(box: Region) -> int:
    """The different elements of a box, at least: dims that step inside one another meet some."""
    step = end = 0
    count, steady = 1, 1
    for stride, extent in reversed(box.dims):
        reach = stride * (extent - 1)
        if stride > end:
            count *= extent
            steady, step = (extent, stride) if end == 0 else (0, step)
        elif steady and stride % step == 0 and stride <= step * steady:
            count = steady = steady + reach // step
        else:
            count, steady = max(count, extent), 0
        end += reach
    return count


def _flops_per_point(primitive: Primitive, is_complex: bool) -> int:
    match primitive.operation:
        case Operation.ZERO | Operation.COPY:
            return 0
        case Operation.CONTRACTION:
            products = len(primitive.inputs) - 1
            return (6 * products + 2) if is_complex else products + 1
        case Operation.RELU | Operation.MIN | Operation.MAX:
            return 1
        case Operation.ADD | Operation.SUB:
            return 2 if is_complex else 1
        case Operation.MUL | Operation.DIV:
            return 6 if is_complex else 1
        case _:
            assert_never(primitive.operation)
