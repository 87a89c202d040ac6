"""The way from the consumer's loop domain to the allocation domain of the global tensor.

Steps lead through expressions of the loop domain backwards (from outputs to inputs) and through
expressions of a derived allocation domain forwards. Walked forwards a merge plays the role of a
split: two IterDomains in, one out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.tma.derive import Domains
from teir.tma.domain import (
    Expression,
    IterDomain,
    ResizeExpression,
    inputs_of,
    outputs_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One expression on the way: ``from_`` lies nearer to the loops, ``to`` nearer to memory."""

    expression: Expression
    from_: tuple[IterDomain, ...]
    to: tuple[IterDomain, ...]


def path_to_allocation(domains: Domains) -> tuple[Step, ...]:
    """The steps from loops to allocation, each after those that make what it starts from."""
    backward_steps = _backward_steps(domains)
    reached = {*domains.loop, *(one for step in backward_steps for one in step.to)}
    forward_steps = _forward_steps(domains, reached)
    wanted = {one for step in forward_steps for one in step.from_} | set(domains.allocation)
    needed: list[Step] = []
    for step in reversed(backward_steps):
        if any(one in wanted for one in step.to):
            needed.append(step)
            wanted |= set(step.from_)
    return (*reversed(needed), *forward_steps)


def moved_off_path(path: tuple[Step, ...], domains: Domains) -> Iterator[Step]:
    """The resizes off the path that move the one position there is.

    What a split leaves of extent 1 has no place in memory. With positions before its own, that is
    no longer the first, where a box of nothing more begins.
    """
    on_path = {id(step.expression) for step in path}
    for step in _backward_steps(domains):
        one = step.expression
        if isinstance(one, ResizeExpression) and one.left and id(one) not in on_path:
            yield step


def loops_of(step: Step, domains: Domains) -> frozenset[IterDomain]:
    """The loop IterDomains that come from what a step starts from."""
    reached = set(step.from_)
    for one in domains.loop_expressions:
        if any(source in reached for source in inputs_of(one)):
            reached |= set(outputs_of(one))
    return frozenset(reached) & frozenset(domains.loop)


def _backward_steps(domains: Domains) -> tuple[Step, ...]:
    return tuple(
        Step(expression=one, from_=outputs_of(one), to=inputs_of(one))
        for one in reversed(domains.loop_expressions)
    )


def _forward_steps(domains: Domains, reached: set[IterDomain]) -> tuple[Step, ...]:
    """The steps of the allocation domain that start from what the loops reach."""
    wanted = {one for one in domains.allocation if one not in reached}
    steps: list[Step] = []
    for expression in reversed(domains.allocation_expressions):
        if any(one in wanted for one in outputs_of(expression)):
            steps.append(
                Step(expression=expression, from_=inputs_of(expression), to=outputs_of(expression))
            )
            wanted |= {one for one in inputs_of(expression) if one not in reached}
    return tuple(reversed(steps))
