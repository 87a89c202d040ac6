"""Gates of quantum circuits and networks of many small tensors, beside NumPy and PyTorch.

    python benchmarks/circuits.py [--rounds 5]

Gates: one qubit of 14 and of 20 and pairs of them, from the first to the last, in the types that
states have; `teir.einsum` beside einsum of NumPy and of PyTorch, and the copy of the state by
`numpy.copyto`. Networks: regular graphs and the norm of matrix product states along a path of
opt_einsum, beside `opt_einsum.contract` on NumPy and on PyTorch; the path is found once for all.
One thread. Medians of interleaved rounds on checked results; results/circuits.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import numpy as np
import opt_einsum
import torch
from opt_einsum.testing import rand_equation
from record import write

import teir

_QUBITS = (14, 20)
_STATES = ("complex64", "complex128", "float32")
_ROUND_SECONDS = 4e-3
Array = np.ndarray[Any, Any]
Calls = dict[str, Callable[[], Any]]


def drawn(shape: Sequence[int], dtype: str) -> Array:
    """Numbers of unit variance over the axes that are summed, roughly: no overflow in networks."""
    draw = np.random.default_rng(sum(shape))
    values = draw.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * draw.standard_normal(shape)
    return (values / 2).astype(dtype)


def gates(qubits: int) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """An expression, and the shapes of the gate and of the state."""
    last = qubits - 1
    for place in sorted({0, 1, qubits // 2, *range(last - 5, last + 1)}):
        yield "ab,cbd->cad", (2, 2), (1 << place, 2, 1 << last - place)
    middle = qubits // 2
    pairs = {(0, 1), (0, middle), (middle, middle + 1), (2, last), (last - 2, last - 1)}
    pairs |= {(middle, last - gap) for gap in range(2, 6)}
    for one, two in sorted(pairs | {(last - 1, last), (last - 4, last - 2)}):
        state = (1 << one, 2, 1 << two - one - 1, 2, 1 << last - two)
        yield "abxy,cxdye->cadbe", (2, 2, 2, 2), state


def measured(calls: Calls, rounds: int) -> dict[str, float]:
    """Median seconds of every call; the order turns from round to round."""
    times: dict[str, list[float]] = {who: [] for who in calls}
    repeats = {}
    for who, call in calls.items():
        call(), call()
        start = time.perf_counter()
        call()
        repeats[who] = max(1, int(_ROUND_SECONDS / (time.perf_counter() - start)))
    order = list(calls)
    for _ in range(rounds):
        order = [*order[1:], order[0]]
        for who in order:
            start = time.perf_counter()
            for _ in range(repeats[who]):
                calls[who]()
            times[who].append((time.perf_counter() - start) / repeats[who])
    return {who: statistics.median(taken) for who, taken in times.items()}


def require_equal(calls: Calls, names: Sequence[str], what: str) -> None:
    first, *others = (np.asarray(calls[who]()) for who in names)
    scale = np.abs(first).max()
    if any(not np.allclose(first / scale, other / scale, atol=2e-4) for other in others):
        raise ValueError(f"results differ: {what}")


def gate_figures(dtype: str, qubits: int, rounds: int) -> dict[str, Any]:
    found = []
    for text, gate_shape, shape in gates(qubits):
        gate, state = drawn(gate_shape, dtype), drawn(shape, dtype)
        copy, tensors = np.empty_like(state), [torch.from_numpy(one) for one in (gate, state)]
        calls: Calls = {
            "teir": partial(teir.einsum, text, gate, state, threads=1),
            "NumPy": partial(np.einsum, text, gate, state, optimize=True),
            "torch": partial(torch.einsum, text, *tensors),
            "numpy.copyto": partial(np.copyto, copy, state),
        }
        require_equal(calls, ("teir", "NumPy", "torch"), f"{text} {shape}")
        seconds = measured(calls, rounds)
        peers = min(seconds["NumPy"], seconds["torch"])
        found.append({"shape": shape, "seconds": seconds, "times": peers / seconds["teir"]})
    times = [one["times"] for one in found]
    copies = [one["seconds"]["teir"] / one["seconds"]["numpy.copyto"] for one in found]
    return {
        "dtype": dtype,
        "qubits": qubits,
        "times": statistics.geometric_mean(times),
        "worst": min(times),
        "copies": statistics.geometric_mean(copies),
        "gates": found,
    }


def networks() -> Iterator[tuple[str, str, list[Array]]]:
    """A name, an expression and operands."""
    for tensors, extent, dtype in ((20, 4, "float32"), (40, 2, "complex64"), (60, 2, "complex64")):
        text, shapes = rand_equation(tensors, 3, n_out=2, d_min=extent, d_max=extent, seed=1)[:2]
        yield f"{tensors} tensors of extents {extent}", text, [drawn(s, dtype) for s in shapes]
    for sites, bond, dtype in ((20, 16, "complex128"), (20, 64, "float64"), (40, 32, "complex128")):
        yield f"norm of {sites} sites, bond {bond}", *norm(sites, bond, dtype)


def norm(sites: int, bond: int, dtype: str) -> tuple[str, list[Array]]:
    """The norm of a matrix product state: an expression and the tensors, twice."""
    symbol, terms, operands = opt_einsum.get_symbol, [], []
    for first in (0, 3 * sites):
        for site in range(sites):
            ends = 1 if site == 0 else bond, 1 if site == sites - 1 else bond
            names = first + site, 2 * sites + site, first + site + 1
            terms.append("".join(map(symbol, names)))
            operands.append(drawn((ends[0], 2, ends[1]), dtype) / np.sqrt(bond))
    return ",".join(terms) + "->", [one.astype(dtype) for one in operands]


def network_figures(rounds: int) -> list[dict[str, Any]]:
    found = []
    for name, text, operands in networks():
        path = opt_einsum.contract_path(text, *operands, optimize="greedy")[0]
        tensors = [torch.from_numpy(one) for one in operands]
        calls: Calls = {
            "teir": partial(teir.einsum, text, *operands, threads=1, optimize=path),
            "opt_einsum": partial(opt_einsum.contract, text, *operands, optimize=path),
            "opt_einsum torch": partial(opt_einsum.contract, text, *tensors, optimize=path),
        }
        require_equal(calls, tuple(calls), name)
        seconds = measured(calls, rounds)
        peers = min(seconds["opt_einsum"], seconds["opt_einsum torch"])
        found.append({"network": name, "seconds": seconds, "times": peers / seconds["teir"]})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    states = []
    for dtype in _STATES:
        for qubits in _QUBITS:
            one = gate_figures(dtype, qubits, arguments.rounds)
            states.append(one)
            print(
                f"gates on {qubits} qubits, {dtype}: {one['times']:.2f} times the fastest peer, "
                f"worst {one['worst']:.2f}; {one['copies']:.2f} copies of the state"
            )
    found = network_figures(arguments.rounds)
    for one in found:
        print(f"{one['network']}: {one['times']:.1f} times opt_einsum")
    print(f"written: {write('circuits', {'gates': states, 'networks': found})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
