"""Barriers, and protocols of roles under every interleaving."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from teir.tma.barrier import arrive, arrive_expecting, complete_bytes, new_barrier, wait_passes
from teir.tma.interleave import explore, run_drawn
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


def test_a_phase_needs_its_arrivals_and_its_bytes() -> None:
    fresh = new_barrier(1)
    assert wait_passes(fresh, 1)
    assert not wait_passes(fresh, 0)
    expecting = arrive_expecting(fresh, 4096)
    assert expecting.phase == 0
    half = complete_bytes(expecting, 2048)
    assert not wait_passes(half, 0)
    done = complete_bytes(half, 2048)
    assert (done.phase, done.missing, done.pending_bytes) == (1, 1, 0)
    assert wait_passes(done, 0)


def test_bytes_may_land_before_they_are_expected() -> None:
    early = complete_bytes(new_barrier(1), 512)
    assert (early.phase, early.pending_bytes) == (0, -512)
    assert arrive_expecting(early, 512).phase == 1


def test_several_arrivals() -> None:
    barrier = arrive(arrive(new_barrier(3)))
    assert barrier.phase == 0
    assert arrive(barrier).phase == 1


@pytest.mark.parametrize(
    ("stages", "steps", "consumers"), [(1, 3, 1), (2, 5, 1), (2, 4, 2), (3, 5, 2)]
)
def test_the_pipeline_is_right_in_every_interleaving(
    stages: int, steps: int, consumers: int
) -> None:
    explored = explore(pipeline(stages, steps, consumers, 4096), most_states=50_000)
    assert explored.finding is None
    assert explored.complete
    assert explored.states > steps


@pytest.mark.parametrize("seed", range(20))
def test_the_pipeline_is_right_in_drawn_interleavings(seed: int) -> None:
    assert run_drawn(pipeline(4, 32, 2, 16384), seed).finding is None


def changed(protocol: Protocol, role: int, change: Callable[[Action], Action | None]) -> Protocol:
    """``protocol`` with the actions of one role changed, or dropped where None."""
    kept = tuple(one for one in map(change, protocol.roles[role].actions) if one is not None)
    roles = list(protocol.roles)
    roles[role] = replace(roles[role], actions=kept)
    return replace(protocol, roles=tuple(roles))


def without_waits(action: Action) -> Action | None:
    return None if isinstance(action, Wait) else action


def wrong_parity(action: Action) -> Action | None:
    return replace(action, parity=1 - action.parity) if isinstance(action, Wait) else action


def fewer_bytes(action: Action) -> Action | None:
    return replace(action, expect_bytes=2048) if isinstance(action, Arrive) else action


def more_bytes(action: Action) -> Action | None:
    return replace(action, expect_bytes=8192) if isinstance(action, Arrive) else action


def no_release(action: Action) -> Action | None:
    return None if isinstance(action, Arrive) else action


def released_before_read(role: Role) -> Role:
    actions = list(role.actions)
    for at in range(len(actions) - 1):
        if isinstance(actions[at], Read):
            actions[at], actions[at + 1] = actions[at + 1], actions[at]
    return replace(role, actions=tuple(actions))


@pytest.mark.parametrize(
    ("role", "change", "codes"),
    [
        (0, without_waits, {"TEIR973", "TEIR975"}),
        (0, wrong_parity, {"TEIR974"}),
        (0, fewer_bytes, {"TEIR974", "TEIR973", "TEIR975"}),
        (0, more_bytes, {"TEIR974"}),
        (1, without_waits, {"TEIR975"}),
        (1, wrong_parity, {"TEIR975"}),
        (1, no_release, {"TEIR974"}),
    ],
)
def test_mistakes_are_found(
    role: int, change: Callable[[Action], Action | None], codes: set[str]
) -> None:
    broken = changed(pipeline(2, 6, 1, 4096), role, change)
    explored = explore(broken, most_states=50_000)
    assert explored.finding is not None
    assert explored.finding.code in codes


def test_overwritten_before_it_was_consumed() -> None:
    protocol = pipeline(2, 5, 1, 4096)
    roles = (protocol.roles[0], released_before_read(protocol.roles[1]))
    explored = explore(replace(protocol, roles=roles), most_states=50_000)
    assert explored.finding is not None
    assert explored.finding.code == "TEIR975"
    assert explored.trace[0].startswith("producer: Wait(barrier=2")


def epilogue(actions: tuple[Action, ...]) -> Protocol:
    role = Role(name="epilogue", actions=actions)
    return Protocol(roles=(role,), barrier_arrivals=(), buffers=1)


STORED = (
    Write(buffer=0, value="C"),
    Fence(),
    Store(buffer=0, value="C"),
    WaitStores(pending=0),
)


def test_a_fence_stands_between_writes_and_a_store() -> None:
    assert explore(epilogue(STORED), 100).finding is None
    unfenced = explore(epilogue((STORED[0], *STORED[2:])), 100).finding
    assert unfenced is not None
    assert unfenced.code == "TEIR976"


def test_a_buffer_is_not_written_while_a_store_reads_it() -> None:
    assert explore(epilogue((*STORED, Write(buffer=0, value="D"))), 100).finding is None
    early = explore(epilogue((*STORED[:3], Write(buffer=0, value="D"))), 100).finding
    assert early is not None
    assert early.code == "TEIR975"


def test_the_last_stores_may_still_read() -> None:
    """Of stores out of buffers 0 and 1, a wait that leaves one pending frees buffer 0 only."""
    writes = tuple(Write(buffer=at, value="C") for at in (0, 1))
    stores = tuple(Store(buffer=at, value="C") for at in (0, 1))
    for buffer, pending, code in ((0, 1, None), (1, 1, "TEIR975"), (1, 0, None), (0, 2, "TEIR975")):
        wait, again = WaitStores(pending=pending), Write(buffer=buffer, value="D")
        role = Role(name="epilogue", actions=(*writes, Fence(), *stores, wait, again))
        found = explore(Protocol(roles=(role,), barrier_arrivals=(), buffers=2), 100).finding
        assert (found.code if found else None) == code


def test_two_loads_into_one_buffer() -> None:
    load = Load(barrier=0, buffer=0, size_bytes=16, value="A")
    producer = Role(
        name="producer",
        actions=(Arrive(barrier=0, expect_bytes=32), load, replace(load, value="B")),
    )
    found = explore(Protocol(roles=(producer,), barrier_arrivals=(1,), buffers=1), 100).finding
    assert found is not None
    assert found.code == "TEIR975"


def test_what_was_not_looked_at_is_said() -> None:
    explored = explore(pipeline(3, 6, 2, 4096), most_states=50)
    assert not explored.complete
    assert explored.finding is None
