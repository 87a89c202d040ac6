"""The work a program states: floating-point operations, and the bytes it cannot avoid moving.

Operations are counted for every invocation as scheduled: two for each multiply-add of real numbers
and eight of complex ones, one for each addition of a one-input Contraction and for each
element-wise result. Bytes are the distinct elements of each tensor, once for reading and once for
writing: the traffic of a machine whose cache holds everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import assert_never

from teir.ir.nodes import Axis, Operation, Primitive, Program


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
    read: dict[str, int] = {}
    written: dict[str, int] = {}
    for path, leaf in program.invocations():
        primitive = primitives[leaf.primitive]
        guarded = {term.axis for term in leaf.guard}
        guarded |= {term.axis for node in path for term in node.guard}
        iterated = [axes[node.axis] for node in path]
        consumed = [axes[name] for name in primitive.axes]
        flops += (
            prod(axis.extent for axis in iterated if axis.name not in guarded)
            * prod(axis.extent for axis in consumed)
            * _flops_per_point(primitive, primitive.output in complex_tensors)
        )
        for tensor in _reads_first(primitive, written):
            if tensor in outer:
                read[tensor] = max(read.get(tensor, 0), _elements(tensor, iterated + consumed))
        if primitive.output in outer:
            touched = _elements(primitive.output, iterated + consumed)
            written[primitive.output] = max(written.get(primitive.output, 0), touched)
    return Work(
        flops=flops,
        bytes_read=sum(outer[name] * count for name, count in read.items()),
        bytes_written=sum(outer[name] * count for name, count in written.items()),
    )


def _reads_first(primitive: Primitive, written: Mapping[str, int]) -> tuple[str, ...]:
    """Tensors whose values from outside the primitive reads: not those written before it."""
    return tuple(name for name in primitive.reads if name not in written)


def _elements(tensor: str, axes: list[Axis]) -> int:
    return prod(axis.extent for axis in axes if axis.strides[tensor] != 0)


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
