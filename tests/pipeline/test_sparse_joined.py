"""Summed indices side by side as one: against the dense meaning, in every format."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import teir
from teir.arrays.sparse import Sparse
from teir.pipeline.sparse_joined import joined_levels

Array = np.ndarray[Any, np.dtype[Any]]
EXTENTS = {"i": 5, "j": 4, "k": 3, "l": 6, "m": 2}


def drawn(indices: str, seed: int, density: float = 0.4) -> Array:
    random = np.random.default_rng(seed)
    shape = [EXTENTS[index] for index in indices]
    return random.integers(1, 5, shape) * (random.random(shape) < density) * 1.0


def stored(array: Array, levels: str, order: tuple[int, ...] | None = None) -> Sparse:
    found = np.nonzero(array)
    return Sparse.from_coo(found, array[found], array.shape, levels, order)


def is_joined(plan: Any) -> bool:
    return "joined" in plan.explain()


@pytest.mark.parametrize("levels", ["dds", "dsd", "dss", "sdd", "sds", "ssd", "sss"])
@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (3,), (1, 1, 1)])
def test_joined_levels_store_the_same(levels: str, sizes: tuple[int, ...]) -> None:
    dense = drawn("ijk", 1)
    made = joined_levels(stored(dense, levels), sizes)
    made.require_valid("joined")
    groups = np.split(np.array(dense.shape), np.cumsum(sizes)[:-1])
    shape = tuple(int(group.prod()) for group in groups)
    assert made.shape == shape
    np.testing.assert_array_equal(made.to_dense(), dense.reshape(shape))


@pytest.mark.parametrize(
    "text",
    [
        "ijk,ljk->il",
        "ijk,ijk->",
        "jki,ljk->li",
        "ijk,jk->i",
        "ijkm,jkl->mil",
        "ijk,ljk,lm->im",
        "ijk,ljk,jk->il",
    ],
)
@pytest.mark.parametrize("levels", ["dss", "sss", "sds", "dsd"])
@pytest.mark.parametrize("out", [None, "ds"])
def test_products_of_tensors(text: str, levels: str, out: str | None) -> None:
    left, right = text.split("->")
    words = left.split(",")
    arrays = [drawn(word, seed) for seed, word in enumerate(words)]
    given = [stored(array, (levels + "s")[: array.ndim]) for array in arrays]
    is_sparse = out is not None and bool(right)
    asked = None if not is_sparse else "s" * len(right)
    plan = teir.plan(text, *given, out_levels=asked)
    for _ in range(3):
        for got in (plan(*given), teir.einsum(text, *given, out_levels=asked)):
            found = got.to_dense() if isinstance(got, Sparse) else got
            np.testing.assert_array_equal(found, np.einsum(text, *arrays))


def test_what_is_joined() -> None:
    a, b = stored(drawn("ijk", 1), "sss"), stored(drawn("ljk", 2), "sss")
    turned = stored(drawn("ljk", 2), "sss", (0, 2, 1))
    matrix = stored(drawn("jk", 3), "ds")
    assert is_joined(teir.plan("ijk,ljk->il", a, b))
    assert is_joined(teir.plan("ijk,jk->i", a, matrix))
    assert not is_joined(teir.plan("ijk,ljk->il", a, turned))
    assert not is_joined(teir.plan("ijk,ljk->ilk", a, b))
    assert not is_joined(teir.plan("ijk,ljk->il", a, drawn("ljk", 2)))
    assert not is_joined(teir.plan("ijk,ljk,k->il", a, b, np.ones(3)))
    assert not is_joined(teir.plan("jk,jk->", matrix, matrix))


def test_every_order_of_levels() -> None:
    dense = drawn("ijk", 4), drawn("ljk", 5)
    want = np.einsum("ijk,ljk->il", *dense)
    for one, other in product(permutations(range(3)), repeat=2):
        given = stored(dense[0], "sss", one), stored(dense[1], "dss", other)
        np.testing.assert_array_equal(teir.einsum("ijk,ljk->il", *given), want)


def test_coordinates_beyond_32_bits() -> None:
    shape = (3, 1 << 20, 1 << 20)
    coords = np.array([[0, 1, 2, 2], [5, 5, 7, 1 << 19], [9, 9, 1 << 19, 4]])
    tensor = Sparse.from_coo(coords, np.array([1.0, 2.0, 3.0, 4.0]), shape, "sss")
    got = teir.einsum("ijk,ljk->il", tensor, tensor)
    np.testing.assert_array_equal(got, [[1, 2, 0], [2, 4, 0], [0, 0, 25]])


def test_values_written_later_count() -> None:
    pos, crd = np.array([0, 2]), np.array([0, 2])
    values = np.array([1.0, 2.0])
    vector = Sparse.from_levels((1, 1, 3), "dds", {2: (pos, crd)}, values)
    assert teir.einsum("ijk,ijk->", vector, vector) == 5
    values[:] = 3
    assert teir.einsum("ijk,ijk->", vector, vector) == 18
    plan = teir.plan("ijk,ljk->il", vector, vector)
    values[:] = 2
    assert [float(plan(vector, vector)[0, 0]) for _ in range(2)] == [8.0, 8.0]


def test_indices_whose_positions_have_no_addresses_stay_apart() -> None:
    shape = (2**20, 2**20, 2**20)
    left = teir.Sparse.from_coo([[0, 1]] * 3, [1.0, 2.0], shape, "sss")
    right = teir.Sparse.from_coo([[0, 1], [0, 2], [0, 1]], [3.0, 4.0], shape, "sss")
    assert teir.einsum("ijk,ijk->", left, right) == 3
