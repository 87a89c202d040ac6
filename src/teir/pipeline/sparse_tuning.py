"""Measuring the schedules of a sparse product that are expected to be fast; the fastest is kept.

Other schedules form sums in another order: after tuning the last bits of a result may differ.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from time import perf_counter

import numpy as np

from teir import __version__
from teir.arrays.numpy_fields import address_of
from teir.ir.nodes import Program
from teir.pipeline.executable import Executable
from teir.pipeline.planning import tune_plan
from teir.pipeline.progress import Advance
from teir.pipeline.sparse_operands import Array, Held
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_records import FORMAT, SparseKey, SparseRecord, sparse_records
from teir.pipeline.sparse_room import Room
from teir.pipeline.sparse_run import Step, arrays_of, pattern_of
from teir.pipeline.sparse_schedule import Scheduled, alternatives
from teir.pipeline.sparse_stages import Stage, stages_of
from teir.pipeline.timing import seconds_per_call
from teir.search.sparse.ranked import ranked

MOST_MEASURED = 6
"""Schedules of one product, the default among them."""
_HOPELESS = 10.0
"""Times the best, from which on a first run says enough."""
_LONG = 1e-3
"""Seconds from which on that is so: what takes less may have waited for its code."""


@dataclass(frozen=True, slots=True)
class TimedSchedule:
    """A schedule, and the seconds it took and was expected to take."""

    schedule: str
    seconds: float
    predicted: float


@dataclass(frozen=True, slots=True)
class TunedProduct:
    """What was measured of a product, in this order, what follows, and whether it is remembered."""

    product: str
    record: SparseRecord
    measured: tuple[TimedSchedule, ...]
    is_kept: bool


def tune_sparse(
    problem: SparseProblem, held: Mapping[str, Held], room: Room | None = None
) -> tuple[SparseRecord, ...]:
    """Measure every product of the problem that has no record yet, on these operands.

    The records that are kept of those that were measured. Raises TeirError as planning does.
    """
    found: list[TunedProduct] = []
    tune_products(stages_of(problem, held, room), found, anew=False, tell=_quietly)
    return tuple(one.record for one in found if one.is_kept)


def tune_products(
    stages: Sequence[Stage], found: list[TunedProduct], *, anew: bool, tell: Advance
) -> None:
    """Measure the products of some stages and remember the fastest schedules.

    What was measured is added to ``found``, of an interrupted product too. With ``anew`` also
    those that have a record. Products of dense factors have no schedule: they are tuned as einsums,
    not ``anew``.
    """
    steps = [(stage, step) for stage in stages for step in stage.steps]
    for number, (stage, step) in enumerate(steps):
        chosen = step.scheduled
        if chosen is None or (chosen.record is not None and not anew):
            continue
        if chosen.plan is not None:
            if not anew:
                tune_plan(chosen.plan)
            continue

        def told(done: int, before: int = number * MOST_MEASURED) -> None:
            tell(before + done, len(steps) * MOST_MEASURED)

        _tune(step, chosen, _output(stage.problem, stage.steps), found, told)


def _quietly(done: int, of: int) -> None:
    """Nobody watches."""


def _output(problem: SparseProblem, steps: Sequence[Step]) -> list[Array]:
    """Memory for a result: its values and, where it is sparse, its assembled levels."""
    dtype = problem.computed_type.numpy_dtype()
    if not problem.has_sparse_result:
        return [np.empty(problem.shape, dtype).reshape(-1)]
    pattern = pattern_of(problem, [step for step in steps if step.scheduled is not None])
    levels = [array for level in pattern.stored if level for array in (level.pos, level.crd)]
    return [np.empty(pattern.nnz, dtype), *levels]


def measured_schedules(
    problem: SparseProblem,
    steps: Sequence[Step],
    step: Step,
    wanted: Collection[str],
    tell: Advance,
) -> dict[str, float]:
    """Seconds of the chosen schedule of a step and of the ``wanted`` others, by their text.

    What takes many times as long as the best so far is run once.
    """
    chosen = step.scheduled
    if chosen is None or not isinstance(chosen.executable, Executable):
        return {}
    output = _output(problem, steps)
    if not output[0].size:
        return {}
    seconds = {str(chosen.graph): _seconds(step, chosen.executable, output)}
    if chosen.problem is None:
        return seconds
    (term, _) = step.terms[0]
    for graph, executable in alternatives(term, chosen, chosen.problem, wanted):
        tell(len(seconds), len(wanted))
        once = _once(step, executable, output)
        is_slow = once > max(_LONG, _HOPELESS * min(seconds.values()))
        seconds[str(graph)] = once if is_slow else _seconds(step, executable, output)
    return seconds


def _tune(
    step: Step,
    chosen: Scheduled,
    output: list[Array],
    found: list[TunedProduct],
    told: Callable[[int], None],
) -> None:
    """Measure one product, if there is something to choose from, and keep the record if it can."""
    if chosen.problem is None or not output[0].size:
        return
    if not isinstance(chosen.executable, Executable) or chosen.graph is None:
        return
    (term, _) = step.terms[0]
    seconds: dict[str, float] = {}
    programs: list[Program] = []
    others = alternatives(term, chosen, chosen.problem)
    try:
        for graph, executable in chain([(chosen.graph, chosen.executable)], others):
            if executable.program not in programs:
                programs.append(executable.program)
                seconds[str(graph)] = _seconds(step, executable, output)
                told(len(programs))
            if len(programs) == MOST_MEASURED:
                break
    finally:
        # What was measured before an interruption is kept too.
        if len(seconds) > 1:
            expected = _expected(chosen)
            default = next((text for text in expected if text in seconds), str(chosen.graph))
            if chosen.record is None:
                default = str(chosen.graph)
            record = _record(chosen.problem, seconds, default)
            timed = (TimedSchedule(one, seconds[one], expected.get(one, 0.0)) for one in seconds)
            is_kept = sparse_records().keep(record)
            found.append(TunedProduct(chosen.problem.product, record, tuple(timed), is_kept))


def _expected(chosen: Scheduled) -> dict[str, float]:
    """Predicted seconds by schedule, the fastest first."""
    ranking = () if chosen.ranking is None else ranked(chosen.ranking)
    return {str(one.candidate.graph): one.seconds for one in ranking}


def _record(problem: SparseKey, seconds: Mapping[str, float], default: str) -> SparseRecord:
    best = min(seconds, key=lambda text: seconds[text])
    return SparseRecord(
        teir_sparse_tuning=FORMAT,
        version=__version__,
        problem=problem,
        machine=sparse_records().machine,
        schedule=best,
        seconds=seconds[best],
        default_seconds=seconds[default],
        measured=len(seconds),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )


def _once(step: Step, executable: Executable, output: list[Array]) -> float:
    arrays = arrays_of(step, executable.program, output)
    start = perf_counter()
    executable.run_addresses(tuple(address_of(array) for array in arrays))
    return perf_counter() - start


def _seconds(step: Step, executable: Executable, output: list[Array]) -> float:
    arrays = arrays_of(step, executable.program, output)
    addresses = tuple(address_of(array) for array in arrays)
    return seconds_per_call(lambda: executable.run_addresses(addresses))
