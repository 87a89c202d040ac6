"""What programs of sparse products are made for, whatever runs them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import teir
from teir.ir.nodes import Program
from teir.passes.facts import Facts
from teir.passes.walking_programs import with_walking_passes
from teir.pipeline import sparse_schedule
from teir.pipeline.determinism import FIXED_THREADS

SCALED = "A[i,m] = B[i,j,k] * D[k,m] * C[j,m]"


def test_programs_depend_on_threads_only_where_bits_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is known is not taken for one that asks for another determinism."""
    threads: list[int] = []

    def passes(program: Program, stored: Mapping[str, int], facts: Facts) -> Program:
        threads.append(facts.threads)
        return with_walking_passes(program, stored, facts)

    monkeypatch.setattr(sparse_schedule, "with_walking_passes", passes)
    draw = np.random.default_rng(5)
    dense = np.where(draw.random((11, 7, 13)) < 0.3, draw.integers(1, 9, (11, 7, 13)), 0.0)
    coords = np.nonzero(dense)
    b = teir.Sparse.from_coo(coords, dense[coords], dense.shape, levels="dss")
    d, c = (draw.integers(-9, 9, shape).astype(np.float64) for shape in ((13, 6), (7, 6)))
    expected = np.einsum("ijk,km,jm->im", dense, d, c)
    for mode, made_for in (("runs", 1), ("threads", FIXED_THREADS)):
        threads.clear()
        for _ in range(2):
            found = teir.einsum(SCALED, b, d, c, threads=1, deterministic=mode)
            np.testing.assert_array_equal(found, expected)
        assert threads == [made_for]
        plan = teir.plan(SCALED, b, d, c, threads=1, deterministic=mode)
        np.testing.assert_array_equal(plan(b, d, c), expected)
        assert set(threads) == {made_for}
