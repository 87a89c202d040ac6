"""Keywords that are yes or no: nothing else that Python takes for true or false."""

from __future__ import annotations

import numpy as np
import pytest

import teir
from teir.pipeline.switches import checked_tune


@pytest.mark.parametrize("wrong", ["yes", "no", "", 1, 0, None, [True]])
def test_tune_is_a_bool(wrong: object) -> None:
    a = np.ones((2, 3))
    for function in (teir.einsum, teir.plan):
        with pytest.raises(teir.TeirError, match="TEIR647 at tune: expected True or False"):
            function("ij->ji", a, tune=wrong)
    b = teir.Sparse.from_coo((np.array([0, 1]), np.array([2, 0])), np.ones(2), (2, 3))
    with pytest.raises(teir.TeirError, match="TEIR647"):
        teir.einsum("ij,j->i", b, np.ones(3), tune=wrong)


def test_bools_of_numpy_are_bools() -> None:
    assert checked_tune(np.False_) is False
    assert checked_tune(np.True_) is True
    np.testing.assert_array_equal(teir.einsum("ij->ji", np.ones((2, 3)), tune=np.False_), 1)
