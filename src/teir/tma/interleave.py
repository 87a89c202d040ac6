"""Interleavings of a protocol: every one of a small protocol, drawn ones of a large one.

Found are: reads of a buffer that is not full, holds another tile or is being overwritten; writes to
a buffer that a store still reads; barriers that count too many bytes or arrivals, or too few; waits
that never end; ordinary writes that no fence orders before an asynchronous access.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from teir.errors import ArgumentPlace, Finding, Rule
from teir.tma.barrier import (
    Barrier,
    arrive_expecting,
    complete_bytes,
    new_barrier,
    wait_passes,
)
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
)
from teir.tma.rules import BARRIER_COUNT, BARRIER_WAIT, BUFFER_HAZARD, PROXY_FENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Buffer:
    """``value`` is None while undefined; ``writer`` has written it and not yet fenced."""

    value: str | None
    writer: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    at: tuple[int, ...]
    barriers: tuple[Barrier, ...]
    buffers: tuple[_Buffer, ...]
    landing: tuple[Load, ...]
    storing: tuple[tuple[int, int, int], ...]
    """(role, buffer, number of the action) of the stores that still read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """The result: a finding and the steps that led to it, or none.

    ``complete`` says that every interleaving was looked at.
    """

    states: int
    complete: bool
    finding: Finding | None
    trace: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    finding: Finding


def explore(protocol: Protocol, most_states: int) -> Explored:
    """Look at every interleaving, depth first, until ``most_states`` states have been seen."""
    start = _start(protocol)
    seen = {start}
    stack: list[tuple[_State, tuple[str, ...]]] = [(start, ())]
    while stack:
        state, trace = stack.pop()
        moves = list(_moves(protocol, state))
        if not moves:
            finding = _at_end(protocol, state)
            if finding is not None:
                return _found(len(seen), finding, trace)
        for label, result in moves:
            if isinstance(result, _Fault):
                return _found(len(seen), result.finding, (*trace, label))
            if result in seen:
                continue
            if len(seen) >= most_states:
                return Explored(states=len(seen), complete=False, finding=None, trace=())
            seen.add(result)
            stack.append((result, (*trace, label)))
    return Explored(states=len(seen), complete=True, finding=None, trace=())


def run_drawn(protocol: Protocol, seed: int) -> Explored:
    """One interleaving, drawn with ``seed``."""
    generator = random.Random(seed)
    state = _start(protocol)
    trace: list[str] = []
    while moves := list(_moves(protocol, state)):
        label, result = moves[generator.randrange(len(moves))]
        trace.append(label)
        if isinstance(result, _Fault):
            return _found(len(trace), result.finding, tuple(trace))
        state = result
    finding = _at_end(protocol, state)
    return Explored(states=len(trace), complete=False, finding=finding, trace=tuple(trace))


def _start(protocol: Protocol) -> _State:
    return _State(
        at=(0,) * len(protocol.roles),
        barriers=tuple(new_barrier(arrivals) for arrivals in protocol.barrier_arrivals),
        buffers=(_Buffer(value=None, writer=None),) * protocol.buffers,
        landing=(),
        storing=(),
    )


def _found(states: int, finding: Finding, trace: tuple[str, ...]) -> Explored:
    return Explored(states=states, complete=False, finding=finding, trace=trace)


def _moves(protocol: Protocol, state: _State) -> Iterator[tuple[str, _State | _Fault]]:
    for load in dict.fromkeys(state.landing):
        yield f"{load.value} lands in buffer {load.buffer}", _land(state, load)
    for store in state.storing:
        rest = tuple(one for one in state.storing if one is not store)
        yield f"a store has read buffer {store[1]}", replace(state, storing=rest)
    for number, role in enumerate(protocol.roles):
        if state.at[number] == len(role.actions):
            continue
        action = role.actions[state.at[number]]
        if isinstance(action, WaitStores) and _still_stores(state, number, role, action.pending):
            continue
        result = _step(state, number, action)
        if result is not None:
            yield f"{role.name}: {action}", _advanced(result, number)


def _still_stores(state: _State, number: int, role: Role, pending: int) -> bool:
    """Does a store of ``role`` still read that is not one of the last ``pending`` it issued?"""
    done = role.actions[: state.at[number]]
    issued = [at for at, action in enumerate(done) if isinstance(action, Store)]
    waited = issued[: max(0, len(issued) - pending)]
    return any(who == number and at in waited for who, _, at in state.storing)


def _advanced(result: _State | _Fault, number: int) -> _State | _Fault:
    if isinstance(result, _Fault):
        return result
    at = tuple(one + (role == number) for role, one in enumerate(result.at))
    return replace(result, at=at)


def _step(state: _State, number: int, action: Action) -> _State | _Fault | None:
    """The state after one action of role ``number``; None where it has to wait."""
    match action:
        case Wait():
            return state if wait_passes(state.barriers[action.barrier], action.parity) else None
        case Arrive():
            barrier = arrive_expecting(state.barriers[action.barrier], action.expect_bytes)
            return _with_barrier(state, action.barrier, barrier)
        case Load():
            return _issue_load(state, action)
        case Read():
            return _checked_read(state, action.buffer, action.value, action.asynchronous)
        case Write():
            if any(buffer == action.buffer for _, buffer, _ in state.storing):
                return _hazard(action.buffer, "no store reading it", "a store still reads it")
            return _with_buffer(state, action.buffer, action.value, number)
        case Fence():
            buffers = tuple(
                replace(one, writer=None) if one.writer == number else one for one in state.buffers
            )
            return replace(state, buffers=buffers)
        case Store():
            checked = _checked_read(state, action.buffer, action.value, True)
            if isinstance(checked, _Fault):
                return checked
            store = (number, action.buffer, state.at[number])
            return replace(checked, storing=(*checked.storing, store))
        case WaitStores():
            return state
        case _:
            assert_never(action)


def _issue_load(state: _State, load: Load) -> _State | _Fault:
    if any(buffer == load.buffer for _, buffer, _ in state.storing):
        return _hazard(load.buffer, "no store reading it", "a store still reads it")
    if any(other.buffer == load.buffer for other in state.landing):
        return _hazard(load.buffer, "one copy at a time", "a second load before the first landed")
    if state.buffers[load.buffer].writer is not None:
        return _unfenced(load.buffer)
    emptied = _with_buffer(state, load.buffer, None, None)
    landing = tuple(sorted((*state.landing, load), key=lambda one: (one.buffer, one.value)))
    return replace(emptied, landing=landing)


def _land(state: _State, load: Load) -> _State | _Fault:
    landing = list(state.landing)
    landing.remove(load)
    barrier = complete_bytes(state.barriers[load.barrier], load.size_bytes)
    filled = _with_buffer(state, load.buffer, load.value, None)
    return _with_barrier(replace(filled, landing=tuple(landing)), load.barrier, barrier)


def _checked_read(state: _State, buffer: int, value: str, asynchronous: bool) -> _State | _Fault:
    held = state.buffers[buffer]
    if held.value != value:
        found = "nothing that has landed" if held.value is None else held.value
        return _hazard(buffer, value, found)
    if asynchronous and held.writer is not None:
        return _unfenced(buffer)
    return state


def _with_barrier(state: _State, number: int, barrier: Barrier) -> _State | _Fault:
    if not barrier.is_sound:
        found = f"{barrier.missing} arrivals and {barrier.pending_bytes} bytes outstanding"
        return _fault(BARRIER_COUNT, f"barrier {number}", "counts within the phase", found)
    barriers = tuple(barrier if at == number else one for at, one in enumerate(state.barriers))
    return replace(state, barriers=barriers)


def _with_buffer(state: _State, number: int, value: str | None, writer: int | None) -> _State:
    new = _Buffer(value=value, writer=writer)
    buffers = tuple(new if at == number else one for at, one in enumerate(state.buffers))
    return replace(state, buffers=buffers)


def _at_end(protocol: Protocol, state: _State) -> Finding | None:
    """What is wrong where nothing moves any more."""
    for number, role in enumerate(protocol.roles):
        if state.at[number] < len(role.actions):
            action = role.actions[state.at[number]]
            wrong = _miscounted(state)
            found = f"{action} forever" + (f"; {wrong}" if wrong else "")
            return _fault(BARRIER_WAIT, role.name, "every wait to end", found).finding
    wrong = _miscounted(state)
    if wrong:
        return _fault(BARRIER_COUNT, "the end", "no bytes outstanding", wrong).finding
    return None


def _miscounted(state: _State) -> str:
    return ", ".join(
        f"barrier {number} has {barrier.pending_bytes} bytes outstanding"
        for number, barrier in enumerate(state.barriers)
        if barrier.pending_bytes
    )


def _hazard(buffer: int, expected: str, found: str) -> _Fault:
    return _fault(BUFFER_HAZARD, f"buffer {buffer}", expected, found)


def _unfenced(buffer: int) -> _Fault:
    expected = "a fence between ordinary writes and asynchronous accesses"
    return _fault(PROXY_FENCE, f"buffer {buffer}", expected, "none")


def _fault(rule: Rule, where: str, expected: str, found: str) -> _Fault:
    place = ArgumentPlace(name=where)
    return _Fault(finding=Finding(rule=rule, place=place, expected=expected, found=found))
