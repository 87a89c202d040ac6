"""Programs that are plainly right: every rule and proof at once, in one pass, without findings.

Most programs need none of the care that `teir.ir.check` takes: no sparse axis, nothing broken,
parallel iterations that lie apart, scratch that unguarded leaves fill. Their numbers are gathered
once, and the proofs are made from those; the proof of races and that of scratch are asked where
what is found here does not do. Whatever is not plain is left to the rules, which say what is wrong:
this pass may give up, but must never accept what they refuse.
"""

from __future__ import annotations

from teir.ir.check.collision import Budget, BudgetSpentError
from teir.ir.check.initialised import scratch_written_first
from teir.ir.check.plain_tables import flat_leaf, flat_schedule, flat_walks
from teir.ir.check.plain_walk import walked
from teir.ir.check.races import STEPS, races
from teir.ir.check.report import Need
from teir.ir.check.resolved import resolve
from teir.ir.nodes import LIMIT, Program

_BUDGET = 20_000
"""Steps of work: a program that takes more is not plain."""


def plain_needs(program: Program) -> dict[str, Need] | None:
    """The bytes each tensor needs, None where the program is not plainly right."""
    try:
        return _needs(program)
    except (KeyError, BudgetSpentError):  # a name that leads nowhere; too much to look at
        return None


def _needs(program: Program) -> dict[str, Need] | None:
    schedule = flat_schedule(program)
    if schedule is None:
        return None
    walks = flat_walks(program.axes, schedule.widths)
    if walks is None or len(walks) != len(program.axes):
        return None
    leaves = {}
    for one in program.primitives:
        leaves[one.name] = flat_leaf(one, schedule, walks)
    if len(leaves) != len(program.primitives):
        return None
    found = walked(schedule, walks, leaves, Budget(_BUDGET))
    if found is None:
        return None
    needs = {}
    for name, (low, high) in found.hull.items():
        if low <= -LIMIT or high >= LIMIT:
            return None
        needs[name] = Need(low, high)
    is_apart = not found.shared or all(one.is_apart() for one in found.shared.values())
    if not (is_apart and found.is_filled) and not _is_proved(program, is_apart, found.is_filled):
        return None
    return needs


def _is_proved(program: Program, is_apart: bool, is_filled: bool) -> bool:
    """What this pass left open, by the proofs that take more care."""
    resolved = resolve(program)
    if not is_apart and races(resolved, Budget(STEPS)):
        return False
    return is_filled or not scratch_written_first(resolved, Budget(STEPS))
