"""Stage 3: which complexity classes another one makes superfluous (5.4).

Two rules. The printed one drops a class when another can be better and it can never be: that is no
dominance, since each may win somewhere in another component. `Rule.DOMINANCE` drops a class when
another is never worse in time nor in memory, and somewhere better.

Every question is first asked at sample points, where one witness settles it; then proved by
comparing bounds; what is still open goes to z3 where it is installed, and counts as possible where
it is not. So without z3 nothing is dropped that z3 would keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from teir.errors import ArgumentPlace, Finding, TeirError
from teir.search.sparse.bounding import never_below
from teir.search.sparse.constraints import (
    POSSIBLE,
    Constraint,
    Known,
    Relation,
    polynomial_value,
)
from teir.search.sparse.cost import Cost, Sum
from teir.search.sparse.sampling import Values, costs_at, sample_points

_MARGIN = 1e-9
"""Relative difference below which two costs at a point count as equal."""
_SOLVER_MS = 5000


class Rule(Enum):
    """What stage 3 asks."""

    PRINTED = "printed"
    DOMINANCE = "dominance"


def not_dominated(
    costs: Sequence[Cost],
    known: Known,
    rule: Rule,
    advance: Callable[[int, int], None] | None = None,
) -> list[int]:
    """The places of the costs that the rule keeps, in order.

    ``advance`` is told (done, all) now and then. Raises TeirError where no extents meet the
    constraints.
    """
    questions = _Questions(costs, known)
    kept = []
    helpful: list[int] = []
    for place in range(len(costs)):
        other = questions.reason_to_drop(place, rule, helpful)
        if other is None:
            kept.append(place)
        elif other in helpful:
            helpful.remove(other)
            helpful.insert(0, other)
        else:
            helpful.insert(0, other)
        if advance is not None and place % 64 == 0:
            advance(place, len(costs))
    return kept


class _Questions:
    """The costs at sample points, and a solver for what they leave open."""

    def __init__(self, costs: Sequence[Cost], known: Known) -> None:
        self._costs = costs
        self._known = known
        points = sample_points(known)
        self._solver = _solver(known)
        if not next(iter(points.values())).size and not _is_possible(self._solver):
            raise TeirError((_impossible(known),))
        self._time = costs_at([cost.time for cost in costs], points)
        self._memory = costs_at([cost.memory for cost in costs], points)

    def reason_to_drop(self, place: int, rule: Rule, helpful: Sequence[int]) -> int | None:
        """A class that makes the one at ``place`` superfluous; ``helpful`` ones are tried first."""
        first = np.array([other for other in helpful if other != place], np.int64)
        for others in (first, np.arange(len(self._costs))):
            if not others.size:
                continue
            for other in self._candidates(place, others, rule):
                if other != place and self._drops(int(other), place, rule):
                    return int(other)
        return None

    def _candidates(self, place: int, others: Values | Any, rule: Rule) -> Any:
        """Those of ``others`` that no sample point excuses."""
        time, memory = self._time[others], self._memory[others]
        my_time, my_memory = self._time[place], self._memory[place]
        if rule is Rule.PRINTED:
            excused = _better(my_time, my_memory, time, memory)
        else:
            excused = _less(my_time, time) | _less(my_memory, memory)
        return others[~excused.any(axis=1)]

    def _drops(self, other: int, place: int, rule: Rule) -> bool:
        one, mine = self._costs[other], self._costs[place]
        if one == mine:
            return False
        match rule:
            case Rule.PRINTED:
                witness = _better(
                    self._time[other], self._memory[other], self._time[place], self._memory[place]
                ).any()
                if not witness and not self._can_be_better(one, mine):
                    return False
                return not self._can_be_better(mine, one)
            case Rule.DOMINANCE:
                return self._is_never_worse(one, mine) and self._is_somewhere_less(other, place)

    def _can_be_better(self, one: Cost, other: Cost) -> bool:
        """Less in one component and not more in the other, for some extents.

        ``True`` where nothing is known.
        """
        time_less = not never_below(one.time, other.time, self._known)
        memory_less = not never_below(one.memory, other.memory, self._known)
        if not time_less and not memory_less:
            return False
        if never_below(one.time, other.time, self._known, strictly=True):
            return False
        if never_below(one.memory, other.memory, self._known, strictly=True):
            return False
        if self._solver is None:
            return True
        return self._solver.can_be_better(one, other)

    def _is_never_worse(self, one: Cost, other: Cost) -> bool:
        if all(
            never_below(theirs, ours, self._known)
            for ours, theirs in ((one.time, other.time), (one.memory, other.memory))
        ):
            return True
        return self._solver is not None and not self._solver.can_be_worse(one, other)

    def _is_somewhere_less(self, other: int, place: int) -> bool:
        """Sample points decide where there are any; equal sums are never less."""
        return bool(
            _less(self._time[other], self._time[place]).any()
            or _less(self._memory[other], self._memory[place]).any()
        ) or (
            self._solver is not None
            and self._solver.can_be_better(self._costs[other], self._costs[place])
        )


def _less(one: Values, other: Values) -> Any:
    return one < other * (1 - _MARGIN)


def _at_most(one: Values, other: Values) -> Any:
    return one <= other


def _better(time: Values, memory: Values, other_time: Values, other_memory: Values) -> Any:
    """Less in one component and not more in the other, at each point."""
    return (_less(time, other_time) & _at_most(memory, other_memory)) | (
        _at_most(time, other_time) & _less(memory, other_memory)
    )


class _Z3:
    """The constraints in a solver of nonlinear integer arithmetic."""

    def __init__(self, z3: Any, known: Known) -> None:
        self._z3 = z3
        self._symbols = {symbol: z3.Int(symbol) for symbol in known.symbols}
        self._solver = z3.Solver()
        self._solver.set("timeout", _SOLVER_MS)
        for constraint in known.constraints:
            self._solver.add(self._constraint(constraint))

    def is_possible(self) -> bool:
        return bool(self._solver.check() != self._z3.unsat)

    def can_be_better(self, one: Cost, other: Cost) -> bool:
        time, other_time = self._sum(one.time), self._sum(other.time)
        memory, other_memory = self._sum(one.memory), self._sum(other.memory)
        return self._is_sat(
            self._z3.Or(
                self._z3.And(time < other_time, memory <= other_memory),
                self._z3.And(time <= other_time, memory < other_memory),
            )
        )

    def can_be_worse(self, one: Cost, other: Cost) -> bool:
        """More in some component, for some extents."""
        return self._is_sat(
            self._z3.Or(
                self._sum(one.time) > self._sum(other.time),
                self._sum(one.memory) > self._sum(other.memory),
            )
        )

    def _is_sat(self, claim: Any) -> bool:
        """Unless it is refuted."""
        self._solver.push()
        self._solver.add(claim)
        answer = self._solver.check()
        self._solver.pop()
        return bool(answer != self._z3.unsat)

    def _constraint(self, constraint: Constraint) -> Any:
        zero = self._z3.IntVal(0)
        left: Any = polynomial_value(constraint.left, self._symbols.__getitem__, zero)
        right: Any = polynomial_value(constraint.right, self._symbols.__getitem__, zero)
        match constraint.relation:
            case Relation.LESS:
                return left < right
            case Relation.AT_MOST:
                return left <= right
            case Relation.EQUAL:
                return left == right

    def _sum(self, total: Sum) -> Any:
        result = self._z3.IntVal(0)
        for product in total:
            term = self._z3.IntVal(1)
            for symbol in product:
                term = term * self._symbols[symbol]
            result = result + term
        return result


def _solver(known: Known) -> _Z3 | None:
    try:
        import z3
    except ImportError:
        return None
    return _Z3(z3, known)


def _is_possible(solver: _Z3 | None) -> bool:
    return solver is None or solver.is_possible()


def _impossible(known: Known) -> Finding:
    return Finding(
        rule=POSSIBLE,
        place=ArgumentPlace(name="constraints"),
        expected="constraints that some extents meet",
        found=", ".join(map(str, known.constraints)),
    )
