"""Sparse arrays of other libraries: endless rows, and parts that are not what they should be."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import teir
from teir.arrays.sparse import Sparse
from teir.errors import TeirError


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


KINDS = ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"]


def lists_of_no_rows() -> Any:
    matrix = scipy.sparse.lil_array(np.eye(3))
    matrix.rows = np.array([[1]], object)
    return matrix


def keys_of_no_pair() -> Any:
    matrix = scipy.sparse.dok_array(np.eye(3))
    matrix._dict["x"] = 2.0
    return matrix


def blocks_of_three_axes() -> Any:
    matrix = scipy.sparse.bsr_array(np.eye(4))
    matrix._shape = (4, 4, 4)
    return matrix


def coordinates_of_no_table() -> Any:
    """As the package `sparse` has them, whose coordinates do not fill a row for every axis."""
    fields = {"fill_value": 0, "shape": (3, 3), "ndim": 2, "data": np.ones(2), "todense": None}
    return type("COO", (), {"__module__": "sparse", "coords": np.zeros(5, int), **fields})()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lists_of_no_rows, "TEIR676"),
        (keys_of_no_pair, "TEIR676"),
        (blocks_of_three_axes, "TEIR671"),
        (coordinates_of_no_table, "TEIR676"),
    ],
)
def test_parts_that_are_none_are_refused(make: Any, code: str) -> None:
    matrix = make()
    with pytest.raises(TeirError, match=f"{code} at array:"):
        Sparse.from_scipy(matrix)
    with pytest.raises(TeirError, match=f"{code} at A:"):
        teir.einsum("y[i] = A[i,j] * x[j]", matrix, np.ones(3))


@pytest.mark.parametrize("shape", [None, ("4", 4)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_shape_is_named(kind: str, shape: Any) -> None:
    matrix = scipy.sparse.csr_array(np.eye(4)).asformat(kind)
    calls = [
        lambda: Sparse.from_scipy(matrix),
        lambda: teir.einsum("ij,j->i", matrix, np.ones(4)),
        lambda: teir.einsum("y[i] = A[i,j] * x[j]", matrix, np.ones(4)),
    ]
    for call in calls:
        call()
    matrix._shape = shape
    for call in calls:
        with pytest.raises(TeirError, match=r"TEIR676 at .*found shape"):
            call()
