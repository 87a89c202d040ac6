"""The pattern of a sparse result: what any product and sum of sparse operands can reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from teir.arrays.levels import parse_format
from teir.arrays.sparse import Sparse
from teir.pipeline import assemble as assemble_module
from teir.pipeline.assemble import assemble

Array = np.ndarray[Any, np.dtype[Any]]

EXTENTS = {"i": 7, "j": 5, "k": 6, "l": 4}
PRODUCTS = (
    ("ik", [["ij", "jk"]]),
    ("ki", [["ij", "jk"]]),
    ("ik", [["ij", "jk"], ["ik"]]),
    ("il", [["ij", "jk", "kl"]]),
    ("ij", [["ij", "ij"], ["ji"]]),
    ("ijk", [["ij", "jk", "ik"]]),
    ("ijl", [["ij", "kl"]]),
    ("i", [["ij", "jk", "kl"]]),
    ("il", [["ij"]]),
    ("ijk", [["kji"], ["ij", "k"]]),
)


def drawn(random: np.random.Generator, indices: str) -> tuple[Sparse, Array]:
    shape = tuple(EXTENTS[index] for index in indices)
    mask = random.random(shape) < random.choice([0.0, 0.15, 0.5, 1.0], p=[0.05, 0.4, 0.45, 0.1])
    levels = "".join(random.choice(["d", "s"], len(shape) - 1)) + "s"
    order = tuple(int(mode) for mode in random.permutation(len(shape)))
    coords = np.nonzero(mask)
    sparse = Sparse.from_coo(coords, np.ones(coords[0].size), shape, levels, order)
    return sparse, np.asarray(mask)


@pytest.mark.parametrize(("output", "terms"), PRODUCTS)
@pytest.mark.parametrize(("block", "bitmap"), [(1 << 21, 1 << 27), (7, 1 << 27), (7, 0)])
@pytest.mark.parametrize("threads", [1, 2])
def test_it_is_the_structure_of_the_dense_result(
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    terms: list[list[str]],
    block: int,
    bitmap: int,
    threads: int,
) -> None:
    monkeypatch.setattr(assemble_module, "_BLOCK", block)
    monkeypatch.setattr(assemble_module, "_BITMAP", bitmap)
    for seed in range(6):
        random = np.random.default_rng(seed)
        products, reached = [], np.zeros([EXTENTS[index] for index in output])
        for term in terms:
            pairs = [(tuple(indices), *drawn(random, indices)) for indices in term]
            products.append([(indices, sparse) for indices, sparse, _ in pairs])
            missing = [index for index in output if index not in "".join(term)]
            ones = [np.ones(EXTENTS[index]) for index in missing]
            text = ",".join([*term, *missing]) + "->" + output
            # A compressed level stores nothing but what is there: no prefix without a value.
            masks = [mask.astype(float) for _, _, mask in pairs]
            reached += np.einsum(text, *masks, *ones)
        order = tuple(int(mode) for mode in random.permutation(len(output)))
        levels = "".join(random.choice(["d", "s"], len(output) - 1)) + "s"
        fmt = parse_format(f"{levels}:{','.join(map(str, order))}")
        made = assemble(tuple(output), fmt, products, EXTENTS, np.dtype(float), threads)
        made.require_valid("result")
        assert made.is_frozen
        found = np.zeros(reached.shape, bool)
        found[tuple(made.to_coo()[0])] = True
        np.testing.assert_array_equal(found, reached > 0)


def test_dense_levels_below_are_stored_whole() -> None:
    sparse = Sparse.from_coo([[0, 2], [1, 1]], [1.0, 2.0], (3, 2), "ss")
    made = assemble(
        ("i", "m"),
        parse_format("sd"),
        [[(("i", "j"), sparse)]],
        {"i": 3, "j": 2, "m": 4},
        np.dtype(float),
    )
    assert made.nnz == 8
    assert made.to_coo()[0][0].tolist() == [0] * 4 + [2] * 4
