"""Roots of one thread shared along an axis of all their leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from passes.sample_programs import assert_keeps_meaning, drawn_programs
from teir.ir.check import check
from teir.ir.nodes import IterationNode, Policy, Program
from teir.ir.parsing import parse_program
from teir.passes import shared_roots
from teir.passes.shared_roots import with_shared_roots


def product(m: int, n: int, k: int) -> Program:
    return parse_program(
        f"""teir 1 "product"
tensor A: FP64
tensor B: FP64
tensor C: FP64
axis m = {m}: A {8 * k}, C {8 * n}
axis n = {n}: B 8, C 8
axis k = {k}: A 8, B {8 * n}
primitive zero = Zero(C; M=[m, n], N=[])
primitive gemm = Contraction FP64 (A, B -> C; M=[m], N=[n], K=[k])
clear: zero
gemm: gemm
"""
    )


def shared(program: Program) -> list[int]:
    """The extents of parallel roots."""
    extents = program.axis_table()
    return [
        extents[root.axis].extent
        for root in program.roots
        if isinstance(root, IterationNode) and root.policy is Policy.PARALLEL
    ]


def test_one_thread_and_little_work_change_nothing() -> None:
    program = product(100, 64, 64)
    assert with_shared_roots(program, 1) is program
    small = product(10, 10, 10)
    assert with_shared_roots(small, 2) is small


@pytest.mark.parametrize("rows", [128, 100, 67])
def test_leaves_are_cut_along_the_farthest_axis(rows: int) -> None:
    program = product(rows, 24, 60)
    after = with_shared_roots(program, 2)
    (parts,) = shared(after)
    assert parts >= 2
    assert parts % 2 == 0
    assert check(after).ok
    assert with_shared_roots(after, 2) is after
    assert assert_keeps_meaning(lambda one: with_shared_roots(one, 2), product(rows, 24, 30), 5, 3)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_roots, "_FEWEST", 1)
    monkeypatch.setattr(shared_roots, "_GRANULE", 2)


@pytest.mark.usefixtures("small_parts")
def test_meaning_of_random_programs() -> None:
    assert drawn_programs(lambda one: with_shared_roots(one, 3), range(40), 150) > 5


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ijk,il,jm,kn->lmn", ((9, 16), (7, 16), (8, 16))),
        ("ijk,kl,lm->ijm", ((8, 64), (64, 40))),
        ("ijk,ij->k", ((9, 7),)),
    ],
)
@pytest.mark.usefixtures("small_parts")
def test_sparse_products_without_a_loop_to_share(text: str, shapes: Any) -> None:
    """The same bits as of one thread."""
    random = np.random.default_rng(4)
    array = random.standard_normal((9, 7, 8)) * (random.random((9, 7, 8)) < 0.4)
    sparse = teir.Sparse.from_coo(np.nonzero(array), array[np.nonzero(array)], array.shape)
    others = [random.standard_normal(shape) for shape in shapes]
    alone = teir.plan(text, sparse, *others, threads=1)
    both = teir.plan(text, sparse, *others, threads=2)
    np.testing.assert_array_equal(both(sparse, *others), alone(sparse, *others))
    np.testing.assert_allclose(alone(sparse, *others), np.einsum(text, array, *others))


@pytest.mark.usefixtures("small_parts")
def test_temporaries_of_loops_stay_private() -> None:
    random = np.random.default_rng(5)
    array = random.standard_normal((40, 7, 8)) * (random.random((40, 7, 8)) < 0.4)
    sparse = teir.Sparse.from_coo(np.nonzero(array), array[np.nonzero(array)], array.shape)
    others = [random.standard_normal(shape) for shape in ((40, 16), (7, 16), (8, 16))]
    plan = teir.plan("ijk,il,jm,kn->lmn", sparse, *others, threads=2)
    assert shared(plan.program) == [2]
    assert check(plan.program).ok
