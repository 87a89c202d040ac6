"""Copies of operands that are kept from call to call: each of what it was made, and of no other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import teir
from teir.errors import TeirError
from teir.pipeline.sparse_operands import _Conversions
from teir.runtime.runtime import current

CUBE = np.arange(1.0, 28).reshape(3, 3, 3)


def stored(dense: np.ndarray[Any, np.dtype[Any]]) -> teir.Sparse:
    places = np.nonzero(dense)
    return teir.Sparse.from_coo(places, dense[places], dense.shape)


def test_two_diagonals_of_one_tensor_are_sorted_apart() -> None:
    cube = stored(CUBE)
    for _ in range(2):
        for text, expected in (
            ("A[j,i] = T[i,i,j]", np.einsum("iij->ji", CUBE)),
            ("A[j,i] = T[i,j,j]", np.einsum("ijj->ji", CUBE)),
            (
                "A[j,i] = T[i,i,j] - T[i,j,j]",
                np.einsum("iij->ji", CUBE) - np.einsum("ijj->ji", CUBE),
            ),
        ):
            made = teir.einsum(text, cube, out_levels="ds")
            np.testing.assert_array_equal(made.to_dense(), expected)


def test_diagonals_of_different_extents_are_sorted_apart() -> None:
    far = 10**9
    one = teir.Sparse.from_coo([[0], [0], [far - 1], [far - 1]], [1.0], (2, 2, far, far), "ssss")
    first = teir.einsum("A[k,j,i] = T[i,i,j,k]", one, out_levels="sss")
    second = teir.einsum("A[k,j,i] = T[i,j,k,k] * y[j]", one, np.ones(2), out_levels="sss")
    assert first.to_coo()[0].ravel().tolist() == [far - 1, far - 1, 0]
    assert second.to_coo()[0].ravel().tolist() == [far - 1, 0, 0]


def test_values_multiplied_position_by_position_are_not_kept_as_those_of_one_factor() -> None:
    upper = np.triu(np.arange(1.0, 26).reshape(5, 5), 2)
    other = np.tril(np.arange(5.0, 30).reshape(5, 5))
    a, b = stored(upper), stored(other)
    for _ in range(2):
        made = teir.einsum("C[i] = A[i,j] * A[i,j] * B[j,i]", a, b)
        np.testing.assert_array_equal(made, np.einsum("ij,ij,ji->i", upper, upper, other))
        made = teir.einsum("C[i] = A[i,j] * B[j,i]", a, b)
        np.testing.assert_array_equal(made, np.einsum("ij,ji->i", upper, other))


class Exchanged:
    """An object of another package, whose arrays nobody can look at but by asking for them."""

    def __init__(self) -> None:
        self.data, self.rows = np.ones(2), np.array([0, 1])

    def __binsparse__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        header = {"binsparse": {"shape": [2, 2], "format": "COO"}}
        return header, {
            "indices_0": self.rows,
            "indices_1": np.array([0, 1]),
            "values": self.data,
        }


def test_objects_that_give_their_arrays_are_asked_at_every_call() -> None:
    one, x = Exchanged(), np.array([1.0, 2.0])
    for rows, expected in (([0, 1], [1, 2]), ([0, 0], [3, 0]), ([1, 0], [2, 1])):
        one.rows[:] = rows
        np.testing.assert_array_equal(teir.einsum("y[i] = A[i,j] * x[j]", one, x), expected)


def test_values_alone_are_read_only_while_positions_are_in_order() -> None:
    matrix = scipy.sparse.csr_array(np.array([[1.0, 2.0, 0], [0, 0, 3.0]]))
    for _ in range(3):
        assert teir.einsum("C = A[i,j] * A[i,j]", matrix) == 14
    matrix.indices[1] = matrix.indices[0]
    assert teir.einsum("C = A[i,j] * A[i,j]", matrix) == 18
    matrix.indices[1] = 99
    with pytest.raises(TeirError, match="TEIR673"):
        teir.einsum("C = A[i,j] * A[i,j]", matrix)


@pytest.mark.parametrize("text", ["ij,j->i", "y[i] = A[i,j] * x[j]"])
def test_imaginary_parts_are_not_dropped(text: str) -> None:
    numbers = np.array([[1 + 2j, 0], [0, 3j]])
    for matrix in (scipy.sparse.csr_array(numbers), numbers):
        with pytest.raises(TeirError, match="TEIR613"):
            teir.einsum(text, matrix, np.ones(2), dtype=np.float64)


def test_types_without_a_common_one_are_refused() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    vector = np.ones(2, ml_dtypes.bfloat16)
    with suppress(np.exceptions.DTypePromotionError):
        np.result_type(np.float16, vector.dtype)
        pytest.skip("from ml_dtypes 0.7 on they have one")
    with pytest.raises(TeirError, match="TEIR620"):
        teir.einsum("y[i] = A[i,j] * x[j]", np.ones((2, 2), np.float16), vector)


def test_a_call_in_the_middle_of_keeping_a_copy_is_answered() -> None:
    """As a signal handler or a finalizer makes it, on the thread that is in the middle."""
    conversions = current().once("sparse conversions", _Conversions)
    assert conversions.lock.acquire(timeout=5)
    try:
        # A lock that is not the thread's own to take again would be waited for without end.
        assert conversions.lock.acquire(blocking=False)
        conversions.lock.release()
        matrix = scipy.sparse.coo_array(np.eye(3))
        np.testing.assert_array_equal(teir.einsum("ij,j->i", matrix, np.ones(3)), np.ones(3))
    finally:
        conversions.lock.release()
