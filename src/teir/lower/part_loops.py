"""Loops around products that read rows in parts: what they do not move is copied once before them.

    Loop n < 32 (in1 += 131072, out += 8192)     PartCopy(in0 -> room)
      PartCopy(in0 -> room)                      Loop n < 32 (in1 += 131072, out += 8192)
      GemmBlock(room, in1 -> out)            ->    GemmBlock(room, in1 -> out)

A loop that moves A leaves the copies of its turns side by side where the room is large enough, so
that loops around it can pass them by. The room is scratch of the thread: what stands between a copy
and the blocks that read it must leave the room alone, and change no rows.
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.lower.calls import calls_of
from teir.lower.kernel_program import Call, Grid, KernelNode, Loop, Step, inner_nodes
from teir.lower.kernels import GemmBlock, PartCopy
from teir.lower.parts import MOST_NEAR_BYTES, part_copy_bytes


def copies_before_loop(loop: Loop) -> tuple[KernelNode, ...] | None:
    """The copies of the loop's turns, then the loop without them; None where they must stay."""
    if len(loop.body) < 2 or loop.index is not None:
        return None
    pairs = [(node, _copies_below(node)) for node in loop.body]
    found = [call for _, calls in pairs for call in calls]
    copies = tuple(node for node, calls in pairs if calls)
    rest = tuple(node for node, calls in pairs if not calls)
    if not copies or not rest:
        return None
    room, rows = found[0].operands[1].slot, {call.operands[0].slot for call in found}
    if len(rows) > 1 or not _leave_alone(rest, room, *rows) or not _are_apart(copies, room):
        return None
    (slot,) = rows
    stride = _step(loop, slot)
    if stride == 0:
        return (*copies, replace(loop, body=rest))
    size = room_end(copies, room)
    if size * loop.extent > MOST_NEAR_BYTES:
        return None
    moved = Step(slot=room, stride_bytes=size)
    before = replace(loop, steps=(Step(slot=slot, stride_bytes=stride), moved), body=copies)
    return before, replace(loop, steps=(*loop.steps, moved), body=rest)


def room_end(nodes: tuple[KernelNode, ...], slot: int) -> int:
    """Where in the room, which is ``slot``, the last copy below ``nodes`` ends; 0 without any."""
    end = 0
    for node in nodes:
        if isinstance(node, Call):
            if isinstance(node.kernel, PartCopy):
                end = max(end, node.operands[1].offset_bytes + part_copy_bytes(node))
            continue
        inner = room_end(inner_nodes(node), slot)
        if inner and isinstance(node, Loop):
            inner += (node.extent - 1) * _step(node, slot)
        end = max(end, inner)
    return end


def _copies_below(node: KernelNode) -> tuple[Call, ...]:
    """The copies that are all a node does, in loops or not; none where it does anything else."""
    if isinstance(node, Call):
        return (node,) if isinstance(node.kernel, PartCopy) else ()
    if not isinstance(node, Loop) or node.index is not None:
        return ()
    below = list(map(_copies_below, node.body))
    return tuple(call for calls in below for call in calls) if all(below) else ()


def _leave_alone(nodes: tuple[KernelNode, ...], room: int, rows: int) -> bool:
    """True where nodes change neither, and nobody but blocks in parts reads the room."""
    if _has_grid(nodes):
        return False
    for call, _ in calls_of(nodes):
        slots = [address.slot for address in call.operands]
        reads = isinstance(call.kernel, GemmBlock) and call.kernel.parts and room not in slots[1:]
        if rows in slots or (room in slots and not reads):
            return False
    return True


def _has_grid(nodes: tuple[KernelNode, ...]) -> bool:
    return any(
        isinstance(node, Grid) or (not isinstance(node, Call) and _has_grid(inner_nodes(node)))
        for node in nodes
    )


def _are_apart(copies: tuple[KernelNode, ...], room: int) -> bool:
    """True where each of ``copies`` begins where the ones before it have ended."""
    end = 0
    for number, node in enumerate(copies):
        if isinstance(node, Loop) and not _are_apart(node.body, room):
            return False
        if min(call.operands[1].offset_bytes for call in _copies_below(node)) < end:
            return False
        end = room_end(copies[: number + 1], room)
    return True


def _step(loop: Loop, slot: int) -> int:
    return sum(step.stride_bytes for step in loop.steps if step.slot == slot)
