"""Permutations through scratch tiles: random axes, gaps, tiles and alignments, against NumPy."""

from __future__ import annotations

import subprocess
import sys
from math import prod

import numpy as np
import pytest

from backends.llvm.copy_calls import (
    Permutation,
    adjacent,
    check_copy,
    draw_side,
    filled,
    place,
)
from backends.llvm.kernel_calls import (
    HERE,
    compiled_once,
)
from teir.lower.copy_kernels import PermuteCopy, RunCopy, permute_room_bytes, permute_scratch_bytes
from teir.passes.stepped_rows import TURNED_STEPS
from teir.target import Isa

EXTENTS = (1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 33)
MOST = 150
"""Rows, and columns: few enough to be quick."""
DRAWS = 60
ROOM_BYTES = max(map(permute_room_bytes, HERE))


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("element_bytes", [2, 4, 8, 16])
def test_squares(isa: Isa, element_bytes: int) -> None:
    random = np.random.default_rng(element_bytes)
    kernels = [
        PermuteCopy(element_bytes=element_bytes, lanes=lanes)
        for lanes in (4, 8, 16)
        if lanes * element_bytes <= 64
    ]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        for _ in range(DRAWS):
            drawn = draw(random, element_bytes, kernel.lanes, 1)
            check_copy(compiled, kernel, drawn, ROOM_BYTES, random)


@pytest.mark.parametrize("isa", [isa for isa in HERE if isa.has_masks])
@pytest.mark.parametrize("element_bytes", [2, 4, 8])
@pytest.mark.parametrize("step", TURNED_STEPS)
def test_squares_of_elements_apart(isa: Isa, element_bytes: int, step: int) -> None:
    random = np.random.default_rng(element_bytes)
    kernels = [PermuteCopy(element_bytes=element_bytes, lanes=lanes, step=step) for lanes in (4, 8)]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        for _ in range(DRAWS // 2):
            drawn = draw(random, element_bytes, kernel.lanes, 1, step)
            check_copy(compiled, kernel, drawn, ROOM_BYTES, random)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("element_bytes", [2, 4, 8, 16])
def test_runs(isa: Isa, element_bytes: int) -> None:
    random = np.random.default_rng(element_bytes)
    kernels = [
        RunCopy(element_bytes=element_bytes, lanes=lanes)
        for lanes in (1, 2, 8, 32)
        if lanes * element_bytes <= isa.vector_bytes
    ]
    compiled = compiled_once(kernels, isa)
    for kernel in kernels:
        for _ in range(DRAWS):
            run = max(2, kernel.lanes) + int(random.integers(0, 40))
            drawn = draw(random, element_bytes, 1, run)
            check_copy(compiled, kernel, drawn, ROOM_BYTES, random)


_SHORT_STACK = """
import threading
import numpy as np
import teir
source = np.arange(64 * 640 * 96, dtype=np.float32).reshape(64, 640, 96)
results = []
threading.stack_size(64 << 10)
for expression, given in (("ab->ba", source.reshape(4096, 960)), ("abc->bac", source)):
    plan = teir.plan(expression, given, threads=1)
    plan(given)
    thread = threading.Thread(target=lambda: results.append(plan(given)))
    thread.start()
    thread.join()
    kernels = ("permute_bytes4", "runs_bytes4", "streams_bytes4")
    assert any(word in plan.explain() for word in kernels), plan.explain()
    print(np.array_equal(results[-1], np.einsum(expression, given)))
"""


def test_threads_of_short_stacks_permute_too() -> None:
    child = subprocess.run([sys.executable, "-c", _SHORT_STACK], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    assert child.stdout.split() == ["True", "True"]


def draw(
    random: np.random.Generator, width: int, least: int, run: int, step: int = 1
) -> Permutation:
    """Rows and columns of one to three axes, up to two outer axes, in any order with gaps."""
    unit = width * run
    rows, columns = (draw_side(random, EXTENTS, least, MOST) for _ in range(2))
    outer = tuple(int(extent) for extent in random.integers(1, 4, 2))
    is_dense = bool(random.random() < 0.4) and columns[0] > 1
    rows_in, outer_in, _ = place(random, (rows, outer), step * unit * prod(columns), width)
    if is_dense:
        start = unit * prod(rows) * columns[0]
        rest, outer_out, _ = place(random, (columns[1:], outer), start, width)
        columns_out = (unit * prod(rows), *rest)
    else:
        columns_out, outer_out, _ = place(random, (columns, outer), unit * prod(rows), width)
    tile = draw_tile(random, rows, columns, least, unit, is_dense)
    stream = int(random.random() < 0.7)
    arguments = (
        *(*filled(rows, 1), *filled(rows_in, 0), *filled(columns, 1), *filled(columns_out, 0)),
        *(*outer, *outer_in, *outer_out, *tile, stream),
        *(() if run == 1 else (run,)),
    )
    return Permutation(
        extents=(*outer, *columns, *rows),
        source_strides=(*outer_in, *adjacent(columns, step * unit), *rows_in),
        target_strides=(*outer_out, *columns_out, *adjacent(rows, unit)),
        unit_bytes=unit,
        arguments=arguments,
    )


def draw_tile(
    random: np.random.Generator,
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    least: int,
    unit: int,
    is_dense: bool,
) -> tuple[int, int, int]:
    """tile_rows, tile_columns and group that fit the scratch of a kernel."""
    height, width = prod(rows), prod(columns)
    room = min(map(permute_scratch_bytes, HERE)) // unit
    if is_dense and height * columns[0] <= room and width >= least:
        group = columns[0]
        tile = group * int(random.integers(1, width // group + 1))
        tile = max(tile, -(-least // group) * group)
        if height * tile <= room:
            return height, tile, group
    tile_rows = min(height, max(least, int(random.choice((1, 2, 16, 48, 64)))))
    most = room // (tile_rows + 64 + least)
    return tile_rows, max(least, min(width, most, int(random.integers(least, width + 1)))), 1
