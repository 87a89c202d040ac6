"""Blocks as axes of their own: the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.errors import TeirError

scipy_sparse = pytest.importorskip("scipy.sparse")

Array = np.ndarray[Any, np.dtype[Any]]


def blocked(rows: int, columns: int, blocks: tuple[int, int], seed: int) -> Any:
    """A matrix of SciPy with a third of its blocks."""
    draw = np.random.default_rng(seed)
    pattern = scipy_sparse.csr_array((draw.random((rows, columns)) < 0.35).astype(float))
    data = draw.integers(-3, 4, (pattern.nnz, *blocks)).astype(float)
    shape = (rows * blocks[0], columns * blocks[1])
    return scipy_sparse.bsr_array((data, pattern.indices, pattern.indptr), shape=shape)


def test_both_ways_are_the_same_memory() -> None:
    matrix = blocked(5, 7, (2, 3), 0)
    given = teir.Sparse.from_scipy(matrix)
    split = given.split_blocks()
    assert (split.shape, split.blocks, str(split.format)) == ((5, 7, 2, 3), None, "dsdd")
    assert split.values is given.values
    np.testing.assert_array_equal(
        split.to_dense(), matrix.toarray().reshape(5, 2, 7, 3).transpose(0, 2, 1, 3)
    )
    back = split.join_blocks()
    assert (back.shape, back.blocks, back.format) == (given.shape, (2, 3), given.format)
    assert back.values is given.values
    assert back.to_scipy().format == "bsr"


def test_blocks_of_three_axes() -> None:
    draw = np.random.default_rng(3)
    dense = draw.integers(1, 5, (2, 3, 4, 2, 1, 3)) * (draw.random((2, 3, 4, 1, 1, 1)) < 0.4)
    places = np.nonzero(dense)
    tensor = teir.Sparse.from_coo(
        places, dense[places].astype(float), dense.shape, levels="dssddd"
    ).join_blocks()
    assert (tensor.shape, tensor.blocks) == ((4, 3, 12), (2, 1, 3))
    whole = dense.transpose(0, 3, 1, 4, 2, 5).reshape(4, 3, 12)
    np.testing.assert_array_equal(tensor.to_dense(), whole)
    np.testing.assert_array_equal(teir.einsum("ijk->ki", tensor), np.einsum("ijk->ki", whole))


@pytest.mark.parametrize(
    ("shape", "levels", "order"),
    [
        ((2, 2, 2), "dsd", (0, 1, 2)),
        ((2, 3, 2, 2), "dssd", (0, 1, 2, 3)),
        ((2, 3, 2, 2), "dsdd", (0, 1, 3, 2)),
        ((2, 3, 2, 2), "dsdd", (2, 0, 1, 3)),
        ((2, 3, 2, 0), "dsdd", (0, 1, 2, 3)),
    ],
)
def test_what_is_no_array_of_blocks_is_refused(
    shape: tuple[int, ...], levels: str, order: tuple[int, ...]
) -> None:
    empty = np.zeros((len(shape), 0), int)
    tensor = teir.Sparse.from_coo(empty, np.zeros(0), shape, levels=levels, mode_order=order)
    with pytest.raises(TeirError) as caught:
        tensor.join_blocks()
    assert caught.value.findings[0].code == "TEIR671"
    with pytest.raises(TeirError) as caught:
        tensor.split_blocks()
    assert caught.value.findings[0].code == "TEIR671"


def test_blocks_are_joined_once() -> None:
    given = teir.Sparse.from_scipy(blocked(2, 2, (2, 2), 0))
    with pytest.raises(TeirError):
        given.join_blocks()
