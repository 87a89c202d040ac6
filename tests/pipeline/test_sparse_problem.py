"""The types of sparse products: what is wider than they know is not narrowed in silence."""

from __future__ import annotations

import numpy as np
import pytest

import teir

scipy_sparse = pytest.importorskip("scipy.sparse")


@pytest.mark.parametrize("wide", [np.longdouble, np.clongdouble])
def test_long_numbers_are_refused_where_no_type_is_asked_for(wide: type) -> None:
    if np.dtype(wide).itemsize <= (16 if np.dtype(wide).kind == "c" else 8):
        pytest.skip("long numbers are no longer here")
    matrix, vector = scipy_sparse.csr_matrix(np.eye(3)), np.ones(3)
    with pytest.raises(teir.TeirError, match=r"TEIR689 at in0: .* at most 64 bits"):
        teir.einsum("ij,j->i", matrix.astype(wide), vector)
    with pytest.raises(teir.TeirError, match=r"TEIR689 at in1: .* at most 64 bits"):
        teir.einsum("ij,j->i", matrix, vector.astype(wide))
    for given in ((matrix, vector.astype(wide)), (matrix.astype(wide), vector)):
        result = teir.einsum("ij,j->i", *given, dtype="complex128")
        np.testing.assert_array_equal(result, vector)
