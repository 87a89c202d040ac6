"""Tuning: measure the most promising programs of a problem, remember the decisions of the best.

    choices -> program -> check, compile -> seconds        for each candidate
    best decisions -> record on disk

A tuned program computes the same bits as the default one. An interruption keeps what was measured.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

import numpy as np

from teir import __version__
from teir.errors import TeirError
from teir.ir.nodes import Program
from teir.pipeline.machine_speeds import measured_speeds, tuning_records
from teir.pipeline.problem import Problem
from teir.pipeline.timing import draw_operands, run_once, seconds_of
from teir.pipeline.tuning_records import (
    FORMAT,
    ProblemKey,
    TuningRecord,
    TuningRecords,
)
from teir.search.machine import Machine
from teir.search.model import predict
from teir.search.tree import TreeProgram
from teir.search.tuning import MOST_MEASURED, Choices, Measured, best_of, measured_candidates

Tell = Callable[[Measured], None]
"""Told of every program that was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunable:
    """A problem, and the programs there are for it.

    ``make`` makes the program of some choices, beside the default one where that is there.
    """

    problem: Problem
    key: ProblemKey
    make: Callable[[Choices, TreeProgram | None], TreeProgram]
    machine: Machine


def tune(tunable: Tunable, tell: Tell) -> TuningRecord:
    """Measure, and remember the fastest. A KeyboardInterrupt is raised after remembering too."""
    measured: list[Measured] = []
    try:
        for one in _measurements(tunable):
            measured.append(one)
            tell(one)
    except KeyboardInterrupt:
        if measured:
            tuning_records().keep(_record(tunable, tuning_records(), measured, complete=False))
        raise
    record = _record(tunable, tuning_records(), measured, complete=True)
    tuning_records().keep(record)
    return record


def is_kept(record: TuningRecord) -> bool:
    """False where the record could not be written, or would not be found again."""
    return tuning_records().find(record.problem).record == record


def _measurements(tunable: Tunable) -> Iterator[Measured]:
    """Programs of other bits than the default one are left out: of complex numbers the two products
    of an imaginary part change places where a kernel's lanes run along the other factor."""
    speeds, make = measured_speeds().speeds, _within(tunable)
    operands = draw_operands(tunable.problem)
    result = operands.buffers[-1].view(np.uint8)
    run_once(make(()).program, operands.addresses, tunable.machine.threads)
    wanted = result.copy()

    def expected(program: Program) -> float:
        return predict(program, tunable.machine, speeds).seconds

    def seconds(program: Program) -> float | None:
        taken = seconds_of(program, operands.addresses, tunable.machine.threads)
        return taken if np.array_equal(result, wanted) else None

    yield from measured_candidates(make, expected, seconds)


def _within(tunable: Tunable) -> Callable[[Choices], TreeProgram]:
    """How programs are made; the default takes the place of those that need too much memory."""
    default = tunable.make((), None)

    def make(choices: Choices) -> TreeProgram:
        try:
            return tunable.make(choices, default) if choices else default
        except TeirError:
            return default

    return make


def _record(
    tunable: Tunable, records: TuningRecords, measured: list[Measured], complete: bool
) -> TuningRecord:
    best = best_of(measured)
    return TuningRecord(
        teir_tuning=FORMAT,
        version=__version__,
        problem=tunable.key,
        machine=records.machine,
        choices=best.candidate.choices,
        seconds=best.seconds,
        default_seconds=measured[0].seconds,
        measured=len(measured),
        complete=complete,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )


@contextmanager
def progress_bar(title: str) -> Iterator[Tell]:
    """A bar on standard error while programs are measured; nothing where that is no terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    best = [inf]
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=MOST_MEASURED)

        def tell(one: Measured) -> None:
            best[0] = min(best[0], one.seconds)
            text = f"{title}: best {1e3 * best[0]:.3g} ms"
            progress.update(task, advance=1, description=text)

        yield tell
