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

from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

import msgspec

from teir.dtypes import DataType
from teir.ir.check.report import Need
from teir.ir.nodes import Axis, IterationNode, Node, Policy, Primitive, Program, Tensor
from teir.lower.kernel_program import Slot, Storage

SCRATCH_ALIGNMENT = 64
_SIZE = attrgetter("size_bytes")
_TENSOR = attrgetter("tensor")
_STOP = attrgetter("stop")
_NO_NEEDS: Mapping[str, Need] = MappingProxyType({})
_NOTHING = Need(0, 0)


class SlotTable(msgspec.Struct, frozen=True, gc=False):
    """The slots of a program, their numbers by tensor name, and the size of both arenas."""

    slots: tuple[Slot, ...]
    number: dict[str, int]
    run_scratch_bytes: int
    thread_scratch_bytes: int
    spans: dict[str, tuple[int, int]]
    """Of every scratch tensor that is used: the bytes it needs, relative to its first address."""
    guarded: tuple[str, ...]
    """The axes that guards ask about, in program order."""


def assign_slots(
    program: Program,
    needs: Mapping[str, Need] = _NO_NEEDS,
    primitives: dict[str, Primitive] | None = None,
) -> SlotTable:
    """One slot per tensor: operands first, in declared order, then scratch in program order.

    ``needs``: the bytes of tensors where a check has found them; ``primitives``: those of the
    program by name, where there is a table already.
    """
    slots = []
    for tensor in program.tensors:
        slots.append(Slot(tensor=tensor.name, data_type=tensor.data_type, storage=Storage.OPERAND))
    uses, guarded = _walked(program, needs, primitives)
    if not uses:
        return _table(slots, 0, 0, {}, guarded)
    used = {}
    starts: dict[str, int] = {}
    rooms: dict[Storage, list[Room]] = {Storage.RUN: [], Storage.THREAD: []}
    for name, use in uses.items():
        room = Room(name, round_up(use.high - use.low), range(use.first, use.stop))
        rooms[use.storage].append(room)
    for arena, needed in rooms.items():
        placed, used[arena] = place(needed)
        starts.update(placed)
    spans = {}
    for name, use in uses.items():
        start = starts[name] - use.low
        slots.append(
            Slot(tensor=name, data_type=use.data_type, storage=use.storage, start_bytes=start)
        )
        spans[name] = use.low, use.high
    return _table(slots, used[Storage.RUN], used[Storage.THREAD], spans, guarded)


def _table(
    slots: Sequence[Slot],
    run_scratch_bytes: int,
    thread_scratch_bytes: int,
    spans: dict[str, tuple[int, int]],
    guarded: tuple[str, ...],
) -> SlotTable:
    number = dict(zip(map(_TENSOR, slots), range(len(slots)), strict=True))
    return SlotTable(tuple(slots), number, run_scratch_bytes, thread_scratch_bytes, spans, guarded)


class ScratchRoom(msgspec.Struct):
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


class Room(msgspec.Struct, frozen=True, gc=False):
    """The bytes a scratch tensor needs, and the leaves during which it needs them."""

    tensor: str
    size_bytes: int
    lifetime: range


def place(rooms: Sequence[Room]) -> tuple[dict[str, int], int]:
    """A start for every room, and the end of the arena.

    The largest first, each at the lowest start where no placed room of a lifetime that meets its
    own lies in the way.
    """
    if len(rooms) < 2:
        return dict.fromkeys(map(_TENSOR, rooms), 0), sum(map(_SIZE, rooms))
    starts: dict[str, int] = {}
    placed: list[Room] = []
    end = 0
    for room in sorted(rooms, key=_SIZE, reverse=True):
        in_the_way = [
            (starts[other.tensor], starts[other.tensor] + other.size_bytes)
            for other in placed
            if other.lifetime.start < room.lifetime.stop
            and room.lifetime.start < other.lifetime.stop
        ]
        start = 0
        for low, high in sorted(in_the_way):
            if start + room.size_bytes <= low:
                break
            start = max(start, high)
        starts[room.tensor] = start
        placed.append(room)
        end = max(end, start + room.size_bytes)
    return starts, end


class ScratchUse(msgspec.Struct, gc=False):
    """A scratch tensor: the bytes it needs, relative to its first address, and the leaves from
    ``first`` on before ``stop`` during which it may hold values."""

    data_type: DataType
    storage: Storage
    low: int = 0
    high: int = 0
    first: int = 0
    stop: int = 0


def scratch_uses(
    program: Program,
    needs: Mapping[str, Need] = _NO_NEEDS,
    primitives: dict[str, Primitive] | None = None,
) -> dict[str, ScratchUse]:
    """The scratch tensors that some leaf uses, in program order; arguments as `assign_slots` has
    them.

    Those below a parallel node are private to a thread.
    """
    return _walked(program, needs, primitives)[0]


def _walked(
    program: Program, needs: Mapping[str, Need], primitives: dict[str, Primitive] | None
) -> tuple[dict[str, ScratchUse], tuple[str, ...]]:
    """As `scratch_uses`, and the axes that guards ask about, in program order."""
    table = program.primitive_table() if primitives is None else primitives
    walk = _UseWalk(program, table, needs, {}, [], {}, {})
    walk.through(program.roots, program.scratch, Storage.RUN, 0)
    uses = walk.uses
    if not all(map(_STOP, uses.values())):
        uses = {name: use for name, use in uses.items() if use.stop}
    return uses, tuple(walk.guarded)


class _UseWalk(msgspec.Struct, frozen=True, gc=False):
    """What a walk of the schedule looks up, what it finds, and the axes it is below.

    ``axes`` are filled when the first scratch tensor is met of which no need is known; ``guarded``
    has the axes that guards ask about as keys.
    """

    program: Program
    primitives: dict[str, Primitive]
    needs: Mapping[str, Need]
    uses: dict[str, ScratchUse]
    path: list[str]
    axes: dict[str, Axis]
    guarded: dict[str, None]

    def through(
        self, nodes: Sequence[Node], scratch: Sequence[Tensor], storage: Storage, start: int
    ) -> tuple[int, set[str]]:
        """The leaf after ``nodes``, and the scratch they touch; ``scratch`` is theirs."""
        uses, path = self.uses, self.path
        for tensor in scratch:
            need = self.needs.get(tensor.name, _NOTHING)
            uses[tensor.name] = ScratchUse(tensor.data_type, storage, need.low, need.high)
        touched: set[str] = set()
        for node in nodes:
            before = start
            for term in node.guard:
                self.guarded[term.axis] = None
            if isinstance(node, IterationNode):
                inner = Storage.THREAD if node.policy is Policy.PARALLEL else storage
                path.append(node.axis)
                start, names = self.through(node.children, node.scratch, inner, before)
                path.pop()
            else:
                start += 1
                primitive = self.primitives[node.primitive]
                names = uses.keys() & primitive.operands
                if names and not names <= self.needs.keys():
                    walked = list(map(self.axis, (*path, *primitive.axes)))
                    for name in names - self.needs.keys():
                        _reach(uses[name], name, walked)
            if not names:
                continue
            for tensor in scratch:
                if tensor.name in names:
                    use = uses[tensor.name]
                    use.first = use.first if use.stop else before
                    use.stop = start
            touched |= names
        return start, touched

    def axis(self, name: str) -> Axis:
        """The axis of this name."""
        if not self.axes:
            self.axes.update(self.program.axis_table())
        return self.axes[name]


def _reach(use: ScratchUse, name: str, walked: Sequence[Axis]) -> None:
    """Widen the bytes of a scratch tensor by those of a leaf below ``walked``."""
    low, high = 0, use.data_type.width
    for axis in walked:
        if axis.offsets:
            low += axis.offsets[name]
        high += axis.strides[name] * (axis.extent - 1)
    is_first = use.low == use.high
    use.low, use.high = (
        low if is_first else min(low, use.low),
        low + high if is_first else max(low + high, use.high),
    )


def round_up(size: int) -> int:
    return -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
