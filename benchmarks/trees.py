"""Einsum trees beside NumPy and opt_einsum with PyTorch, one thread, single precision.

    python benchmarks/trees.py [rounds]

The trees of `docs/trees.md`. All libraries follow the same tree: NumPy and opt_einsum get it as a
path, in the convention of both. Rounds are interleaved; every round measures the multiply-add peak
too, and shares are medians of the rounds. ``as written`` is this package with every layout as the
tree wrote it. Results are compared with NumPy's on whole numbers. Writes ``results/trees.json``;
exits 1 where a result is wrong.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import opt_einsum
import torch
from record import write

import teir
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.peak import measure_fma_peak
from teir.dtypes import DataType
from teir.expr.tree_parsing import parse_nested

TREES = {
    "first": (
        "[[8,4],[7,3,8]->[7,3,4]],[[[2,6,7],[1,5,6]->[1,2,5,7]],[0,5]->[0,1,2,7]]->[0,1,2,3,4]",
        (100, 72, 128, 128, 3, 71, 305, 32, 3),
    ),
    "second": (
        "[[[[3,6,8,9]->[8,6,9,3]],[[2,5,7,9]->[7,5,2,9]]->[7,8,5,6,2,3]],[0,4,5,6]"
        "->[0,4,7,8,2,3]],[1,4,7,8]->[0,1,2,3]",
        (60, 60, 20, 20, 8, 8, 8, 8, 8, 8),
    ),
    "first, optimised": (
        "[[7,3,8],[8,4]->[7,3,4]],[[0,5],[[5,1,6],[6,2,7]->[5,1,2,7]]->[0,1,2,7]]->[0,1,2,3,4]",
        (100, 72, 128, 128, 3, 71, 305, 32, 3),
    ),
    "second, optimised": (
        "[1,4,7,8],[[0,4,5,6],[[2,5,7,9],[3,6,8,9]->[2,5,7,3,6,8]]->[0,4,2,7,3,8]]->[0,1,2,3]",
        (60, 60, 20, 20, 8, 8, 8, 8, 8, 8),
    ),
    "third": (
        "[[2,7,3],[3,8,4]->[2,7,8,4]],[[4,9,0],[[0,5,1],[1,6,2]->[0,5,6,2]]->[4,9,5,6,2]]"
        "->[5,6,7,8,9]",
        (40, 40, 40, 40, 40, 25, 25, 25, 25, 25),
    ),
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
