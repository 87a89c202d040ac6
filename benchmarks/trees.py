"""Einsum trees beside NumPy and opt_einsum with PyTorch, one thread, single precision.

    python benchmarks/trees.py [--rounds N]

The trees of ``tests/expr/trees.json``, once with an allocator that keeps its pages and once with
the usual one, each in a process of its own. All libraries follow the same tree: NumPy and
opt_einsum get it as a path, in the convention of both. Rounds are interleaved, and each begins with
another contender; every round measures the multiply-add peak too, and times are medians of the
rounds. ``as written`` is this package with every layout as the tree wrote it. Results are compared
with NumPy's on whole numbers. Writes ``results/trees.json``; exits 1 where a result is wrong. Five
rounds take two to three minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import opt_einsum
import torch
from columns import Allocator, Column, environment
from record import write

import teir
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.peak import measure_fma_peak
from teir.dtypes import DataType
from teir.expr.tree_parsing import parse_nested

_FILE = Path(__file__).parents[1] / "tests" / "expr" / "trees.json"

TREES: dict[str, tuple[str, tuple[int, ...]]] = {
    one["name"]: (one["tree"], tuple(one["extents"]))
    for one in json.loads(_FILE.read_text(encoding="utf-8"))
}
"""Text, and the extents of the indices 0, 1, 2, ..."""


def contenders(
    text: str, extents: tuple[int, ...]
) -> tuple[dict[str, Callable[[], Any]], np.ndarray, int]:
    """A call per library, the right result, and the operations of one call."""
    nested = parse_nested(text)
    assert nested.nesting is not None
    assert nested.output is not None
    draw = np.random.default_rng(1)
    terms = [[int(index) for index in term.symbols] for term in nested.inputs]
    arrays = [
        draw.integers(-1, 2, [extents[index] for index in term]).astype(np.float32)
        for term in terms
    ]
    output = [int(index) for index in nested.output.symbols]
    chosen = teir.plan(text, *arrays, threads=1)
    written = teir.plan(text, *arrays, threads=1, optimize=False)
    out = np.empty([extents[index] for index in output], np.float32)
    path = list(nested.nesting.path)
    interleaved: list[Any] = []
    for array, term in zip(arrays, terms, strict=True):
        interleaved += [array, term]
    tensors: list[Any] = []
    for array, term in zip(arrays, terms, strict=True):
        tensors += [torch.from_numpy(array), term]
    right = np.einsum(*interleaved, output, optimize=["einsum_path", *path])
    calls = {
        "teir": lambda: chosen(*arrays, out=out),
        "teir, as written": lambda: written(*arrays, out=out),
        "NumPy": lambda: np.einsum(*interleaved, output, optimize=["einsum_path", *path]),
        "opt_einsum with torch": lambda: opt_einsum.contract(*tensors, output, optimize=path),
    }
    return calls, right, 2 * sum(step.products for step in written.steps)


def measure(name: str, rounds: int) -> dict[str, Any]:
    calls, right, flops = contenders(*TREES[name])
    wrong = [who for who, call in calls.items() if not np.array_equal(np.asarray(call()), right)]
    times: dict[str, list[float]] = {who: [] for who in calls}
    peaks = []
    order = list(calls)
    for _ in range(rounds):
        peaks.append(measure_fma_peak(host_isa(), DataType.FP32, 6))
        order = [*order[1:], order[0]]
        for who in order:
            call = calls[who]
            start = time.perf_counter()
            call()
            times[who].append(time.perf_counter() - start)
    seconds = {who: statistics.median(measured) for who, measured in times.items()}
    peak = statistics.median(peaks)
    return {
        "tree": TREES[name][0],
        "extents": TREES[name][1],
        "flops": flops,
        "peak": peak,
        "seconds": seconds,
        "share": {who: flops / peak / taken for who, taken in seconds.items()},
        "wrong": wrong,
    }


def measure_here(rounds: int) -> dict[str, Any]:
    """Every tree in this process, a line each to standard error."""
    torch.set_num_threads(1)
    figures = {}
    for name in TREES:
        figures[name] = figure = measure(name, rounds)
        row = ", ".join(
            f"{who} {1e3 * taken:.0f} ms ({100 * figure['share'][who]:.0f} %)"
            for who, taken in figure["seconds"].items()
        )
        wrong = f"  WRONG {figure['wrong']}" if figure["wrong"] else ""
        print(f"{name}: {row}{wrong}", file=sys.stderr, flush=True)
    return {"rounds": rounds, "trees": figures}


def measure_with(allocator: Allocator, rounds: int) -> dict[str, Any]:
    """Every tree in a process with that allocator."""
    print(f"allocator: {allocator.value}", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, "--here", "--rounds", str(rounds)]
    variables = environment(Column.INSTALLED, 1, allocator)
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def main() -> int:
    reader = argparse.ArgumentParser()
    reader.add_argument("--rounds", type=int, default=5)
    reader.add_argument("--here", action="store_true", help="print the figures of this process")
    arguments = reader.parse_args()
    if arguments.here:
        print(json.dumps(measure_here(arguments.rounds)))
        return 0
    figures = {one.value: measure_with(one, arguments.rounds) for one in Allocator}
    write("trees", figures)
    return int(any(tree["wrong"] for one in figures.values() for tree in one["trees"].values()))


if __name__ == "__main__":
    sys.exit(main())
