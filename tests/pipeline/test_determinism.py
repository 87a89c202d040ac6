"""The same bits for any number of threads, and within the memory limit."""

from __future__ import annotations

import numpy as np
import pytest

import teir
from teir.pipeline.determinism import Determinism

CASES = {
    "product": ("ik,kj->ij", (300, 500), (500, 310)),
    "dot": ("k,k->", (200_000,), (200_000,)),
    "matrix and vector": ("ik,k->i", (700, 900), (900,)),
    "batch": ("bik,bkj->bij", (900, 9, 11), (900, 11, 8)),
    "batch innermost": ("ikb,kjb->ijb", (9, 11, 300), (11, 8, 300)),
    "sum": ("ijk->j", (60, 70, 80)),
    "chain": ("ij,jk,kl->il", (200, 300), (300, 60), (60, 250)),
}


def operands(shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(len(shapes))
    return [generator.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_threads_gives_the_same_bits(name: str) -> None:
    expression, *shapes = CASES[name]
    arrays = operands(tuple(shapes))
    plans = [
        teir.plan(expression, *arrays, threads=threads, deterministic="threads")
        for threads in (1, 2, 3, 16)
    ]
    assert len({plan.program for plan in plans}) == 1
    first, *others = [plan(*arrays).tobytes() for plan in plans]
    assert all(other == first for other in others)
    once = teir.einsum(expression, *arrays, threads=2, deterministic=Determinism.THREADS)
    assert once.tobytes() == first


@pytest.mark.parametrize("share", [1, 4, 20])
def test_a_memory_limit_changes_no_bit_with_the_threads(share: int) -> None:
    expression, *shapes = CASES["chain"]
    arrays = operands(tuple(shapes))
    result = 200 * 250 * 4
    limit = result + teir.plan(expression, *arrays, threads=8).memory_bytes // share
    plans = [
        teir.plan(expression, *arrays, threads=threads, deterministic="threads", memory_limit=limit)
        for threads in (1, 2, 64)
    ]
    assert all(plan.memory_bytes + result <= limit for plan in plans)
    assert len({plan(*arrays).tobytes() for plan in plans}) == 1


LONG = pytest.param(10**6000, id="long")


@pytest.mark.parametrize("wrong", ["bits", None, True, 3, Determinism, np.ones(2), LONG])
def test_unknown_modes_are_refused(wrong: object) -> None:
    a = np.ones((2, 3))
    for function in (teir.einsum, teir.plan):
        for text in ("ij->ji", "A[j,i] = B[i,j]"):
            with pytest.raises(teir.TeirError, match="TEIR646"):
                function(text, a, deterministic=wrong)
    program = teir.plan("ij->ji", a).program
    with pytest.raises(teir.TeirError, match="TEIR646"):
        teir.compile(program, deterministic=wrong)


def test_index_notation_takes_a_mode_by_value() -> None:
    a = np.ones((2, 3))
    for mode in Determinism:
        found = teir.einsum("A[j,i] = B[i,j]", a, deterministic=mode)
        np.testing.assert_array_equal(found, a.T)


def test_a_program_gives_the_same_bits_on_any_number_of_threads() -> None:
    expression, *shapes = CASES["dot"]
    a, b = operands(tuple(shapes))
    program = teir.plan(expression, a, b, threads=4).program
    results = []
    for threads in (1, 2, 5):
        out = np.zeros((), np.float32)
        executable = teir.compile(program, threads=threads, deterministic="threads")
        executable.run({"in0": a, "in1": b, "out": out})
        results.append(out.tobytes())
    assert len(set(results)) == 1
