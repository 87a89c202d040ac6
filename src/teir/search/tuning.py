"""Candidates of one contraction, the most promising first, and how fast each was.

The decisions of the matrix-like steps are changed one by one: of all programs that differ from the
best one so far in one decision, the model picks a few, which are measured; as long as one of them
is faster, the next round starts from it. Programs that come out equal are tried once. All of them
compute the same bits, for no decision touches the order of a sum; who measures leaves out those of
complex numbers that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec.structs import fields, replace

from teir.ir.nodes import Program
from teir.search.alternatives import choices
from teir.search.choice import Choice
from teir.search.default_choice import default_choice
from teir.search.shape import ProductShape, extent_of
from teir.search.tree import MatrixStep, TreeProgram

Choices = tuple[Choice, ...]
"""One choice per matrix-like step, in the order the steps run."""

_PER_ROUND = 6
"""Programs measured in one round."""
_ROUNDS = 3
_STEPS = 4
"""Steps of a tree whose decisions are tried: those with the most products."""
_GAIN = 0.99
"""A program replaces the best one when it takes at most this share of its time."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program, the choices it comes from, and the seconds the model expects."""

    choices: Choices
    tree: TreeProgram
    predicted: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and the seconds one run took."""

    candidate: Candidate
    seconds: float


MOST_MEASURED = 1 + _ROUNDS * _PER_ROUND
"""Programs measured at most."""


def measured_candidates(
    make: Callable[[Choices], TreeProgram],
    predict: Callable[[Program], float],
    measure: Callable[[Program], float | None],
) -> Iterator[Measured]:
    """The default program first, then what may be faster, as soon as each is measured.

    ``make`` makes the program of some choices, ``predict`` and ``measure`` give seconds of a run;
    ``measure`` gives None for a program that must not take the place of the default one.
    """
    default = make(())
    start = default_choices(default)
    seconds = measure(default.program)
    if seconds is None:
        return
    best = Measured(Candidate(start, default, predict(default.program)), seconds)
    yield best
    seen = [default.program]
    for _ in range(_ROUNDS):
        round_best = best
        for candidate in _round(best.candidate, make, predict, seen):
            seen.append(candidate.tree.program)
            seconds = measure(candidate.tree.program)
            if seconds is None:
                continue
            one = Measured(candidate, seconds)
            yield one
            if one.seconds < round_best.seconds:
                round_best = one
        if round_best.seconds > _GAIN * best.seconds:
            return
        best = round_best


def best_of(measured: list[Measured]) -> Measured:
    """The fastest; the first one, the default, unless another is faster by more than noise."""
    fastest = min(measured, key=lambda one: one.seconds)
    return fastest if fastest.seconds <= _GAIN * measured[0].seconds else measured[0]


def _round(
    best: Candidate,
    make: Callable[[Choices], TreeProgram],
    predict: Callable[[Program], float],
    seen: list[Program],
) -> list[Candidate]:
    """The programs one decision away that the model likes best."""
    found: list[Candidate] = []
    for tried in one_away(best.choices, best.tree.matrix_steps):
        tree = make(tried)
        if any(tree.program == other for other in seen):
            continue
        if any(tree.program == other.tree.program for other in found):
            continue
        found.append(Candidate(tried, tree, predict(tree.program)))
    return sorted(found, key=lambda candidate: candidate.predicted)[:_PER_ROUND]


def default_choices(tree: TreeProgram) -> Choices:
    """What the steps of a program take where nothing is given."""
    return tuple(default_choice(step.shape, step.machine) for step in tree.matrix_steps)


def one_away(given: Choices, steps: tuple[MatrixStep, ...]) -> Iterator[Choices]:
    """``given`` with the changes of one alternative made to one step's choice."""
    largest = sorted(range(len(steps)), key=lambda place: -_products(steps[place].shape))
    for place in largest[:_STEPS]:
        default, *others = choices(steps[place].shape, steps[place].machine)
        for other in others:
            changed = {
                field.name: getattr(other, field.name)
                for field in fields(Choice)
                if getattr(other, field.name) != getattr(default, field.name)
            }
            changed_choice = replace(given[place], **changed)
            if changed_choice != given[place]:
                yield (*given[:place], changed_choice, *given[place + 1 :])


def _products(shape: ProductShape) -> int:
    return shape.rows * shape.columns * extent_of((*shape.c, *shape.k))
