"""Stage 3: which costs another one makes superfluous, for all extents the constraints admit (5.4).

Two rules. The printed one drops a cost when another can be better and it can never be: that is no
dominance, since each may win somewhere in another component. The sound one drops what another
dominates.

Every question is first asked at sample points, where one witness settles it; then proved by
comparing bounds; what is still open goes to z3 where it is installed, and counts as possible where
it is not. So without z3 nothing is dropped that z3 would keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from teir.search.sparse.sampling import Samples, Values

_MARGIN = 1e-9
"""Relative difference below which two costs at a point count as equal."""
_SOLVER_STEPS = 200_000
_ASKED = 1
"""Of the costs that may dominate another, how many z3 is asked about."""


Components = tuple[Sum, ...]
"""What is compared: time and memory, or more; less is better in each."""


def kept_by_printed_rule(costs: Sequence[Cost], known: Known) -> list[int]:
    """The places of the costs that the paper's formula keeps, in order (5.4).

    A cost is dropped where another can be better, and it can never be better than that one:
    better is less in time or memory and not more in the other. This is not dominance. Raises
    TeirError where no extents meet the constraints.
    """
    samples = Samples(known)
    components = [(cost.time, cost.memory) for cost in costs]
    questions = _Questions(components, samples, _solver_of(samples))
    kept = []
    helpful: list[int] = []
    for place in range(len(costs)):
        other = questions.superior(place, helpful)
        if other is None:
            kept.append(place)
            continue
        if other in helpful:
            helpful.remove(other)
        helpful.insert(0, other)
    return kept


def not_dominated(
    costs: Sequence[Components],
    samples: Samples,
    advance: Callable[[int, int], None] | None = None,
) -> list[int]:
    """The places of the costs that no other dominates, in order.

    One dominates another where it is never worse in any component, and better in one for some
    extents. ``advance`` is told (done, all) now and then. Raises TeirError where no extents meet
    the constraints.
    """
    return _Questions(costs, samples, _solver_of(samples)).not_dominated(advance)


def not_dominated_halves(costs: Sequence[Components], samples: Samples) -> list[int]:
    """The places of the costs of which a schedule that is not dominated can be made, in order.

    As `not_dominated`, without a solver; but less of the last component alone, the memory, counts
    for nothing, as it does in the whole where the memory is small.
    """
    return _Questions(costs, samples, None, decisive=-1).not_dominated(None)


class _Questions:
    """The costs at sample points, and a solver for what they leave open.

    One is better than another where it is less in one of the first ``decisive`` components.
    """

    def __init__(
        self,
        costs: Sequence[Components],
        samples: Samples,
        solver: _Z3 | None,
        decisive: int | None = None,
    ) -> None:
        self._costs = costs
        self._known = samples.known
        self._solver = solver
        # By component, cost and sample point.
        self._at = np.array([samples.values(part) for part in zip(*costs, strict=True)])
        self._decisive = decisive

    def not_dominated(self, advance: Callable[[int, int], None] | None) -> list[int]:
        """The places that no other dominates, in order."""
        kept: list[int] = []
        # What dominates stands before in this order, and what dominates a dropped one is kept.
        for number, place in enumerate(self._best_first()):
            if not self._is_dominated(place, kept):
                kept.append(place)
            if advance is not None and number % 64 == 0:
                advance(number, len(self._costs))
        return sorted(kept)

    def _best_first(self) -> list[int]:
        """All places, by the sum of each component over the sample points."""
        return [int(place) for place in np.lexsort(self._at.sum(axis=2)[::-1])]

    def _is_dominated(self, place: int, kept: Sequence[int]) -> bool:
        if not kept:
            return False
        mine, theirs = self._at[:, [place]], self._at[:, kept]
        is_less = _less(theirs[: self._decisive], mine[: self._decisive]).any(axis=(0, 2))
        is_excused = _less(mine, theirs).any(axis=(0, 2))
        likely = [kept[other] for other in np.flatnonzero(is_less & ~is_excused).tolist()]
        if any(self._is_proved(other, place) for other in likely):
            return True
        if self._solver is None:
            return False
        return any(
            not self._solver.can_be_worse(self._costs[other], self._costs[place])
            for other in likely[:_ASKED]
        )

    def _is_proved(self, other: int, place: int) -> bool:
        """Never more in any component, by the bounds."""
        pairs = zip(self._costs[other], self._costs[place], strict=True)
        return all(never_below(theirs, ours, self._known) for ours, theirs in pairs)

    def superior(self, place: int, helpful: Sequence[int]) -> int | None:
        """A cost for which the printed rule drops the one at ``place``; helpful ones first."""
        first = np.array(helpful, np.int64)
        for others in (first, np.arange(len(self._costs))):
            time, memory = (table[others] for table in self._at)
            my_time, my_memory = (table[place] for table in self._at)
            excused = _better(my_time, my_memory, time, memory).any(axis=1)
            for other in others[~excused]:
                if other != place and self._is_superior(int(other), place):
                    return int(other)
        return None

    def _is_superior(self, other: int, place: int) -> bool:
        one, mine = self._costs[other], self._costs[place]
        if one == mine:
            return False
        time, memory = self._at
        is_seen = _better(time[other], memory[other], time[place], memory[place]).any()
        if not is_seen and not self._can_be_better(one, mine):
            return False
        return not self._can_be_better(mine, one)

    def _can_be_better(self, one: Components, other: Components) -> bool:
        """Less in one component and not more in the other, for some extents.

        ``True`` where nothing is known.
        """
        pairs = tuple(zip(one, other, strict=True))
        if all(never_below(ours, theirs, self._known) for ours, theirs in pairs):
            return False
        if any(never_below(ours, theirs, self._known, strictly=True) for ours, theirs in pairs):
            return False
        return self._solver is None or self._solver.can_be_better(one, other)


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
        # With a context of its own an answer does not depend on what was asked elsewhere before.
        self._context = z3.Context()
        self._symbols = {symbol: z3.Int(symbol, self._context) for symbol in known.symbols}
        self._solver = z3.Solver(ctx=self._context)
        self._solver.set("rlimit", _SOLVER_STEPS)
        for constraint in known.constraints:
            self._solver.add(self._constraint(constraint))

    def is_possible(self) -> bool:
        return bool(self._solver.check() != self._z3.unsat)

    def can_be_better(self, one: Components, other: Components) -> bool:
        """Less in one of two components and not more in the other, for some extents."""
        time, memory = map(self._sum, one)
        other_time, other_memory = map(self._sum, other)
        return self._is_sat(
            self._z3.Or(
                self._z3.And(time < other_time, memory <= other_memory),
                self._z3.And(time <= other_time, memory < other_memory),
            )
        )

    def can_be_worse(self, one: Components, other: Components) -> bool:
        """More in some component, for some extents."""
        pairs = zip(map(self._sum, one), map(self._sum, other), strict=True)
        return self._is_sat(self._z3.Or(*(ours > theirs for ours, theirs in pairs)))

    def _is_sat(self, claim: Any) -> bool:
        """Unless it is refuted."""
        self._solver.push()
        self._solver.add(claim)
        answer = self._solver.check()
        self._solver.pop()
        return bool(answer != self._z3.unsat)

    def _constraint(self, constraint: Constraint) -> Any:
        zero = self._z3.IntVal(0, self._context)
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
        result = self._z3.IntVal(0, self._context)
        for product in total:
            term = self._z3.IntVal(1, self._context)
            for symbol in product:
                term = term * self._symbols[symbol]
            result = result + term
        return result


def _solver_of(samples: Samples) -> _Z3 | None:
    """None where z3 is not installed. Raises TeirError where no extents meet the constraints."""
    try:
        import z3
    except ImportError:
        return None
    solver = _Z3(z3, samples.known)
    if samples.count == 0 and not solver.is_possible():
        raise TeirError((_impossible(samples.known),))
    return solver


def _impossible(known: Known) -> Finding:
    return Finding(
        rule=POSSIBLE,
        place=ArgumentPlace(name="constraints"),
        expected="constraints that some extents meet",
        found=", ".join(map(str, known.constraints)),
    )
