"""Sparse arrays of other libraries: endless rows, and parts that are not what they should be."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import scipy.sparse

import teir
from teir.arrays.sparse import Sparse


@pytest.mark.parametrize("kind", ["coo_array", "dok_array", "dia_array"])
def test_endless_rows_take_what_they_store(kind: str) -> None:
    coo = scipy.sparse.coo_array(([2.0], ([5], [2])), shape=(2**33, 3))
    matrix = coo if kind == "coo_array" else getattr(scipy.sparse, kind)(coo)
    assert str(Sparse.from_scipy(matrix).format) == "ss"
    limit = {"memory_limit": 100_000}
    assert teir.einsum("ij,j->", matrix, np.ones(3), **limit) == 2.0
    made = Sparse.from_scipy(matrix)
    assert str(made.converted(mode_order=(1, 0)).format) == "ds:1,0"
    assert made.converted() is made


def test_endless_rows_of_dense_values() -> None:
    torch: ModuleType = pytest.importorskip("torch")
    checked = {"check_invariants": True}
    tensor = torch.sparse_coo_tensor([[5], [1]], torch.ones(1, 2), (2**33, 3, 2), **checked)
    assert str(Sparse.from_scipy(tensor).format) == "ssd"
