"""memory_limit of products with sparse operands: kept, or refused with a limit that would do."""

from __future__ import annotations

import gc
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import teir
from pipeline.tuning_folder import own_folder
from teir.errors import TeirError

SLACK_BYTES = 300_000
"""What plans themselves take."""

draw = np.random.default_rng(11)
N = 900
CSR = scipy.sparse.random_array((N, N), density=0.03, format="csr", rng=draw)
OTHER = scipy.sparse.random_array((N, N), density=0.01, format="csr", rng=draw)
TENSOR = teir.Sparse.from_coo(draw.integers(0, 60, (3, 40_000)), draw.random(40_000), (60, 60, 60))
DENSE = draw.standard_normal((N, 120))
SQUARE = draw.standard_normal((120, 100))


def smallest(call: Callable[[int], Any]) -> tuple[int, int]:
    """The limit that refusals lead to, and how many there were."""
    limit, refusals = 0, 0
    while True:
        try:
            call(limit)
        except TeirError as error:
            named = re.search(r"at least ([\d,]+) bytes", str(error))
            assert named is not None
            asked = int(named[1].replace(",", ""))
            assert asked > limit
            limit, refusals = asked, refusals + 1
        else:
            return limit, refusals


def peak_bytes(call: Callable[[], Any]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


CASES = [
    ("ij,jk->ik", (CSR, DENSE), None),
    ("ij,jk->ik", (CSR.tocoo(), DENSE), None),
    ("ij,jk->ik", (CSR, DENSE.astype(np.float32)), None),
    ("ij,jk,kl->il", (CSR.tocsc(), DENSE, SQUARE), None),
    ("ij,jk->ik", (CSR, OTHER), "ds"),
    ("ij,jk->ik", (CSR, OTHER.tocsc()), "ss"),
    ("ij,ij->ij", (CSR, OTHER.tolil()), "ds"),
    ("ij,ik,jk->ij", (CSR, DENSE, DENSE), "ds"),
    ("ij,jk,kl->il", (OTHER, OTHER, OTHER), "ds"),
    ("A[i,j] = B[i,j] + C[i,j] - 0.5 * D[i,j]", (CSR, OTHER, CSR), None),
    ("A[i,j] = 2.5 * B[i,j]", (CSR,), "ds"),
    ("ijk,ijk->ijk", (TENSOR, TENSOR), "sss"),
    ("ijk,kl->ijl", (TENSOR, SQUARE[:60]), "dsd"),
    ("ijk,ljk->il", (TENSOR, TENSOR), "ds"),
    ("ij->ji", (CSR.tobsr((3, 3)),), "ds"),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("expression", "operands", "levels"), CASES)
def test_no_more_is_allocated(
    expression: str, operands: tuple[Any, ...], levels: str | None, threads: int
) -> None:
    def call(limit: int | None) -> Any:
        fresh = [one.copy() if hasattr(one, "copy") else one for one in operands]
        return teir.einsum(
            expression, *fresh, out_levels=levels, threads=threads, memory_limit=limit
        )

    want = call(None)
    limit, refusals = smallest(call)
    assert 1 <= refusals <= 5
    fresh = [one.copy() if hasattr(one, "copy") else one for one in operands]
    found: list[Any] = []

    def bounded() -> None:
        found.append(
            teir.einsum(expression, *fresh, out_levels=levels, threads=threads, memory_limit=limit)
        )

    assert peak_bytes(bounded) <= limit + SLACK_BYTES
    dense = [one.to_dense() if isinstance(one, teir.Sparse) else one for one in (*found, want)]
    np.testing.assert_allclose(dense[0], dense[1], rtol=1e-4)
    with pytest.raises(TeirError, match="TEIR643"):
        call(limit - 1)


def test_what_is_refused_was_not_made() -> None:
    big = scipy.sparse.random_array((4000, 4000), density=0.02, format="coo", rng=draw)
    vector = np.ones(4000)

    def call() -> None:
        with pytest.raises(TeirError, match="a copy of an operand"):
            teir.einsum("ij,j->i", big, vector, memory_limit=100_000)

    assert peak_bytes(call) < big.data.nbytes


def test_a_schedule_that_fits_is_chosen() -> None:
    """The default has a temporary of rows; with room for the result alone there is none."""
    operands = CSR, DENSE, SQUARE
    default = teir.plan("ij,jk,kl->il", *operands)
    assert default.outlines[0].scheduled.scratch_bytes > 0
    limit, refusals = smallest(lambda one: teir.plan("ij,jk,kl->il", *operands, memory_limit=one))
    assert (limit, refusals) == (N * 100 * 8, 1)
    plan = teir.plan("ij,jk,kl->il", *operands, memory_limit=limit)
    assert plan.outlines[0].scheduled.scratch_bytes == 0
    assert f"memory limit: {limit:,} bytes" in plan.explain()
    np.testing.assert_allclose(plan(*operands), CSR @ DENSE @ SQUARE)
    wide = default.outlines[0].scheduled.scratch_bytes + limit
    same = teir.plan("ij,jk,kl->il", *operands, memory_limit=wide)
    assert same.outlines[0].scheduled.graph == default.outlines[0].scheduled.graph


def test_the_callers_result_is_not_counted() -> None:
    out = np.empty((N, 120))
    assert teir.einsum("ij,jk->ik", CSR, DENSE, out=out, memory_limit=0) is out
    np.testing.assert_allclose(out, CSR @ DENSE)
    with pytest.raises(TeirError, match=f"at least {out.nbytes:,} bytes"):
        teir.einsum("ij,jk->ik", CSR, DENSE, memory_limit=out.nbytes - 1)
    plan = teir.plan("ij,jk->ik", CSR, DENSE, memory_limit=out.nbytes)
    denser = scipy.sparse.random_array((N, N), density=0.2, format="csr", rng=draw)
    np.testing.assert_allclose(plan(denser, DENSE), denser @ DENSE)
    with pytest.raises(TeirError, match="TEIR643"):
        teir.plan("ij,jk->ik", CSR, OTHER, out_levels="ds", memory_limit=1000)


def test_a_plan_looks_at_the_limit_at_every_call() -> None:
    limit, _ = smallest(
        lambda one: teir.plan("ij,jk->ik", OTHER, OTHER, out_levels="ds", memory_limit=one)
    )
    plan = teir.plan("ij,jk->ik", OTHER, OTHER, out_levels="ds", memory_limit=limit)
    for _ in range(3):
        assert plan(OTHER, OTHER).nnz
    with pytest.raises(TeirError, match="TEIR643"):
        plan(CSR, CSR)


def test_triangles_are_counted_without_a_dense_row() -> None:
    limit, _ = smallest(lambda one: teir.einsum("ij,jk,ik->", CSR, CSR, CSR, memory_limit=one))
    found = teir.einsum("ij,jk,ik->", CSR, CSR, CSR, memory_limit=limit)
    np.testing.assert_allclose(found, ((CSR @ CSR) * CSR).sum())


def test_tuning_measures_what_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = N * 100 * 8
    with own_folder(tmp_path, monkeypatch):
        plan = teir.plan("ij,jk,kl->il", CSR, DENSE, SQUARE, memory_limit=limit, tune=True)
    assert plan.outlines[0].scheduled.scratch_bytes == 0
