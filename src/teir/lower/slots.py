"""Slots: where the bytes of every tensor of a program live, scratch arenas laid out.

Scratch tensors whose lifetimes do not meet share bytes. Leaves are numbered in program order, and
the lifetime of a scratch tensor is the range of leaves from the first child of its owner that
touches it to the last, whole children at a time:

    root 0 { write T }   root 1 { read T, write U }   root 2 { read U, write V }
    T lives in 0..1, U in 1..2, V in 2: V may have the bytes of T

Why this is safe: take two tensors of one arena whose ranges are disjoint, and the lowest node (or
the program) under which both are used. Its children run one after the other on the thread that
owns the arena, and no child holds leaves of both ranges, or one tensor's owner lies inside a child
that the other's range leaves out. So while one holds values, the other holds none: a tensor is
undefined before its range and never read after it, in every iteration of its owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import IterationNode, Node, Policy, Program, Tensor
from teir.lower.kernel_program import Slot, Storage

SCRATCH_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class SlotTable:
    """The slots of a program, their numbers by tensor name, and the size of both arenas."""

    slots: tuple[Slot, ...]
    number: dict[str, int]
    run_scratch_bytes: int
    thread_scratch_bytes: int
    spans: dict[str, tuple[int, int]]
    """Of every scratch tensor that is used: what `scratch_spans` says."""


def assign_slots(program: Program) -> SlotTable:
    """One slot per tensor: operands first, in declared order, then scratch in program order."""
    slots = [
        Slot(tensor=tensor.name, data_type=tensor.data_type, storage=Storage.OPERAND)
        for tensor in program.tensors
    ]
    scratch = tuple(_scratch_tensors(program))
    if not scratch:
        return _table(slots, 0, 0, {})
    spans = scratch_spans(program)
    lifetimes = scratch_lifetimes(program)
    scratch = tuple((one, where) for one, where in scratch if one.name in spans)
    used = {}
    starts: dict[str, int] = {}
    for arena in (Storage.RUN, Storage.THREAD):
        names = [tensor.name for tensor, storage in scratch if storage is arena]
        sizes = [round_up(spans[name][1] - spans[name][0]) for name in names]
        placed, used[arena] = place(
            [Room(name, size, lifetimes[name]) for name, size in zip(names, sizes, strict=True)]
        )
        starts.update(placed)
    slots += [
        Slot(
            tensor=tensor.name,
            data_type=tensor.data_type,
            storage=storage,
            start_bytes=starts[tensor.name] - spans[tensor.name][0],
        )
        for tensor, storage in scratch
    ]
    return _table(slots, used[Storage.RUN], used[Storage.THREAD], spans)


def _table(
    slots: Sequence[Slot],
    run_scratch_bytes: int,
    thread_scratch_bytes: int,
    spans: dict[str, tuple[int, int]],
) -> SlotTable:
    number = {slot.tensor: number for number, slot in enumerate(slots)}
    return SlotTable(tuple(slots), number, run_scratch_bytes, thread_scratch_bytes, spans)


@dataclass(slots=True)
class ScratchRoom:
    """Slots that lowering adds while it goes: they follow the program's in both arenas."""

    slots: list[Slot]
    used: dict[Storage, int]

    def add(self, tensor: str, data_type: DataType, storage: Storage, size_bytes: int) -> int:
        """The number of a new slot of ``size_bytes`` bytes."""
        start = self.used[storage]
        self.slots.append(
            Slot(tensor=tensor, data_type=data_type, storage=storage, start_bytes=start)
        )
        self.used[storage] = start + round_up(size_bytes)
        return len(self.slots) - 1

    def mark(self) -> tuple[int, dict[Storage, int]]:
        """How much there is now."""
        return len(self.slots), dict(self.used)

    def cut(self, mark: tuple[int, dict[Storage, int]]) -> None:
        """Forget what was added since ``mark``."""
        del self.slots[mark[0] :]
        self.used.update(mark[1])


class Room(msgspec.Struct, frozen=True):
    """The bytes a scratch tensor needs, and the leaves during which it needs them."""

    tensor: str
    size_bytes: int
    lifetime: range


def place(rooms: Sequence[Room]) -> tuple[dict[str, int], int]:
    """A start for every room, and the end of the arena.

    The largest first, each at the lowest start where no placed room of a lifetime that meets its
    own lies in the way.
    """
    starts: dict[str, int] = {}
    placed: list[Room] = []
    end = 0
    for room in sorted(rooms, key=lambda room: room.size_bytes, reverse=True):
        in_the_way = sorted(
            (starts[other.tensor], starts[other.tensor] + other.size_bytes)
            for other in placed
            if _meet(other.lifetime, room.lifetime)
        )
        start = 0
        for low, high in in_the_way:
            if start + room.size_bytes <= low:
                break
            start = max(start, high)
        starts[room.tensor] = start
        placed.append(room)
        end = max(end, start + room.size_bytes)
    return starts, end


def _meet(one: range, two: range) -> bool:
    return one.start < two.stop and two.start < one.stop


def scratch_lifetimes(program: Program) -> dict[str, range]:
    """The leaves during which each used scratch tensor may hold values."""
    primitives = program.primitive_table()
    lifetimes: dict[str, range] = {}

    def walk(nodes: Sequence[Node], scratch: Sequence[Tensor], start: int) -> tuple[int, set[str]]:
        """The leaf after ``nodes``, and the tensors they touch; ``scratch`` is theirs."""
        touched: set[str] = set()
        for node in nodes:
            before = start
            if isinstance(node, IterationNode):
                start, names = walk(node.children, node.scratch, before)
            else:
                start, names = before + 1, set(primitives[node.primitive].operands)
            for tensor in scratch:
                if tensor.name in names:
                    first = lifetimes.get(tensor.name, range(before, start)).start
                    lifetimes[tensor.name] = range(first, start)
            touched |= names
        return start, touched

    walk(program.roots, program.scratch, 0)
    return lifetimes


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
        touched = [name for name in dict.fromkeys(primitive.operands) if name in scratch]
        if not touched:
            continue
        walked = [axes[node.axis] for node in path] + [axes[name] for name in primitive.axes]
        for name in touched:
            start, reach = 0, scratch[name]
            for axis in walked:
                start += axis.offsets[name]
                reach += axis.strides[name] * (axis.extent - 1)
            known = spans.get(name, (start, start))
            spans[name] = min(start, known[0]), max(start + reach, known[1])
    return spans


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
