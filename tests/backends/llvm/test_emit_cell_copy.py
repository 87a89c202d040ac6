"""Copies of cells: random axes, gaps and alignments, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.copy_calls import Permutation, check_copy, place
from backends.llvm.kernel_calls import (
    HERE,
    compiled_once,
)
from teir.lower.copy_kernels import CELL_AXES, WALK_AXES, CellCopy, cell_copy_room_bytes
from teir.target import Isa

DRAWS = 40
EXTENTS = (1, 2, 2, 2, 3, 5)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8, 16])
def test_cells(isa: Isa, element_bytes: int) -> None:
    random = np.random.default_rng(element_bytes)
    kernel = CellCopy(element_bytes=element_bytes)
    compiled = compiled_once([kernel], isa)
    for _ in range(DRAWS):
        cell, walk = (
            tuple(int(extent) for extent in random.choice(EXTENTS, int(random.integers(0, 6))))
            for _ in range(2)
        )
        drawn = draw(random, cell, walk, element_bytes)
        check_copy(compiled, kernel, drawn, cell_copy_room_bytes(), random)


def draw(
    random: np.random.Generator, cell: tuple[int, ...], walk: tuple[int, ...], width: int
) -> Permutation:
    cell_in, walk_in, _ = place(random, (cell, walk), width, width)
    cell_out, walk_out, _ = place(random, (cell, walk), width, width)
    return Permutation(
        extents=(*walk, *cell),
        source_strides=(*walk_in, *cell_in),
        target_strides=(*walk_out, *cell_out),
        unit_bytes=width,
        arguments=(
            *words(cell, cell_in, cell_out, CELL_AXES),
            *words(walk, walk_in, walk_out, WALK_AXES),
        ),
    )


def words(
    extents: tuple[int, ...], inward: tuple[int, ...], outward: tuple[int, ...], most: int
) -> tuple[int, ...]:
    rest = most - len(extents)
    return (*extents, *[1] * rest, *inward, *[0] * rest, *outward, *[0] * rest)
