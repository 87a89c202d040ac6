"""The judge accepts correct rounding and refuses anything worse."""

from __future__ import annotations

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.ir.accuracy import error_bound, error_ratio, stored_roundoff

FLOATS = tuple(kind for kind in DataType if not kind.is_index)


def test_bound_is_the_formula() -> None:
    bound = error_bound(
        np.array([10.0]),
        terms=6,
        invocations=3,
        input_type=DataType.BF16,
        output_type=DataType.BF16,
    )
    assert bound[0] == pytest.approx((4 * 8 * 2.0**-24 + 3 * 2.0**-8) * 10, rel=1e-12)


def test_only_narrow_stores_round() -> None:
    narrow = {kind for kind in FLOATS if stored_roundoff(kind) > 0}
    assert narrow == {DataType.BF16, DataType.FP16}


def test_tf32_products_have_room_for_rounded_factors() -> None:
    def bound(kind: DataType) -> float:
        return float(
            error_bound(1.0, terms=1, invocations=1, input_type=kind, output_type=DataType.FP32)
        )

    assert bound(DataType.TF32) == pytest.approx(bound(DataType.FP32) + 2.0**-9)


@pytest.mark.parametrize("data_type", [DataType.FP64, DataType.FP32, DataType.FP16])
def test_dot_products_pass_and_wrong_ones_do_not(data_type: DataType) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, (200, 50)).astype(data_type.numpy_dtype()) for _ in range(2))
    wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
    exact = (wide_a * wide_b).sum(1)
    magnitude = np.abs(wide_a * wide_b).sum(1).astype(np.float64)
    bound = error_bound(
        magnitude, terms=50, invocations=1, input_type=data_type, output_type=data_type
    )
    accumulator = data_type.accumulator.numpy_dtype()
    good = (a.astype(accumulator) * b.astype(accumulator)).sum(1).astype(data_type.numpy_dtype())
    assert error_ratio(good, exact, bound) < 0.5
    lost_term = (exact - wide_a[:, 0] * wide_b[:, 0]).astype(data_type.numpy_dtype())
    assert error_ratio(lost_term, exact, bound) > 1


def test_special_values_must_agree() -> None:
    one = np.ones(1)
    nan, infinite = np.array([np.nan]), np.array([np.inf])
    assert error_ratio(nan, nan, one) == 0
    assert error_ratio(infinite, infinite, one) == 0
    assert error_ratio(nan, one, one) == np.inf
    assert error_ratio(one, nan, one) == np.inf
    assert error_ratio(one, infinite, one) == np.inf
    assert error_ratio(-infinite, infinite, one) == np.inf
    assert error_ratio(one, one, np.zeros(1)) == 0
    assert error_ratio(one, 2 * one, np.zeros(1)) == np.inf
    assert error_ratio(np.zeros(0), np.zeros(0), np.zeros(0)) == 0


def test_complex_errors_are_distances() -> None:
    assert error_ratio(np.array([3 + 4j]), np.array([0j]), np.array([10.0])) == 0.5
