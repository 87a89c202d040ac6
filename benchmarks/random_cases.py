"""Random contractions of two operands, any axes in any order, beside NumPy, PyTorch and TBLIS.

    python benchmarks/random_cases.py [--dtype float32] [--kind products] [--count 250] [--seed 5]

One thread. Axes of rows, columns, sums and batches, as many of each as the kind says, extents of 2
to 700, in a drawn order in every tensor; 1e5 to 3e8 operations. Medians of seven interleaved
rounds. NumPy's and PyTorch's einsum give a C-contiguous result as ours does: a view of a product in
another order is no result in the order that was asked for. TBLIS takes part where it is installed.
Writes results/random-DTYPE.json for products, results/random-KIND-DTYPE.json for other kinds: how
many times as fast as the fastest peer, in geometric mean, and what share of the cases is slower
than 0.9 of it, and those.

    products     rows, columns, sums and batches
    batches      small products, one or two axes of batches
    outer        no sums: every element of the result is one product
    dots         no rows and no columns: batches of dot products
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", TBLIS_NUM_THREADS="1")

import numpy as np
import torch
from record import write

import teir

try:
    import pytblis
except ImportError:
    pytblis = None

_ROUNDS = 7
_ROUND_SECONDS = 4e-3
_HOPELESS = 12
"""Times ours; a peer that takes longer in one call is not timed."""
_MOST_BYTES = 64e6
_OPERATIONS = (1e5, 3e8)
_SLOW = 0.9
_KINDS = {
    "products": ((1, 1, 2, 3), (0, 1, 1, 1, 2, 3), (0, 1, 1, 1, 2, 2), (0, 0, 0, 1, 2)),
    "batches": ((0, 1, 1, 2), (0, 1, 1, 2), (1, 1, 2), (1, 1, 2)),
    "outer": ((0, 1, 2), (0, 1, 2), (0,), (1, 2, 3)),
    "dots": ((0,), (0,), (1, 2), (1, 2, 3)),
}
"""Axes of rows, columns, sums and batches; what stands there more often is drawn more often."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """An expression of two operands and the extents of its indices."""

    expression: str
    extents: dict[str, int]

    def shapes(self) -> list[list[int]]:
        """Of the operands, then of the result."""
        terms = self.expression.replace("->", ",").split(",")
        return [[self.extents[index] for index in term] for term in terms]


@dataclass(frozen=True, slots=True)
class Figure:
    """Seconds by who; ``times``: the fastest peer's over ours."""

    expression: str
    extents: dict[str, int]
    seconds: dict[str, float]
    times: float


def draw_case(draw: random.Random, width: int, kind: str) -> Case:
    """A contraction of elements of this many bytes within the limits of the benchmark."""
    while True:
        names = iter("abcdefghijklmnop")

        def indices(count: int, names: Any = names) -> list[str]:
            return [next(names) for _ in range(count)]

        rows, columns, sums, batch = (indices(draw.choice(counts)) for counts in _KINDS[kind])
        every = (*rows, *columns, *sums, *batch)
        ranges = ((2, 8), (2, 40), (8, 120), (16, 700))
        extents = {index: draw.randint(*draw.choice(ranges)) for index in every}
        terms = [rows + sums + batch, columns + sums + batch, rows + columns + batch]
        sizes = [prod(extents[index] for index in term) for term in terms]
        operations = 2 * prod(extents.values())
        if not columns + sums + batch or not _OPERATIONS[0] < operations < _OPERATIONS[1]:
            continue
        if sum(sizes) * width > _MOST_BYTES:
            continue
        first, second, out = ("".join(draw.sample(term, len(term))) for term in terms)
        return Case(f"{first},{second}->{out}", extents)


def measure(case: Case, dtype: np.dtype[Any]) -> Figure:
    """Raises AssertionError where results differ."""
    noise = np.random.default_rng(1)
    *shapes, out_shape = case.shapes()
    operands = [noise.standard_normal(shape).astype(dtype) for shape in shapes]
    tensors = [torch.from_numpy(one) for one in operands]
    out, numpy_out = np.empty(out_shape, dtype), np.empty(out_shape, dtype)
    plan = teir.plan(case.expression, *operands, threads=1)
    path = np.einsum_path(case.expression, *operands, optimize="optimal")[0]
    calls: dict[str, Callable[[], Any]] = {
        "teir": lambda: plan(*operands, out=out),
        "NumPy": lambda: np.einsum(case.expression, *operands, optimize=path, out=numpy_out),
        "torch": lambda: torch.einsum(case.expression, *tensors).contiguous(),
    }
    if pytblis is not None:
        tblis_out = np.empty(out_shape, dtype)
        calls["TBLIS"] = lambda: pytblis.einsum(case.expression, *operands, out=tblis_out)
    calls["teir"]()
    expected = calls["torch"]().numpy()
    bound = 1e-4 if dtype == np.float32 else 1e-10
    assert np.abs(out - expected).max() <= bound * max(1.0, np.abs(expected).max()), case
    ours = min(_seconds(calls["teir"], 1) for _ in range(3))
    calls["NumPy"]()
    timed = {
        who: call
        for who, call in calls.items()
        if who == "teir" or _seconds(call, 1) < _HOPELESS * ours
    }
    count = max(1, int(_ROUND_SECONDS / ours))
    rounds: dict[str, list[float]] = {who: [] for who in timed}
    for _ in range(_ROUNDS):
        for who, call in timed.items():
            call()
            rounds[who].append(_seconds(call, count if who == "teir" else max(1, count // 2)))
    seconds = {who: statistics.median(taken) for who, taken in rounds.items()}
    best = min((one for who, one in seconds.items() if who != "teir"), default=_HOPELESS * ours)
    return Figure(case.expression, case.extents, seconds, best / seconds["teir"])


def _seconds(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--kind", choices=tuple(_KINDS), default="products")
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--worst", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    draw, dtype = random.Random(arguments.seed), np.dtype(arguments.dtype)
    cases = [draw_case(draw, dtype.itemsize, arguments.kind) for _ in range(arguments.count)]
    figures = sorted((measure(case, dtype) for case in cases), key=lambda one: one.times)
    mean = statistics.geometric_mean([one.times for one in figures])
    slow = [one for one in figures if one.times < _SLOW]
    share = len(slow) / len(figures)
    print(f"{len(figures)} cases: {mean:.2f} times the fastest peer; {100 * share:.1f} % below 0.9")
    for one in figures[: arguments.worst]:
        taken = ", ".join(f"{who} {1e6 * s:.1f} us" for who, s in one.seconds.items())
        print(f"{one.times:5.2f}  {one.expression}  {one.extents}  {taken}")
    summary = {
        "seed": arguments.seed,
        "cases": len(figures),
        "times": mean,
        "share_slow": share,
        "slow": [asdict(one) for one in slow],
    }
    prefix = "" if arguments.kind == "products" else f"{arguments.kind}-"
    print(f"written: {write(f'random-{prefix}{arguments.dtype}', summary)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
