"""Measuring the schedules of a sparse product that are expected to be fast; the fastest is kept.

Other schedules form sums in another order: after tuning the last bits of a result may differ.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from time import perf_counter

import numpy as np

from teir import __version__
from teir.ir.nodes import Program
from teir.pipeline.executable import Executable
from teir.pipeline.progress import Advance
from teir.pipeline.sparse_operands import Array, Held
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_records import FORMAT, SparseRecord, sparse_records
from teir.pipeline.sparse_room import Room
from teir.pipeline.sparse_run import Step, arrays_of, pattern_of
from teir.pipeline.sparse_schedule import alternatives
from teir.pipeline.sparse_stages import stages_of
from teir.pipeline.timing import seconds_per_call

MOST_MEASURED = 6
"""Schedules of one product, the default among them."""
_HOPELESS = 10.0
"""Times the best, from which on a first run says enough."""
_LONG = 1e-3
"""Seconds from which on that is so: what takes less may have waited for its code."""


def tune_sparse(
    problem: SparseProblem, held: Mapping[str, Held], room: Room | None = None
) -> tuple[SparseRecord, ...]:
    """Measure every product of the problem that has no record yet, on these operands.

    The records of those that were measured. Raises TeirError as planning does.
    """
    made = []
    for stage in stages_of(problem, held, room):
        for step in stage.steps:
            if step.scheduled is None or step.scheduled.record is not None:
                continue
            record = _tuned(step, _output(stage.problem, stage.steps))
            if record is not None and sparse_records().keep(record):
                made.append(record)
    return tuple(made)


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


def _tuned(step: Step, output: list[Array]) -> SparseRecord | None:
    """The record of a product; None where there is nothing to choose from."""
    chosen = step.scheduled
    if chosen is None or chosen.problem is None or not output[0].size:
        return None
    if not isinstance(chosen.executable, Executable) or chosen.graph is None:
        return None
    (term, _) = step.terms[0]
    seconds: dict[str, float] = {}
    programs: list[Program] = []
    others = alternatives(term, chosen, chosen.problem)
    for graph, executable in chain([(chosen.graph, chosen.executable)], others):
        if executable.program not in programs:
            programs.append(executable.program)
            seconds[str(graph)] = _seconds(step, executable, output)
        if len(programs) == MOST_MEASURED:
            break
    if len(seconds) < 2:
        return None
    best = min(seconds, key=lambda text: seconds[text])
    return SparseRecord(
        teir_sparse_tuning=FORMAT,
        version=__version__,
        problem=chosen.problem,
        machine=sparse_records().machine,
        schedule=best,
        seconds=seconds[best],
        default_seconds=seconds[str(chosen.graph)],
        measured=len(seconds),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )


def _once(step: Step, executable: Executable, output: list[Array]) -> float:
    arrays = arrays_of(step, executable.program, output)
    start = perf_counter()
    executable.run_addresses(tuple(array.__array_interface__["data"][0] for array in arrays))
    return perf_counter() - start


def _seconds(step: Step, executable: Executable, output: list[Array]) -> float:
    arrays = arrays_of(step, executable.program, output)
    addresses = tuple(array.__array_interface__["data"][0] for array in arrays)
    return seconds_per_call(lambda: executable.run_addresses(addresses))
