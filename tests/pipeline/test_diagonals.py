"""Diagonals of sparse operands, of any format, against the dense meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.pipeline.diagonals import diagonal_of

Array = np.ndarray[Any, np.dtype[Any]]


def numbers(size: int, seed: int, density: float = 0.3) -> Array:
    draw = np.random.default_rng((size, seed))
    return np.asarray(draw.integers(-4, 5, (size, size)) * (draw.random((size, size)) < density))


def sparse(dense: Array, levels: str, order: tuple[int, ...]) -> teir.Sparse:
    places = np.nonzero(dense)
    return teir.Sparse.from_coo(
        places, dense[places].astype(float), dense.shape, levels=levels, mode_order=order
    )


@pytest.mark.parametrize("levels", ["ds", "ss", "sd", "dd"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("size", [1, 2, 17, 64])
def test_every_format(levels: str, order: tuple[int, ...], size: int) -> None:
    for seed, density in ((0, 0.3), (1, 0.0), (2, 1.0)):
        dense = numbers(size, seed, density)
        operand = sparse(dense, levels, order)
        np.testing.assert_array_equal(teir.einsum("ii->i", operand), np.diagonal(dense))
        assert teir.einsum("ii->", operand) == np.trace(dense)
        np.testing.assert_array_equal(
            teir.einsum("ii,ij->j", operand, operand), np.diagonal(dense) @ dense
        )


def test_rows_store_the_diagonal_in_their_own_order() -> None:
    dense = numbers(30, 5)
    made = diagonal_of(sparse(dense, "ds", (0, 1)), ("i", "i"), ())
    (level,) = made.stored
    assert level is not None
    np.testing.assert_array_equal(level.crd, np.flatnonzero(np.diagonal(dense)))
    np.testing.assert_array_equal(made.values, np.diagonal(dense)[level.crd])
    assert made.is_frozen


@pytest.mark.parametrize("text", ["iik->ik", "iki->k", "iii->i", "kii->"])
def test_deeper_tensors(text: str) -> None:
    dense = np.stack([numbers(6, seed) for seed in range(6)])
    places = np.nonzero(dense)
    operand = teir.Sparse.from_coo(places, dense[places].astype(float), dense.shape, levels="dss")
    np.testing.assert_array_equal(teir.einsum(text, operand), np.einsum(text, dense))
