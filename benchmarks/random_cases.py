"""Random contractions, permutations and sums, axes in any order, beside NumPy, PyTorch and TBLIS.

    python benchmarks/random_cases.py [--dtype float32] [--kind products] [--count 250] [--seed 5]
        [--threads=1] [--every 1]

Of float32, float64, complex64, complex128, and of bfloat16 and float16, which are tensors of
PyTorch, with PyTorch alone beside us.

As many threads for everybody, with an equals sign, as libraries are told while they load; several
rest before each is timed, since threads of one library spin for a while after its calls. With
``--every 2`` operands are views, every second element of their last axes. Axes of rows, columns,
sums and batches, as many of each as the kind says, extents of 2 to 700, in a drawn order in every
tensor; 1e5 to 3e8 operations. Medians of seven interleaved rounds. NumPy's and PyTorch's einsum
give a C-contiguous result as ours does: a view of a product in another order is no result in the
order that was asked for. TBLIS takes part where it is installed. Writes results/random-DTYPE.json
for products, results/random-KIND-DTYPE.json for other kinds, with random-N-threads or
random-every-N in front for several threads and for views: how many times as fast as the fastest
peer, in geometric mean, and what share of the cases is slower than 0.9 of it, and those.

    products     rows, columns, sums and batches
    axes         the same of up to eleven axes of 2 to 16 a tensor, as tensor networks have them
    batches      small products, one or two axes of batches
    outer        no sums: every element of the result is one product
    dots         no rows and no columns: batches of dot products
    vectors      no columns: products of matrices and vectors
    permutations one operand, two to five axes in another order, 10 KB to 64 MB; no TBLIS, and NumPy
                 and PyTorch copy into the result
    sums         one operand of such sizes, one to three of its axes summed, the others in any
                 order; no TBLIS, and NumPy takes part with its sum and its einsum
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

os.environ.update(
    dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TBLIS_NUM_THREADS"),
        next((word[10:] for word in sys.argv if word.startswith("--threads=")), "1"),
    )
)

import numpy as np
import torch
from record import write

import teir

try:
    import pytblis
except ImportError:
    pytblis = None

_THREADS = int(os.environ["OMP_NUM_THREADS"])
_ROUNDS = 7
_ROUND_SECONDS = 4e-3
_HOPELESS = 12
"""Times ours; a peer that takes longer in one call is not timed."""
_REST_SECONDS = 0.03
_MOST_BYTES = 64e6
_OPERATIONS = (1e5, 3e8)
_SLOW = 0.9
_AXES = "axes"
_KINDS = {
    "products": ((1, 1, 2, 3), (0, 1, 1, 1, 2, 3), (0, 1, 1, 1, 2, 2), (0, 0, 0, 1, 2)),
    "batches": ((0, 1, 1, 2), (0, 1, 1, 2), (1, 1, 2), (1, 1, 2)),
    "outer": ((0, 1, 2), (0, 1, 2), (0,), (1, 2, 3)),
    "dots": ((0,), (0,), (1, 2), (1, 2, 3)),
    "vectors": ((1, 2, 3), (0,), (1, 2), (0, 0, 1)),
    _AXES: ((2, 3, 4), (1, 2, 3, 4), (1, 2, 3), (0, 0, 0, 1)),
}
"""Axes of rows, columns, sums and batches; what stands there more often is drawn more often."""
_PERMUTATIONS, _SUMS = "permutations", "sums"
_OF_ONE_OPERAND = (_PERMUTATIONS, _SUMS)
_RANGES = ((2, 8), (2, 40), (8, 120), (16, 700))
_SMALL_RANGES = ((2, 4), (2, 4), (2, 8), (2, 16))
"""Extents, of the kind of many small axes."""
_FEWEST_BYTES = 1e4

_HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
_BOUNDS = {"float32": 1e-4, "complex64": 1e-4, "float64": 1e-10, "complex128": 1e-10}
"""The largest difference of two results, of the largest element."""
_BOUND_OF_HALVES = 2e-2
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """An expression of one operand or two and the extents of its indices."""

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
    if kind in _OF_ONE_OPERAND:
        return draw_of_one_operand(draw, width, kind)
    ranges = _SMALL_RANGES if kind == _AXES else _RANGES
    while True:
        names = iter("abcdefghijklmnop")

        def indices(count: int, names: Any = names) -> list[str]:
            return [next(names) for _ in range(count)]

        rows, columns, sums, batch = (indices(draw.choice(counts)) for counts in _KINDS[kind])
        every = (*rows, *columns, *sums, *batch)
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


def draw_of_one_operand(draw: random.Random, width: int, kind: str) -> Case:
    """Axes of one tensor in two drawn orders, which differ where none is summed."""
    while True:
        indices = "abcde"[: draw.randint(2, 5)]
        extents = {index: draw.randint(*draw.choice(_RANGES)) for index in indices}
        first, out = ("".join(draw.sample(indices, len(indices))) for _ in range(2))
        if kind == _SUMS:
            out = out[draw.randint(1, min(3, len(out) - 1)) :]
        if first != out and _FEWEST_BYTES < prod(extents.values()) * width < _MOST_BYTES:
            return Case(f"{first}->{out}", extents)


def width_of(dtype: str) -> int:
    """Bytes of an element."""
    return _HALVES[dtype].itemsize if dtype in _HALVES else np.dtype(dtype).itemsize


def operand_of(
    noise: np.random.Generator, shape: list[int], dtype: np.dtype[Any], every: int
) -> Array:
    """Contiguous, or every so many-th element along the last axis."""
    whole = noise.standard_normal([*shape[:-1], shape[-1] * every])
    if dtype.kind == "c":
        whole = whole + 1j * noise.standard_normal(whole.shape)
    return whole.astype(dtype)[..., ::every]


def calls_of_halves(case: Case, dtype: torch.dtype, every: int) -> dict[str, Callable[[], Any]]:
    """The same of tensors of PyTorch."""
    noise = np.random.default_rng(1)
    *shapes, out_shape = case.shapes()
    single = np.dtype(np.float32)
    drawn = [torch.from_numpy(operand_of(noise, shape, single, 1)) for shape in shapes]
    operands = [one.repeat_interleave(every, -1).to(dtype)[..., ::every] for one in drawn]
    out, torch_out = torch.empty(out_shape, dtype=dtype), torch.empty(out_shape, dtype=dtype)
    plan = teir.plan(case.expression, *operands, threads=_THREADS)
    ours: dict[str, Callable[[], Any]] = {"teir": lambda: plan(*operands, out=out)}
    if len(operands) == 2:
        return ours | {"torch": lambda: torch.einsum(case.expression, *operands).contiguous()}
    first, _, last = case.expression.partition("->")
    summed = [place for place, index in enumerate(first) if index not in last]
    kept = [first.index(index) for index in last]
    view = operands[0].permute([*kept, *summed])
    if summed:
        return ours | {"torch": lambda: view.sum(tuple(range(len(kept), view.ndim))).contiguous()}
    return ours | {"torch": lambda: torch_out.copy_(view)}


def calls_of(case: Case, dtype: np.dtype[Any], every: int) -> dict[str, Callable[[], Any]]:
    """Who does it, and how; every call gives its result."""
    noise = np.random.default_rng(1)
    *shapes, out_shape = case.shapes()
    operands = [operand_of(noise, shape, dtype, every) for shape in shapes]
    out, numpy_out = np.empty(out_shape, dtype), np.empty(out_shape, dtype)
    plan = teir.plan(case.expression, *operands, threads=_THREADS)
    ours: dict[str, Callable[[], Any]] = {"teir": lambda: plan(*operands, out=out)}
    if len(operands) == 1:
        peers = copies_of if operands[0].size == out.size else sums_of
        return ours | peers(case.expression, operands[0], numpy_out)
    tensors = [torch.from_numpy(one) for one in operands]
    path = np.einsum_path(case.expression, *operands, optimize="optimal")[0]
    calls = ours | {
        "NumPy": lambda: np.einsum(case.expression, *operands, optimize=path, out=numpy_out),
        "torch": lambda: torch.einsum(case.expression, *tensors).contiguous(),
    }
    if pytblis is not None:
        tblis_out = np.empty(out_shape, dtype)
        calls["TBLIS"] = lambda: pytblis.einsum(case.expression, *operands, out=tblis_out)
    return calls


def copies_of(expression: str, operand: Array, numpy_out: Array) -> dict[str, Callable[[], Any]]:
    """NumPy's copy of a permuted view, and PyTorch's."""
    first, _, last = expression.partition("->")
    view = operand.transpose([first.index(index) for index in last])
    tensor, torch_out = torch.from_numpy(view), torch.from_numpy(np.empty_like(numpy_out))

    def copied() -> Array:
        np.copyto(numpy_out, view)
        return numpy_out

    return {"NumPy": copied, "torch": lambda: torch_out.copy_(tensor)}


def sums_of(expression: str, operand: Array, numpy_out: Array) -> dict[str, Callable[[], Any]]:
    """NumPy's sum over the last axes of a permuted view and its einsum, and PyTorch's sum."""
    first, _, last = expression.partition("->")
    summed = [index for index in first if index not in last]
    view = operand.transpose([first.index(index) for index in (*last, *summed)])
    axes, tensor = tuple(range(-len(summed), 0)), torch.from_numpy(view)
    return {
        "NumPy": lambda: np.sum(view, axis=axes, out=numpy_out),
        "NumPy einsum": lambda: np.einsum(expression, operand, out=numpy_out),
        "torch": lambda: tensor.sum(axes).contiguous(),
    }


def values_of(result: Any) -> Array:
    """Of a half type in single precision, which NumPy has."""
    is_half = isinstance(result, torch.Tensor) and result.dtype in _HALVES.values()
    return np.asarray(result.float() if is_half else result)


def measure(case: Case, dtype: str, every: int) -> Figure:
    """Raises AssertionError where results differ."""
    if dtype in _HALVES:
        calls = calls_of_halves(case, _HALVES[dtype], every)
    else:
        calls = calls_of(case, np.dtype(dtype), every)
    expected = values_of(calls["torch"]())
    bound = _BOUNDS.get(dtype, _BOUND_OF_HALVES) * max(1.0, np.abs(expected).max())
    for who, call in calls.items():
        assert np.abs(values_of(call()) - expected).max() <= bound, (who, case)
    ours = min(_seconds(calls["teir"], 1) for _ in range(3))
    timed = {
        who: call
        for who, call in calls.items()
        if who == "teir" or _seconds(call, 1) < _HOPELESS * ours
    }
    count = max(1, int(_ROUND_SECONDS / ours))
    rounds: dict[str, list[float]] = {who: [] for who in timed}
    for _ in range(_ROUNDS):
        for who, call in timed.items():
            if _THREADS > 1:
                time.sleep(_REST_SECONDS)
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
    parser.add_argument("--dtype", choices=(*_BOUNDS, *_HALVES), default="float32")
    parser.add_argument("--kind", choices=(*_KINDS, *_OF_ONE_OPERAND), default="products")
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--worst", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.threads != _THREADS:
        parser.error(f"write --threads={arguments.threads}, with an equals sign")
    torch.set_num_threads(_THREADS)
    draw, dtype = random.Random(arguments.seed), arguments.dtype
    cases = [draw_case(draw, width_of(dtype), arguments.kind) for _ in range(arguments.count)]
    every = arguments.every
    figures = sorted((measure(case, dtype, every) for case in cases), key=lambda one: one.times)
    found = summary(figures, arguments.seed)
    times, share = found["times"], 100 * found["share_slow"]
    print(f"{len(figures)} cases: {times:.2f} times the fastest peer; {share:.1f} % below 0.9")
    show(figures[: arguments.worst])
    prefix = "" if _THREADS == 1 else f"{_THREADS}-threads-"
    prefix += "" if every == 1 else f"every-{every}-"
    prefix += "" if arguments.kind == "products" else f"{arguments.kind}-"
    print(f"written: {write(f'random-{prefix}{dtype}', found)}")
    return 0


def show(worst: list[Figure]) -> None:
    """What the slowest cases beside the peers took."""
    for one in worst:
        taken = ", ".join(f"{who} {1e6 * s:.1f} us" for who, s in one.seconds.items())
        print(f"{one.times:5.2f}  {one.expression}  {one.extents}  {taken}")


def summary(figures: list[Figure], seed: int) -> dict[str, Any]:
    slow = [one for one in figures if one.times < _SLOW]
    return {
        "seed": seed,
        "cases": len(figures),
        "times": statistics.geometric_mean([one.times for one in figures]),
        "share_slow": len(slow) / len(figures),
        "slow": [asdict(one) for one in slow],
    }


if __name__ == "__main__":
    sys.exit(main())
