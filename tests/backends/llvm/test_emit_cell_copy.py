"""Copies of cells: random axes, gaps and alignments, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.kernel_calls import HERE, Compiled, Edge, Guarded
from backends.llvm.test_emit_permute import place
from backends.llvm.test_emit_stream_copy import span
from teir.lower.copy_kernels import CELL_AXES, WALK_AXES, CellCopy, cell_copy_room_bytes
from teir.target import Isa

DRAWS = 40
EXTENTS = (1, 2, 2, 2, 3, 5)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8, 16])
def test_cells(isa: Isa, element_bytes: int) -> None:
    random = np.random.default_rng(element_bytes)
    kernel = CellCopy(element_bytes=element_bytes)
    compiled = Compiled([kernel], isa)
    for _ in range(DRAWS):
        cell, walk = (
            tuple(int(extent) for extent in random.choice(EXTENTS, int(random.integers(0, 6))))
            for _ in range(2)
        )
        check(compiled, kernel, cell, walk, random)


def check(
    compiled: Compiled,
    kernel: CellCopy,
    cell: tuple[int, ...],
    walk: tuple[int, ...],
    random: np.random.Generator,
) -> None:
    """Both ends of both operands against pages nobody may touch; gaps must keep their bytes."""
    width = kernel.element_bytes
    cell_in, walk_in, _ = place(random, (cell, walk), width, width)
    cell_out, walk_out, _ = place(random, (cell, walk), width, width)
    extents = (*walk, *cell)
    source_strides, target_strides = (*walk_in, *cell_in), (*walk_out, *cell_out)
    arguments = (
        *words(cell, cell_in, cell_out, CELL_AXES),
        *words(walk, walk_in, walk_out, WALK_AXES),
    )
    element = np.dtype(f"V{width}")
    unaligned = np.full(cell_copy_room_bytes() + 64, 0xFF, np.uint8)
    room = -(-unaligned.ctypes.data // 64) * 64
    for edge in Edge:
        source = Guarded(span(extents, source_strides, width), edge)
        source.bytes[:] = random.integers(0, 256, source.bytes.size, np.uint8)
        target = Guarded(span(extents, target_strides, width), edge)
        target.bytes[:] = 0x3C
        wanted = target.bytes.copy()
        read = np.ndarray(extents, element, source.bytes.data, 0, source_strides)
        np.ndarray(extents, element, wanted.data, 0, target_strides)[...] = read
        compiled.call(kernel, arguments, (source.address, target.address, room))
        np.testing.assert_array_equal(target.bytes, wanted, str((cell, walk)))


def words(
    extents: tuple[int, ...], inward: tuple[int, ...], outward: tuple[int, ...], most: int
) -> tuple[int, ...]:
    rest = most - len(extents)
    return (*extents, *[1] * rest, *inward, *[0] * rest, *outward, *[0] * rest)
