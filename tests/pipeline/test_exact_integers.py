"""Products of integers computed in floating point: the bits of NumPy's, or NumPy itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import teir
from teir.dtypes import DataType
from teir.expr.parsing import parse_expression
from teir.pipeline import exact_integers
from teir.pipeline.exact_integers import exact_call
from teir.pipeline.operand_types import contiguous_numpy
from teir.pipeline.planning import kept_plans
from teir.pipeline.problem import Problem, state_problem

KINDS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64, np.bool_)
EXPRESSIONS = ("ij,jk->ik", "ij,jk->ki", "bij,bjk->bik", "ij,jk,kl->il", "ij,kj->")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[DataType]:
    """The floating-point types in which products were computed."""
    kept_plans().clear()
    asked: list[DataType] = []
    original = exact_integers._exact

    def noted(compute: Any, *rest: Any) -> Any:
        def noting(data_type: DataType, operands: Sequence[Any]) -> Any:
            asked.append(data_type)
            return compute(data_type, operands)

        return original(noting, *rest)

    monkeypatch.setattr(exact_integers, "_exact", noted)
    return asked


def drawn(expression: str, kind: Any, low: int, high: int, extent: int = 50) -> list[np.ndarray]:
    numbers = np.random.default_rng(extent)
    terms = expression.split("->")[0].split(",")
    shapes = [tuple(4 if index == "b" else extent for index in term) for term in terms]
    return [numbers.integers(low, high, shape).astype(kind) for shape in shapes]


def assert_as_numpy(expression: str, operands: Sequence[np.ndarray]) -> None:
    expected = np.einsum(expression, *operands)
    for _ in range(3):
        result = teir.einsum(expression, *operands)
        assert type(result) is type(expected)
        assert result.dtype == expected.dtype
        assert not np.ndim(result) or result.flags.c_contiguous
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_numpys_bits(expression: str, kind: Any, computed: list[DataType]) -> None:
    low = 0 if np.dtype(kind).kind in "bu" else -100
    operands = drawn(expression, kind, low, 2 if kind is np.bool_ else 100)
    assert_as_numpy(expression, operands)
    assert len(computed) == 3
    assert_as_numpy(expression, [one[::-1, ..., ::-1] for one in operands])


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.uint32])
def test_remainders_of_what_does_not_fit(kind: Any, computed: list[DataType]) -> None:
    most = min(int(np.iinfo(kind).max), (1 << 23) - 1)
    operands = drawn("ij,jk->ik", kind, most // 2, most)
    assert_as_numpy("ij,jk->ik", operands)
    assert computed


@pytest.mark.parametrize(
    ("largest", "found"),
    [
        (579, DataType.FP32),
        (580, DataType.FP64),
        (13421772, DataType.FP64),
        (13421773, None),
        (1 << 62, None),
    ],
)
def test_types_hold_every_sum(
    largest: int, found: DataType | None, computed: list[DataType]
) -> None:
    a, b = np.full((50, 50), -largest), np.full((50, 50), largest)
    a[3, 4] = b[4, 3] = 1
    assert 50 * 579**2 <= 1 << 24 < 50 * 580**2
    assert 50 * 13421772**2 <= 1 << 53 < 50 * 13421773**2
    assert_as_numpy("ij,jk->ik", [a, b])
    assert computed == ([] if found is None else [found] * 3)


def test_the_least_integer_is_no_small_one(computed: list[DataType]) -> None:
    a = np.full((50, 50), np.iinfo(np.int64).min)
    assert_as_numpy("ij,jk->ik", [a, np.ones_like(a)])
    assert not computed


def test_types_that_differ(computed: list[DataType]) -> None:
    a, b = drawn("ij,jk->ik", np.uint8, 0, 255)
    assert_as_numpy("ij,jk->ik", [a, b.astype(np.int64)])
    assert_as_numpy("ij,jk->ik", [a > 100, b.astype(np.int16)])
    assert len(computed) == 6
    narrow = teir.einsum("ij,jk->ik", a, b, dtype=np.int16)
    np.testing.assert_array_equal(
        narrow, np.einsum("ij,jk->ik", a.astype(np.int16), b.astype(np.int16))
    )
    truth = teir.einsum("ij,jk->ik", a, b, dtype=bool)
    np.testing.assert_array_equal(truth, (a != 0) @ (b != 0))


def test_out_and_tensors_take_the_usual_way() -> None:
    operands = drawn("ij,jk->ik", np.int64, -9, 9)
    expected = operands[0] @ operands[1]
    out = np.empty_like(expected)
    for _ in range(3):
        assert teir.einsum("ij,jk->ik", *operands, out=out) is out
        np.testing.assert_array_equal(out, expected)


def _problem(expression: str, shapes: Sequence[tuple[int, ...]], kind: Any) -> Problem:
    types = tuple(contiguous_numpy(np.dtype(kind), shape) for shape in shapes)
    return state_problem(parse_expression(expression), types, None, None)


@pytest.mark.parametrize(
    ("expression", "shapes", "kind"),
    [
        ("ij,jk->ik", [(8, 8), (8, 8)], np.int64),
        ("ij,j->i", [(500, 500), (500,)], np.int64),
        ("ij->ji", [(500, 500)], np.int64),
        ("ij,ij->ij", [(500, 500), (500, 500)], np.int8),
        ("ij,jk->ik", [(90, 90), (90, 90)], object),
        ("ij,jk->ik", [(90, 90), (90, 90)], np.longdouble),
    ],
)
def test_what_numpy_does_as_fast_is_left_to_it(
    expression: str, shapes: Sequence[tuple[int, ...]], kind: Any
) -> None:
    problem = _problem(expression, shapes, kind)
    assert exact_call(problem, lambda *_: None) is None
