"""Permutations read as streams: random axes, gaps and alignments, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.copy_calls import check_copy, draw_side, draw_stream
from backends.llvm.kernel_calls import HERE, Compiled
from teir.lower.copy_kernels import StreamCopy
from teir.lower.stream_room import stream_copy_room_bytes
from teir.target import Isa

EXTENTS = (1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 33, 64)
DRAWS = 80
WIDE = tuple(isa for isa in HERE if isa.is_avx512)


@pytest.mark.parametrize("isa", WIDE)
@pytest.mark.parametrize("element_bytes", [4, 8, 16])
def test_streams(isa: Isa, element_bytes: int) -> None:
    random = np.random.default_rng(element_bytes)
    kernel = StreamCopy(element_bytes=element_bytes)
    compiled = Compiled([kernel], isa)
    for _ in range(DRAWS):
        rows = draw_side(random, EXTENTS, 1, 400)
        columns = draw_side(random, EXTENTS, 64 // element_bytes, 150)
        drawn = draw_stream(random, rows, columns, element_bytes)
        check_copy(compiled, kernel, drawn, stream_copy_room_bytes(), random)


@pytest.mark.parametrize("isa", WIDE)
def test_whole_groups_end_with_the_lines_they_keep(isa: Isa) -> None:
    """32 rows of 4 bytes are a group; every start of a line, so that one is kept or none."""
    random = np.random.default_rng(0)
    kernel = StreamCopy(element_bytes=4)
    compiled = Compiled([kernel], isa)
    for rows in (32, 64, 96):
        for columns in (16, 17, 31):
            drawn = draw_stream(random, (rows,), (columns,), kernel.element_bytes)
            check_copy(compiled, kernel, drawn, stream_copy_room_bytes(), random)


@pytest.mark.parametrize("isa", WIDE)
def test_elements_off_their_alignment_are_written_too(isa: Isa) -> None:
    kernel = StreamCopy(element_bytes=4)
    compiled = Compiled([kernel], isa)
    source = np.arange(70 * 100, dtype=np.int32).reshape(70, 100)
    memory = np.zeros(4 * source.size + 64, np.uint8)
    unaligned = np.zeros(stream_copy_room_bytes() + 64, np.uint8)
    room = -(-unaligned.ctypes.data // 64) * 64
    arguments = (70, 1, 1, 400, 0, 0, 100, 1, 1, 280, 0, 0, 1, 1, 0, 0, 0, 0)
    for start in (1, 2, 4):
        places = (source.ctypes.data, memory.ctypes.data + start, room)
        compiled.call(kernel, arguments, places)
        found = memory[start : start + 4 * source.size].view(np.int32).reshape(100, 70)
        np.testing.assert_array_equal(found, source.T)
