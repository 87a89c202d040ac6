"""Runs read as streams: random axes, gaps, lengths and alignments, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from backends.llvm.copy_calls import check_copy, draw_side, draw_stream
from backends.llvm.kernel_calls import (
    HERE,
    compiled_once,
)
from teir.lower.copy_kernels import StreamRuns
from teir.lower.stream_room import stream_copy_room_bytes
from teir.target import LINE_BYTES, Isa

EXTENTS = (1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 33)
DRAWS = 60
WIDE = tuple(isa for isa in HERE if isa.is_avx512)


@pytest.mark.parametrize("isa", WIDE)
@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8, 16])
def test_stream_runs(isa: Isa, element_bytes: int) -> None:
    random = np.random.default_rng(element_bytes)
    kernel = StreamRuns(element_bytes=element_bytes)
    compiled = compiled_once([kernel], isa)
    shortest = LINE_BYTES // element_bytes
    for _ in range(DRAWS):
        run = shortest + int(random.integers(0, 3 * shortest))
        rows, columns = (draw_side(random, EXTENTS, 1, 150) for _ in range(2))
        drawn = draw_stream(random, rows, columns, element_bytes, run)
        check_copy(compiled, kernel, drawn, stream_copy_room_bytes(), random)


@pytest.mark.parametrize("isa", WIDE)
def test_runs_of_whole_lines_end_and_begin_groups(isa: Isa) -> None:
    """16 rows are a group; lines that begin with a run and lines that do not."""
    random = np.random.default_rng(0)
    kernel = StreamRuns(element_bytes=4)
    compiled = compiled_once([kernel], isa)
    for rows in (1, 15, 16, 17, 32, 33):
        for run in (16, 32, 33):
            drawn = draw_stream(random, (rows,), (3,), kernel.element_bytes, run)
            check_copy(compiled, kernel, drawn, stream_copy_room_bytes(), random)
