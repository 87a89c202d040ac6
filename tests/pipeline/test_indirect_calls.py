"""Repeated calls that NumPy computes, or that copy operands first: the same results as any call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.pipeline import plan as plans
from teir.pipeline.planning import kept_plans

EXPRESSIONS = (
    "ij,jk->ik",
    "ij,j->i",
    "ij,kj->",
    "ij,ij->ij",
    "ij->ji",
    "ij->ij",
    "ij->i",
    "ij->",
    "ii->i",
    "ii->",
    "ii,i->i",
    "...j,jk->...k",
)
KINDS = (np.int64, np.int32, np.uint8, np.bool_, np.longdouble)


def _operands(expression: str, kind: Any) -> list[np.ndarray]:
    numbers = np.random.default_rng(len(expression))
    terms = expression.replace("...", "i").split("->")[0].split(",")
    return [numbers.integers(0, 5, (4,) * len(term)).astype(kind) for term in terms]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_numpys_results(expression: str, kind: Any) -> None:
    operands = _operands(expression, kind)
    expected = np.einsum(expression, *operands)
    for _ in range(4):
        result = teir.einsum(expression, *operands)
        assert type(result) is type(expected)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
        assert not any(np.shares_memory(result, one) for one in operands)
        if expected.ndim:
            assert result.flags.c_contiguous


@pytest.mark.parametrize("expression", ["i,i->", "ij,j->", "i->", "->", ",->", "i,i->i"])
def test_objects_are_results_at_every_call(expression: str) -> None:
    operands = [one.astype(object) * 2**70 for one in _operands(expression, np.int64)]
    expected = np.einsum(expression, *operands)
    plan = teir.plan(expression, *operands)
    results = [teir.einsum(expression, *operands) for _ in range(4)]
    for result in [*results, plan(*operands), plan(*operands)]:
        assert type(result) is type(expected)
        np.testing.assert_array_equal(result, expected)


def test_large_integers_are_operands_at_every_call() -> None:
    for _ in range(4):
        assert teir.einsum("i,->", [2**70, 1], 3) == 3 * 2**70 + 3


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_results_lie_in_the_usual_order_whatever_the_operands_do(expression: str) -> None:
    operands = [np.asfortranarray(one) for one in _operands(expression, np.int64)]
    for _ in range(4):
        result = teir.einsum(expression, *operands)
        assert not np.ndim(result) or result.flags.c_contiguous
        np.testing.assert_array_equal(result, np.einsum(expression, *operands))


@pytest.mark.parametrize("types", [(np.int32, np.int64), (np.bool_, np.uint8), (np.int8, np.int16)])
def test_types_that_differ_are_promoted(types: tuple[Any, Any]) -> None:
    a, b = np.full((3, 3), 1, types[0]), np.full((3, 3), 100, types[1])
    for _ in range(4):
        result = teir.einsum("ij,jk->ik", a, b)
        expected = np.einsum("ij,jk->ik", a, b)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def _backwards(expression: str, kind: Any) -> list[np.ndarray]:
    return [one[(slice(None, None, -1),) * one.ndim] for one in _operands(expression, kind)]


@pytest.mark.parametrize("kind", [np.float32, np.complex128])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_axes_that_go_back(expression: str, kind: Any) -> None:
    operands = _backwards(expression, kind)
    for _ in range(4):
        result = teir.einsum(expression, *operands)
        np.testing.assert_array_equal(result, np.einsum(expression, *operands))
        out = np.zeros_like(result)
        if out.ndim:
            assert teir.einsum(expression, *operands, out=out) is out
            np.testing.assert_array_equal(out, result)


def test_operands_of_other_types_are_converted() -> None:
    a, b = np.arange(12).reshape(3, 4), np.arange(4.0)
    for _ in range(4):
        np.testing.assert_array_equal(teir.einsum("ij,j->i", a, b), a @ b)


def test_known_calls_do_not_look_at_arrays_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("looked at")

    kept_plans().clear()
    calls = [_operands("ij,jk->ik", np.int64), _backwards("ij,jk->ik", np.float64)]
    for operands in calls:
        for _ in range(3):
            teir.einsum("ij,jk->ik", *operands)
    monkeypatch.setattr(plans, "view_array", refuse)
    for operands in calls:
        np.testing.assert_array_equal(
            teir.einsum("ij,jk->ik", *operands), operands[0] @ operands[1]
        )


def test_no_room_for_a_copy_is_a_finding() -> None:
    a = np.broadcast_to(np.int64(1), (1 << 22, 1 << 22))
    for _ in range(3):
        with pytest.raises(teir.TeirError):
            teir.einsum("ij->ji", a)


@pytest.mark.parametrize("shapes", [((3, 1), (3, 4)), ((3, 4), (1, 4)), ((1, 1), (1, 1))])
@pytest.mark.parametrize("kind", KINDS)
def test_products_of_elements_stretch_axes_of_one(kind: Any, shapes: tuple[Any, Any]) -> None:
    a, b = (np.full(shape, 2).astype(kind) for shape in shapes)
    for _ in range(4):
        result = teir.einsum("ij,ij->ij", a, b)
        assert result.dtype == a.dtype
        np.testing.assert_array_equal(result, np.einsum("ij,ij->ij", a, b))
