"""The barriers of the warpgroup kernel as a protocol the emulator explores.

Without a cluster it is `teir.tma.protocol.pipeline`. In a cluster every block's producer loads its
rows for itself and its share of the columns for all; a stage is full when all of it has come, and
is loaded again when the consumers of all blocks have given it back. `store_protocol` is the
epilogue by tile stores.
"""

from __future__ import annotations

from teir.backends.cuda.tile_stores import BUFFERS
from teir.backends.cuda.warpgroup import WarpgroupPlan
from teir.tma.protocol import (
    Action,
    Arrive,
    Fence,
    Load,
    Protocol,
    Read,
    Role,
    Store,
    Wait,
    WaitStores,
    Write,
    pipeline,
)


def protocol_of(plan: WarpgroupPlan, stages: int, steps: int, consumers: int) -> Protocol:
    """The protocol with so many ``stages``, ``steps`` and ``consumers`` per block.

    The kernel itself has ``plan.stages`` stages and four consumers (warps) per warpgroup.
    """
    if plan.cluster == 1:
        return pipeline(stages, steps, consumers, plan.loaded_bytes)
    blocks = plan.cluster
    rows = plan.chunks_per_stage * plan.left.loaded_bytes
    share = (plan.loaded_bytes - rows) // blocks
    roles = []
    for block in range(blocks):
        produce: list[Action] = []
        for step in range(steps):
            stage, turn = step % stages, step // stages
            produce += [
                Wait(barrier=_empty(block, stage, stages), parity=(turn + 1) % 2),
                Arrive(barrier=_full(block, stage, stages), expect_bytes=plan.loaded_bytes),
                _load(block, stage, stages, blocks, 0, rows, f"rows {block} of {step}"),
            ]
            produce += [
                _load(to, stage, stages, blocks, 1 + block, share, f"share {block} of {step}")
                for to in range(blocks)
            ]
        roles.append(Role(name=f"producer {block}", actions=tuple(produce)))
        consume = _consume(block, stages, steps, blocks)
        roles += [Role(name=f"consumer {block}.{at}", actions=consume) for at in range(consumers)]
    full, empty = (1,) * stages, (blocks * consumers,) * stages
    return Protocol(
        roles=tuple(roles),
        barrier_arrivals=(full + empty) * blocks,
        buffers=blocks * stages * (1 + blocks),
    )


def store_protocol(writers: int, pieces: int) -> Protocol:
    """The epilogue with so many ``writers`` (warps) and ``pieces`` one after the other.

    Barrier 0 is the one the threads of all consumers meet at. Every writer has a part of each
    piece's room, and a store of the piece reads all of them.
    """
    roles = []
    for writer in range(writers):
        actions: list[Action] = []
        for piece in range(pieces):
            room = piece % BUFFERS * writers
            value = f"piece {piece}"
            if writer == 0:
                actions.append(WaitStores(pending=(BUFFERS - 1) * writers))
            actions += [Arrive(barrier=0, expect_bytes=0), Wait(barrier=0, parity=0)]
            actions += [Write(buffer=room + writer, value=value), Fence()]
            actions += [Arrive(barrier=0, expect_bytes=0), Wait(barrier=0, parity=1)]
            if writer == 0:
                actions += [Store(buffer=room + part, value=value) for part in range(writers)]
        if writer == 0:
            actions.append(WaitStores(pending=0))
        roles.append(Role(name=f"writer {writer}", actions=tuple(actions)))
    return Protocol(roles=tuple(roles), barrier_arrivals=(writers,), buffers=BUFFERS * writers)


def _full(block: int, stage: int, stages: int) -> int:
    return block * 2 * stages + stage


def _empty(block: int, stage: int, stages: int) -> int:
    return block * 2 * stages + stages + stage


def _buffer(block: int, stage: int, stages: int, blocks: int, part: int) -> int:
    return (block * stages + stage) * (1 + blocks) + part


def _load(
    block: int, stage: int, stages: int, blocks: int, part: int, size_bytes: int, value: str
) -> Load:
    return Load(
        barrier=_full(block, stage, stages),
        buffer=_buffer(block, stage, stages, blocks, part),
        size_bytes=size_bytes,
        value=value,
    )


def _consume(block: int, stages: int, steps: int, blocks: int) -> tuple[Action, ...]:
    consume: list[Action] = []
    for step in range(steps):
        stage, turn = step % stages, step // stages
        values = [f"rows {block} of {step}", *(f"share {at} of {step}" for at in range(blocks))]
        consume.append(Wait(barrier=_full(block, stage, stages), parity=turn % 2))
        consume += [
            Read(buffer=_buffer(block, stage, stages, blocks, part), value=value, asynchronous=True)
            for part, value in enumerate(values)
        ]
        consume += [
            Arrive(barrier=_empty(to, stage, stages), expect_bytes=0) for to in range(blocks)
        ]
    return tuple(consume)
