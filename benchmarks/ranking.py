"""How good is the schedule that is chosen without measuring?

    python benchmarks/ranking.py [--only TEXT] [--prefix "chrt -f 10 taskset -c 1"] [--work FOLDER]

All loop trees of stage 1 are measured for K4, K6 and K7; for the other kernels the frontier and 200
random trees. What takes more than 20 times the best is stopped. Measured times are kept in the work
folder: a run that was stopped goes on where it was, and a change of the prediction alone measures
nothing anew (``--report`` measures nothing at all). Writes results/ranking.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import record
from c_nests import compiled_nests
from columns import Column, environment
from measured_trees import Array, measure_all, sample, shared_zeros
from sparse_cases import MATRICES, TENSORS, load, statement_for
from sparse_kernels import bound_call, executable_of, problem_of
from sparse_nests import ROWS, graph_of

from teir.pipeline.executable import Executable
from teir.search.sparse.cost import cost_of, value
from teir.search.sparse.generation import space_of
from teir.search.sparse.graph import IterationGraph
from teir.search.sparse.loop_trees import LARGEST_RANK, LoopTrees
from teir.search.sparse.predicted import Problem, predicted_seconds
from teir.search.sparse.rebuild import Rebuilder
from teir.search.sparse.schedules import Request, plan_frontier, stage1_candidates
from teir.search.sparse.space import Identity
from teir.search.sparse.statement import Statement
from teir.target import host_target

EVERY_TREE = ("K4", "K6", "K7")
RANDOM_TREES = 200
TIMES_BEST = 20.0
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
    return cases


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

    def graphs(self) -> list[IterationGraph]:
        """Stage 1, or the frontier and random trees; each text once."""
        frontier = [one.graph for one in plan_frontier(self.statement, self._request())]
        if self.case.kernel in EVERY_TREE:
            others = [one.graph for one in stage1_candidates(self.statement)]
        else:
            others = _random_graphs(self.statement)
        unique = {str(graph): graph for graph in (*frontier, *others)}
        return list(unique.values())

    def frontier(self) -> set[str]:
        return {str(one.graph) for one in plan_frontier(self.statement, self._request())}

    def _request(self) -> Request:
        return Request(cache_bytes=host_target(os.environ).caches.l3_bytes, sizes=self.symbols)

    def fits(self, graph: IterationGraph) -> bool:
        return 8 * value(cost_of(graph).memory, self.symbols) < _MOST_BYTES

    def operands(self) -> dict[str, Array]:
        operands = self.data.operands(self.statement, self.case.extent)
        return operands | {"A": shared_zeros(operands["A"].shape)}

    def executable(self, graph: IterationGraph) -> Executable:
        return executable_of(self.case.kernel, graph, self.extents, 1)


def _random_graphs(statement: Statement) -> list[IterationGraph]:
    space = space_of(statement, Identity.ACCESSES, LARGEST_RANK)
    trees = LoopTrees(space, with_primes=True)
    rebuilder = Rebuilder(space, trees)
    found = list(trees.kept(pipelines=False))
    draw = random.Random(7)
    return [rebuilder.graph(one) for one in draw.sample(found, min(RANDOM_TREES, len(found)))]


def measure_slice(case: Case, path: Path, seconds: float) -> bool:
    """Measure until the time is over; True where nothing is left."""
    trees = Trees(case)
    graphs = trees.graphs()
    texts = [str(graph) for graph in graphs]
    stored = json.loads(path.read_text()) if path.exists() else {}
    problem = trees.problem()
    predicted = [predicted_seconds(graph, problem) for graph in graphs]
    known = {number: stored[text] for number, text in enumerate(texts) if text in stored}
    operands = trees.operands()
    recipe = ROWS[case.kernel]
    reference, *_ = compiled_nests(graph_of(recipe, trees.statement), trees.extents, operands)
    reference()
    expected = sample(operands["A"])
    too_large = {number for number, graph in enumerate(graphs) if not trees.fits(graph)}
    order = sorted(set(range(len(graphs))) - too_large, key=lambda number: predicted[number])
    known |= dict.fromkeys(too_large, float("inf"))

    def prepare(number: int) -> Any:
        return bound_call(trees.executable(graphs[number]), operands)

    deadline = time.monotonic() + seconds
    measure_all(order, prepare, operands["A"], expected, known, TIMES_BEST, deadline)
    path.write_text(json.dumps({texts[number]: taken for number, taken in known.items()}, indent=0))
    print(f"{case.name}: {len(known)} of {len(graphs)}", flush=True)
    return len(known) == len(graphs)


def report(cases: Sequence[Case], folder: Path) -> list[dict[str, Any]]:
    """The chosen schedule beside the best measured one."""
    rows = []
    for case in cases:
        path = folder / f"{case.name}.json"
        if not path.exists():
            continue
        times: Mapping[str, float] = json.loads(path.read_text())
        trees = Trees(case)
        problem = trees.problem()
        frontier = [one.graph for one in plan_frontier(trees.statement, trees._request())]
        chosen = min(frontier, key=lambda graph: predicted_seconds(graph, problem))
        best = min(times, key=lambda text: times[text])
        taken = times.get(str(chosen), float("nan"))
        rows.append(
            {
                "case": case.name,
                "measured": len(times),
                "best": best,
                "best_seconds": times[best],
                "chosen": str(chosen),
                "chosen_seconds": taken,
                "ratio": taken / times[best],
            }
        )
        print(
            f"{case.name:22} {len(times):4} {1e3 * times[best]:9.3f} ms "
            f"{taken / times[best]:6.2f}\n    chosen {chosen}\n    best   {best}"
        )
    ratios = [row["ratio"] for row in rows if row["ratio"] == row["ratio"]]
    if ratios:
        print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, worst {max(ratios):.2f}")
    return rows


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
                command, env=environment(Column.SKYLAKEX, 1), check=False
            ).returncode
    record.write("ranking", report(cases, arguments.work))
    return 0


if __name__ == "__main__":
    sys.exit(main())
