"""Roles of a block that share buffers and barriers, as programs to be interleaved.

A role is what one warp or warpgroup runs. Copies are asynchronous: a `Load` that was issued lands
at any later moment, and a `Store` reads its buffer until it is done. Every value has a name, so
that a reader says what it expects to find.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait until the phase of ``parity`` of a barrier has completed."""

    barrier: int
    parity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrive:
    """Arrive at a barrier, announcing ``expect_bytes`` of copies."""

    barrier: int
    expect_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Issue a copy of ``size_bytes`` into ``buffer``; its bytes complete on ``barrier``."""

    barrier: int
    buffer: int
    size_bytes: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read ``buffer`` and expect ``value``; ``asynchronous`` for wgmma, which reads by proxy."""

    buffer: int
    value: str
    asynchronous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Write ``value`` to ``buffer`` with ordinary stores."""

    buffer: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Order this role's ordinary writes before asynchronous accesses (fence.proxy.async)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Issue a copy out of ``buffer``, expecting ``value``; it reads until `WaitStores`."""

    buffer: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStores:
    """Wait until this role's stores, but the last ``pending`` issued, have read their buffers.

    (cp.async.bulk.wait_group.read, where every store is a group of its own.)
    """

    pending: int


Action = Wait | Arrive | Load | Read | Write | Fence | Store | WaitStores


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A sequential program."""

    name: str
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Roles, the arrivals each barrier counts per phase, and the number of buffers."""

    roles: tuple[Role, ...]
    barrier_arrivals: tuple[int, ...]
    buffers: int


def pipeline(stages: int, steps: int, consumers: int, tile_bytes: int) -> Protocol:
    """The software pipeline of a tile loop: one producer, ``consumers`` warpgroups.

    Barrier s says that buffer s is full, barrier ``stages + s`` that it is empty. The producer's
    first round of waits passes at once, by asking for the parity before the first phase.
    """
    produce: list[Action] = []
    consume: list[Action] = []
    for step in range(steps):
        stage, turn = step % stages, step // stages
        value = f"tile {step}"
        produce += [
            Wait(barrier=stages + stage, parity=(turn + 1) % 2),
            Arrive(barrier=stage, expect_bytes=tile_bytes),
            Load(barrier=stage, buffer=stage, size_bytes=tile_bytes, value=value),
        ]
        consume += [
            Wait(barrier=stage, parity=turn % 2),
            Read(buffer=stage, value=value, asynchronous=True),
            Arrive(barrier=stages + stage, expect_bytes=0),
        ]
    roles = [Role(name="producer", actions=tuple(produce))]
    roles += [Role(name=f"consumer {at}", actions=tuple(consume)) for at in range(consumers)]
    return Protocol(
        roles=tuple(roles),
        barrier_arrivals=(*(1,) * stages, *(consumers,) * stages),
        buffers=stages,
    )
