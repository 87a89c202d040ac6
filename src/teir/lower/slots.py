"""Slots: where the bytes of every tensor of a program live, scratch arenas laid out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.ir.nodes import Axis, IterationNode, Node, Policy, Primitive, Program, Tensor
from teir.lower.kernel_program import Slot, Storage

SCRATCH_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class SlotTable:
    """The slots of a program, their numbers by tensor name, and the size of both arenas."""

    slots: tuple[Slot, ...]
    number: dict[str, int]
    run_scratch_bytes: int
    thread_scratch_bytes: int


def assign_slots(program: Program) -> SlotTable:
    """One slot per tensor: operands first, in declared order, then scratch in program order."""
    slots = [
        Slot(tensor=tensor.name, data_type=tensor.data_type, storage=Storage.OPERAND)
        for tensor in program.tensors
    ]
    used = {Storage.RUN: 0, Storage.THREAD: 0}
    spans = scratch_spans(program)
    for tensor, storage in _scratch_tensors(program):
        if tensor.name not in spans:
            continue
        low, high = spans[tensor.name]
        slots.append(
            Slot(
                tensor=tensor.name,
                data_type=tensor.data_type,
                storage=storage,
                start_bytes=used[storage] - low,
            )
        )
        used[storage] += round_up(high - low)
    return SlotTable(
        tuple(slots),
        {slot.tensor: number for number, slot in enumerate(slots)},
        used[Storage.RUN],
        used[Storage.THREAD],
    )


def round_up(size: int) -> int:
    return -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT


def scratch_spans(program: Program) -> dict[str, tuple[int, int]]:
    """The interval of bytes each scratch tensor needs, relative to its first address."""
    scratch = {tensor.name: tensor.data_type.width for tensor, _ in _scratch_tensors(program)}
    if not scratch:
        return {}
    axes = program.axis_table()
    primitives = program.primitive_table()
    spans: dict[str, tuple[int, int]] = {}
    for path, leaf in program.invocations():
        primitive = primitives[leaf.primitive]
        used = [axes[node.axis] for node in path] + [axes[name] for name in primitive.axes]
        for name in _touched(primitive):
            if name not in scratch:
                continue
            low, high = _interval(used, name, scratch[name])
            known = spans.get(name, (low, high))
            spans[name] = (min(low, known[0]), max(high, known[1]))
    return spans


def _touched(primitive: Primitive) -> tuple[str, ...]:
    return primitive.operands


def _interval(axes: list[Axis], tensor: str, width: int) -> tuple[int, int]:
    low = sum(axis.offsets[tensor] for axis in axes)
    reach = sum(axis.strides[tensor] * (axis.extent - 1) for axis in axes)
    return low, low + reach + width


def _scratch_tensors(program: Program) -> Iterator[tuple[Tensor, Storage]]:
    """Scratch tensors in program order; those below a parallel node are private to a thread."""
    for tensor in program.scratch:
        yield tensor, Storage.RUN
    stack: list[tuple[Node, Storage]] = [(node, Storage.RUN) for node in reversed(program.roots)]
    while stack:
        node, storage = stack.pop()
        if not isinstance(node, IterationNode):
            continue
        inner = Storage.THREAD if node.policy is Policy.PARALLEL else storage
        for tensor in node.scratch:
            yield tensor, inner
        stack.extend((child, inner) for child in reversed(node.children))
