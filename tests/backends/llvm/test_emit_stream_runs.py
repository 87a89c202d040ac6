"""Runs read as streams: random axes, gaps, lengths and alignments, against NumPy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from backends.llvm.kernel_calls import HERE, Compiled, Edge, Guarded
from backends.llvm.test_emit_permute import adjacent, draw_side, place
from backends.llvm.test_emit_stream_copy import filled, span
from teir.lower.copy_kernels import StreamRuns
from teir.lower.stream_room import stream_copy_room_bytes
from teir.target import LINE_BYTES, Isa

DRAWS = 60
WIDE = tuple(isa for isa in HERE if isa.is_avx512)


@pytest.mark.parametrize("isa", WIDE)
@pytest.mark.parametrize("element_bytes", [1, 2, 4, 8, 16])
def test_stream_runs(isa: Isa, element_bytes: int) -> None:
    random = np.random.default_rng(element_bytes)
    kernel = StreamRuns(element_bytes=element_bytes)
    compiled = Compiled([kernel], isa)
    shortest = LINE_BYTES // element_bytes
    for _ in range(DRAWS):
        run = shortest + int(random.integers(0, 3 * shortest))
        check(compiled, kernel, draw_side(random, 1), draw_side(random, 1), run, random)


@pytest.mark.parametrize("isa", WIDE)
def test_runs_of_whole_lines_end_and_begin_groups(isa: Isa) -> None:
    """16 rows are a group; lines that begin with a run and lines that do not."""
    random = np.random.default_rng(0)
    kernel = StreamRuns(element_bytes=4)
    compiled = Compiled([kernel], isa)
    for rows in (1, 15, 16, 17, 32, 33):
        for run in (16, 32, 33):
            check(compiled, kernel, (rows,), (3,), run, random)


def check(
    compiled: Compiled,
    kernel: StreamRuns,
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    run: int,
    random: np.random.Generator,
) -> None:
    """Both ends of both operands against pages nobody may touch; gaps must keep their bytes."""
    width = kernel.element_bytes
    unit = width * run
    outer = tuple(int(extent) for extent in random.integers(1, 4, 2))
    rows_in, outer_in, _ = place(random, (rows, outer), unit * prod(columns), width)
    columns_out, outer_out, _ = place(random, (columns, outer), unit * prod(rows), width)
    extents = (*outer, *columns, *rows)
    source_strides = (*outer_in, *adjacent(columns, unit), *rows_in)
    target_strides = (*outer_out, *columns_out, *adjacent(rows, unit))
    arguments = (
        *(*filled(rows, 1), *filled(rows_in, 0), *filled(columns, 1), *filled(columns_out, 0)),
        *(*outer, *outer_in, *outer_out, run),
    )
    element = np.dtype(f"V{unit}")
    unaligned = np.full(stream_copy_room_bytes() + 64, 0xFF, np.uint8)
    room = -(-unaligned.ctypes.data // 64) * 64
    for edge in Edge:
        source = Guarded(span(extents, source_strides, unit), edge)
        source.bytes[:] = random.integers(0, 256, source.bytes.size, np.uint8)
        target = Guarded(span(extents, target_strides, unit), edge)
        target.bytes[:] = 0x3C
        wanted = target.bytes.copy()
        read = np.ndarray(extents, element, source.bytes.data, 0, source_strides)
        np.ndarray(extents, element, wanted.data, 0, target_strides)[...] = read
        compiled.call(kernel, arguments, (source.address, target.address, room))
        np.testing.assert_array_equal(target.bytes, wanted, str((rows, columns, outer, run)))
