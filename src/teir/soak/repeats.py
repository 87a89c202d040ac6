"""Figure 11: the same program on the same operands leaves the same bits, run after run.

Every item is one contraction with fractions as operands, run many times with one and with two
threads in both modes of ``deterministic``. All runs of one mode and thread count must agree; in
the mode "threads" those of both thread counts must agree too. Half-way the table is exchanged for
specialised code, which must not show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import teir
from teir.pipeline.determinism import Determinism

CASES = (
    ("ik,kj->ij", ((70, 130), (130, 90)), np.float32),
    ("ik,kj->ij", ((300, 700), (700, 40)), np.float32),
    ("ik,kj->ij", ((257, 129), (129, 65)), np.float64),
    ("k,k->", ((300_000,), (300_000,)), np.float32),
    ("ik,k->i", ((900, 700), (700,)), np.float64),
    ("ki,k->i", ((5000, 33), (5000,)), np.float32),
    ("bik,bkj->bij", ((700, 8, 9), (700, 9, 7)), np.float32),
    ("ikb,kjb->ijb", ((7, 9, 500), (9, 8, 500)), np.float64),
    ("abcd,bcde->ae", ((11, 13, 7, 30), (13, 7, 30, 21)), np.complex64),
    ("ij,jk,kl->il", ((80, 90), (90, 70), (70, 60)), np.float32),
    ("ijk->ki", ((90, 40, 50),), np.float64),
    ("trus,pqtu->pqrs", ((6, 7, 8, 9), (10, 11, 6, 8)), np.float16),
)
"""(expression, shapes, type): products, dots, sums, batches, a chain, a permutation."""

THREADS = (1, 2)


def repeat_one(item: int, runs: int) -> dict[str, Any]:
    """``runs`` runs of case ``item`` per mode and thread count; what differed."""
    expression, shapes, dtype = CASES[item]
    operands = _operands(shapes, np.dtype(dtype), item)
    wrong: list[str] = []
    for mode in Determinism:
        firsts = []
        for threads in THREADS:
            plan = teir.plan(expression, *operands, threads=threads, deterministic=mode.value)
            call: Callable[..., Any] = plan
            first = call(*operands).tobytes()
            for run in range(1, runs):
                if run == runs // 2:
                    call = _specialised(plan, operands)
                if call(*operands).tobytes() != first:
                    wrong.append(f"{expression}, {mode.value}, {threads} thread(s): run {run}")
                    break
            firsts.append(first)
        if mode is Determinism.THREADS and len(set(firsts)) != 1:
            wrong.append(f"{expression}: the bits depend on the threads")
    return {"wrong": wrong, "runs": runs * len(THREADS) * len(Determinism)}


def _operands(
    shapes: tuple[tuple[int, ...], ...], dtype: np.dtype[Any], seed: int
) -> list[np.ndarray[Any, Any]]:
    numbers = np.random.default_rng(seed)
    made = []
    for shape in shapes:
        values = numbers.uniform(-1, 1, shape)
        if dtype.kind == "c":
            values = values + 1j * numbers.uniform(-1, 1, shape)
        made.append(values.astype(dtype))
    return made


def _specialised(
    plan: teir.Plan, operands: list[np.ndarray[Any, Any]]
) -> Callable[..., np.ndarray[Any, Any]]:
    """As a call of the plan, by the same program as one function."""
    assert plan.executable is not None
    native = plan.executable.specialised()
    planned = plan.problem.out

    def call(*_: Any) -> np.ndarray[Any, Any]:
        out = np.empty(planned.shape, planned.dtype)
        native.run_addresses((*(one.ctypes.data for one in operands), out.ctypes.data))
        return out

    return call
