"""Einsum trees beside NumPy and opt_einsum with PyTorch, one thread, single precision.

    python benchmarks/trees.py [rounds]

The trees of ``tests/expr/trees.json``. All libraries follow the same tree: NumPy and opt_einsum get
it as a path, in the convention of both. Rounds are interleaved; every round measures the
multiply-add peak too, and shares are medians of the rounds. ``as written`` is this package with
every layout as the tree wrote it. Results are compared with NumPy's on whole numbers. Writes
``results/trees.json``; exits 1 where a result is wrong.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import opt_einsum
import torch
from columns import Column, enter
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
    for _ in range(rounds):
        peaks.append(measure_fma_peak(host_isa(), DataType.FP32, 6))
        for who, call in calls.items():
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


def main() -> int:
    enter(Column.INSTALLED, threads=1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.set_num_threads(1)
    figures = {name: measure(name, rounds) for name in TREES}
    for name, figure in figures.items():
        row = ", ".join(
            f"{who} {1e3 * taken:.0f} ms ({100 * figure['share'][who]:.0f} %)"
            for who, taken in figure["seconds"].items()
        )
        print(f"{name}: {row}{'  WRONG ' + str(figure['wrong']) if figure['wrong'] else ''}")
    write("trees", figures)
    return int(any(figure["wrong"] for figure in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
