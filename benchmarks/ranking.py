"""How good is the schedule that is chosen without measuring?

    python benchmarks/ranking.py [--only TEXT] [--prefix "chrt -f 10 taskset -c 1"] [--work FOLDER]

All loop trees of stage 1 are measured for K4, K6 and K7; for the other kernels the frontier and 200
random trees. What takes more than 20 times the best is stopped. Measured times are kept in the work
folder: a run that was stopped goes on where it was, and a change of the prediction alone measures
nothing anew (``--report`` measures nothing at all). Writes results/ranking.json, and
ranking-layouts.svg: every schedule of K4 in four layouts.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import record
from c_nests import compiled_nests
from columns import Allocator, Column, environment
from measured_trees import Array, measure_all, sample, shared_zeros
from sparse_cases import KERNELS, LAYOUTS, MATRICES, TENSORS, load, statement_for
from sparse_kernels import bound_call, executable_of, problem_of, program_for
from sparse_nests import ROWS, graph_of
from sparse_plots import plot_temporaries

from teir.ir.nodes import Program
from teir.ir.printing import print_program
from teir.pipeline.executable import Executable
from teir.search.sparse.cost import cost_of, value
from teir.search.sparse.generation import space_of
from teir.search.sparse.graph import IterationGraph, branches
from teir.search.sparse.loop_trees import LARGEST_RANK, LoopTrees
from teir.search.sparse.predicted import Problem, predicted_seconds
from teir.search.sparse.ranked import ranked
from teir.search.sparse.rebuild import Rebuilder
from teir.search.sparse.schedules import stage1_candidates
from teir.search.sparse.space import Identity
from teir.search.sparse.statement import Statement

EVERY_TREE = ("K4", "K6", "K7")
RANDOM_TREES = 200
LAYOUT_EXTENTS = (64, 128)
LAYOUT_DATA = ("bcsstk16", "bayer10")
TIMES_BEST = 20.0
FINALISTS = 12
CLOSE = 1.25
"""Times the best: what takes part in the last rounds."""
ROUNDS = 7
_MOST_BYTES = 1 << 30
"""Schedules with larger temporaries are not run; they count as beyond the limit."""
_SLICE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel on some data at one dense extent."""

    kernel: str
    data: str
    extent: int

    @property
    def name(self) -> str:
        return f"{self.kernel}-{self.data}-{self.extent}"


def all_cases() -> list[Case]:
    cases = []
    for extent in (64, 16, 128, 32):
        for kernel in ("K4", "K7", "K6", "K1", "K3", "K8", "K2", "K5"):
            rank = len(statement_for(kernel).inputs[0].indices)
            names = MATRICES if rank == 2 else TENSORS
            cases += [Case(kernel, name, extent) for name in names]
    return [*cases, *layout_cases()]


def layout_cases() -> list[Case]:
    """K4 with its dense operands stored either way round, on the real matrices."""
    return [
        Case(kernel, name, extent)
        for extent in LAYOUT_EXTENTS
        for kernel in LAYOUTS
        for name in LAYOUT_DATA
        if kernel not in KERNELS
    ]


class Trees:
    """The schedules of one case, and how to run them on shared operands."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.statement = statement_for(case.kernel)
        self.data = load(case.data)
        self.extents = self.data.index_extents(self.statement, case.extent)
        self.symbols = self.data.symbols(self.statement, case.extent)

    def problem(self) -> Problem:
        return problem_of(self.statement, self.symbols)

    def ranked(self) -> list[IterationGraph]:
        return [one.candidate.graph for one in ranked(self.problem())]

    def graphs(self) -> list[IterationGraph]:
        """Stage 1, or random trees of it, and what is ranked; each text once."""
        if self.case.kernel in EVERY_TREE or self.case.kernel in LAYOUTS:
            others = [one.graph for one in stage1_candidates(self.statement)]
        else:
            others = _random_graphs(self.statement)
        unique = {text_of(graph): graph for graph in (*self.ranked(), *others)}
        return list(unique.values())

    def fits(self, graph: IterationGraph) -> bool:
        return 8 * value(cost_of(graph).memory, self.symbols) < _MOST_BYTES

    def operands(self) -> dict[str, Array]:
        operands = self.data.operands(self.statement, self.case.extent)
        return operands | {"A": shared_zeros(operands["A"].shape)}

    def program(self, graph: IterationGraph) -> Program:
        return program_for(self.case.kernel, graph, self.extents, self.data.stored)

    def executable(self, graph: IterationGraph) -> Executable:
        return executable_of(self.case.kernel, graph, self.extents, 1, self.data.stored)


def text_of(graph: IterationGraph) -> str:
    """The schedule, its temporaries numbered from the left."""
    made = [branch.temporary.tensor for branch in branches(graph.root)]
    if not made:
        return str(graph)
    names = re.compile("|".join(rf"\b{name}\b" for name in made))
    order = dict.fromkeys(names.findall(str(graph)))
    numbers = {name: f"T{number}" for number, name in enumerate(order, 1)}
    return names.sub(lambda found: numbers[found[0]], str(graph))


def _random_graphs(statement: Statement) -> list[IterationGraph]:
    space = space_of(statement, Identity.ACCESSES, LARGEST_RANK)
    trees = LoopTrees(space, with_primes=True)
    rebuilder = Rebuilder(space, trees)
    found = list(trees.kept(pipelines=False))
    draw = random.Random(7)
    return [rebuilder.graph(one) for one in draw.sample(found, min(RANDOM_TREES, len(found)))]


@dataclass(slots=True)
class Measured:
    """What the work folder holds of a case: seconds by schedule, inf beyond the limit.

    ``finals``: medians of rounds in which the best schedules and the chosen one took turns.
    """

    path: Path
    times: dict[str, float]
    finals: dict[str, float]

    @classmethod
    def of(cls, path: Path) -> Measured:
        stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return cls(path, stored.get("times", {}), stored.get("finals", {}))

    def keep(self) -> None:
        text = json.dumps({"times": self.times, "finals": self.finals}, indent=0)
        self.path.write_text(text, encoding="utf-8")


def measure_slice(case: Case, path: Path, seconds: float) -> bool:
    """Measure until the time is over; True where nothing is left."""
    deadline = time.monotonic() + seconds
    trees, measured = Trees(case), Measured.of(path)
    graphs = {text_of(graph): graph for graph in trees.graphs()}
    chosen = text_of(trees.ranked()[0])
    operands = trees.operands()
    reference, *_ = compiled_nests(
        graph_of(ROWS[case.kernel.partition("-")[0]], trees.statement), trees.extents, operands
    )
    reference()
    expected = sample(operands["A"])
    known = measured.times
    known |= {text: inf for text, graph in graphs.items() if not trees.fits(graph)}

    def prepare(text: str) -> Any:
        return bound_call(trees.executable(graphs[text]), operands)

    problem = trees.problem()
    twins = _twins(trees, {text: graph for text, graph in graphs.items() if text not in known})
    first = sorted(twins, key=lambda text: predicted_seconds(graphs[text], problem))
    measure_all(first, prepare, operands["A"], expected, known, TIMES_BEST, deadline)
    for one, others in twins.items():
        if one in known:
            known |= dict.fromkeys(others, known[one])
    is_done = all(text in known for text in graphs)
    if is_done and chosen not in measured.finals and time.monotonic() < deadline:
        measured.finals = _finals(known, chosen, prepare)
    measured.keep()
    print(f"{case.name}: {len(known)} of {len(graphs)}", flush=True)
    return is_done and chosen in measured.finals


def _twins(trees: Trees, graphs: Mapping[str, IterationGraph]) -> dict[str, list[str]]:
    """Schedules whose programs are the same but for names: the first, and the others."""
    first: dict[str, str] = {}
    twins: dict[str, list[str]] = {}
    for text, graph in graphs.items():
        program = trees.program(graph)
        names = {tensor.name for node in program.nodes() for tensor in getattr(node, "scratch", ())}
        names |= {tensor.name for tensor in program.scratch}
        shown = print_program(program).text
        pattern = re.compile("|".join(sorted(map(re.escape, names), key=len, reverse=True)) or "$^")
        order = dict.fromkeys(pattern.findall(shown))
        numbers = {name: f"scratch{number}" for number, name in enumerate(order)}
        key = pattern.sub(lambda found, numbers=numbers: numbers[found[0]], shown)
        if key in first:
            twins[first[key]].append(text)
        else:
            first[key] = text
            twins[text] = []
    return twins


def _finals(known: Mapping[str, float], chosen: str, prepare: Any) -> dict[str, float]:
    """Medians of interleaved rounds."""
    best = min(known.values())
    close = sorted((text for text in known if known[text] < CLOSE * best), key=known.__getitem__)
    calls = {text: prepare(text) for text in dict.fromkeys((*close[:FINALISTS], chosen))}
    times: dict[str, list[float]] = {text: [] for text in calls}
    for number in range(ROUNDS + 1):
        for text, call in calls.items():
            start = time.perf_counter()
            call()
            if number:
                times[text].append(time.perf_counter() - start)
    return {text: statistics.median(taken) for text, taken in times.items()}


def report(cases: Sequence[Case], folder: Path) -> list[dict[str, Any]]:
    """The chosen schedule beside the best measured one."""
    rows = []
    for case in cases:
        measured = Measured.of(folder / f"{case.name}.json")
        if not measured.finals:
            continue
        trees = Trees(case)
        chosen = text_of(trees.ranked()[0])
        times = {**measured.times, **measured.finals}
        best = min(measured.finals, key=lambda text: measured.finals[text])
        if chosen not in times:
            print(f"{case.name:22} the chosen schedule was not measured: {chosen}")
            continue
        taken = times[chosen]
        rows.append(
            {
                "kernel": case.kernel,
                "data": case.data,
                "extent": case.extent,
                "measured": len(measured.times),
                "best": best,
                "best_seconds": times[best],
                "chosen": chosen,
                "chosen_seconds": taken,
                "ratio": taken / times[best],
                "by_temporary": _by_temporary(trees, times),
                "chosen_temporary": kind_of(trees.ranked()[0]),
            }
        )
        print(
            f"{case.name:22} {len(measured.times):4} {1e3 * times[best]:9.3f} ms "
            f"{taken / times[best]:6.2f}\n    chosen {chosen}\n    best   {best}"
        )
    ratios = [row["ratio"] for row in rows]
    if ratios:
        print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, worst {max(ratios):.2f}")
    return rows


def kind_of(graph: IterationGraph) -> str:
    """The largest temporary: none, a scalar, a row or a matrix."""
    ranks = [len(branch.temporary.indices) for branch in branches(graph.root)]
    return ("scalar", "row", "matrix")[max(ranks)] if ranks else "none"


def _by_temporary(trees: Trees, times: Mapping[str, float]) -> dict[str, list[float]]:
    """The times of K4 in its layouts by the largest temporary, ascending."""
    if trees.case.kernel not in LAYOUTS:
        return {}
    found: dict[str, list[float]] = {}
    for graph in trees.graphs():
        taken = times.get(text_of(graph), inf)
        if taken < inf:
            found.setdefault(kind_of(graph), []).append(taken)
    return {kind: sorted(taken) for kind, taken in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--prefix", type=shlex.split, default=[])
    parser.add_argument("--slice", default="")
    parser.add_argument("--report", action="store_true")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "teir-benchmarks" / "ranking"
    )
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    cases = [case for case in all_cases() if arguments.only in case.name]
    if arguments.slice:
        (case,) = (case for case in all_cases() if case.name == arguments.slice)
        done = measure_slice(case, arguments.work / f"{case.name}.json", _SLICE_SECONDS)
        return 0 if done else 3
    for case in () if arguments.report else cases:
        code = 3
        while code == 3:
            command = [*arguments.prefix, sys.executable, __file__, "--slice", case.name]
            command += ["--work", str(arguments.work)]
            code = subprocess.run(
                command, env=environment(Column.SKYLAKEX, 1, Allocator.KEEPING), check=False
            ).returncode
    rows = report(cases, arguments.work)
    record.write("ranking", rows)
    plot_temporaries(rows, record.RESULTS / "ranking-layouts.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
