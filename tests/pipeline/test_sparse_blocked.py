"""Results with blocks, asked for in two indices on operands with blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import teir
from teir.errors import TeirError
from teir.pipeline import sparse_einsum, sparse_plan

draw = np.random.default_rng(2)


def blocked(rows: int, columns: int, height: int, width: int) -> Any:
    """A BSR matrix of so many blocks."""
    pattern = scipy.sparse.random_array((rows, columns), density=0.2, format="csr", rng=draw)
    data = draw.standard_normal((pattern.nnz, height, width))
    shape = (rows * height, columns * width)
    return scipy.sparse.bsr_array((data, pattern.indices, pattern.indptr), shape=shape)


G, H = blocked(20, 24, 2, 3), blocked(24, 18, 3, 4)
S, T = blocked(20, 20, 3, 3), blocked(20, 20, 3, 3)
C, D = draw.standard_normal((60, 7)), draw.standard_normal((60, 7))

CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("ij,jk->ik", (G, H), G @ H),
    ("A[i,k] = B[i,j] * C[j,k] - 0.5 * B[i,k]", (S, T), S @ T - 0.5 * S),
    ("A[i,j] = B[i,j] + C[i,j]", (S, T), S + T),
    ("A[i,l] = B[i,j] * C[j,k] * B[k,l]", (S, T), S @ T @ S),
    ("ij,ik,jk->ij", (S, C, D), S.toarray() * (C @ D.T)),
    ("ij->ji", (G,), G.T),
    ("ij,jk->ik", (teir.Sparse.from_scipy(G), H), G @ H),
    ("ij,j->i", (S, C[:, 0].copy()), S @ C[:, 0]),
]


@pytest.mark.parametrize(("expression", "operands", "wanted"), CASES)
def test_as_without_blocks(expression: str, operands: tuple[Any, ...], wanted: Any) -> None:
    dense = wanted if isinstance(wanted, np.ndarray) else wanted.toarray()
    levels = "dsdd" if dense.ndim == 2 else "sd"
    plan = teir.plan(expression, *operands, out_levels=levels)
    assert plan.shape == dense.shape
    found = [teir.einsum(expression, *operands, out_levels=levels) for _ in range(2)]
    for one in (*found, plan(*operands), plan(*operands)):
        assert str(one.format) == levels
        assert one.blocks is not None
        assert one.shape == dense.shape
        np.testing.assert_allclose(one.to_dense(), dense, atol=1e-12)


def test_the_same_as_by_hand() -> None:
    found = teir.einsum("ij,jk->ik", G, H, out_levels="dsdd")
    apart = [teir.Sparse.from_scipy(one).split_blocks() for one in (G, H)]
    hand = teir.einsum("ijab,jkbc->ikac", *apart, out_levels="dsdd").join_blocks()
    assert found.blocks == hand.blocks == (2, 4)
    assert np.array_equal(found.values, hand.values)
    assert found.to_scipy().format == "bsr"


def test_repeated_calls_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = teir.plan("ij,jk->ik", G, H, out_levels="dsdd")
    wanted = [plan(G, H), teir.einsum("ij,jk->ik", G, H, out_levels="dsdd")]
    monkeypatch.setattr(sparse_plan, "hold_all", None)
    monkeypatch.setattr(sparse_einsum, "hold_all", None)
    again = [plan(G, H), teir.einsum("ij,jk->ik", G, H, out_levels="dsdd")]
    for one, other in zip(again, wanted, strict=True):
        assert one.blocks == (2, 4)
        assert np.array_equal(one.values, other.values)


def test_the_plan_tells_both_forms() -> None:
    told = teir.plan("ij,jk->ik", G, H, out_levels="dsdd").explain(measure=True)
    assert "of ij,jk->ik, whose result has blocks" in told
    assert "out[i,k,i_in,k_in] = in0[i,j,i_in,j_in] * in1[j,k,j_in,k_in]" in told
    assert "measured" in told


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda: blocks_of(S, C, "dsdd"), "TEIR685", "blocks along k"),
        (lambda: blocks_of(S, T.tocsr(), "dsdd"), "TEIR685", "pass a BSR array"),
        (lambda: blocks_of(S, blocked(30, 30, 2, 2), "dsdd"), "TEIR685", "blocks of 3 along j"),
        (lambda: blocks_of(G, S, "dsdd"), "TEIR608", "'j'"),
        (lambda: blocks_of(S, T, "dsds"), "TEIR685", "innermost"),
        (lambda: blocks_of(S, T, "dsdd:0,2,1,3"), "TEIR685", "innermost"),
        (lambda: blocks_of(S, T, "dsd"), "TEIR685", "2 levels"),
    ],
)
def test_refusals(call: Callable[[], Any], code: str, words: str) -> None:
    with pytest.raises(TeirError, match=words) as caught:
        call()
    assert caught.value.findings[0].code == code


def blocks_of(left: Any, right: Any, levels: str) -> Any:
    return teir.einsum("ij,jk->ik", left, right, out_levels=levels)
