"""The definition of an einsum agrees with NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from teir.expr.evaluate import evaluate_einsum
from teir.expr.parsing import parse_subscripts


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("...ij,...jk", [(2, 1, 3, 4), (5, 4, 6)]),
        (",", [(), ()]),
        ("iij", [(3, 3, 2)]),
        ("ij,jk", [(2, 1), (4, 5)]),
        ("->", [()]),
        ("i...->...i", [(2, 3)]),
        ("ij->", [(0, 3)]),
        ("ij,jk,kl->li", [(2, 3), (3, 2), (2, 2)]),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_agrees_with_numpy(text: str, shapes: list, dtype: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    result = evaluate_einsum(parse_subscripts(text), arrays)
    np.testing.assert_array_equal(result, np.einsum(text, *arrays))
