"""Permutations read as streams: random axes, gaps and alignments, against NumPy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from backends.llvm.kernel_calls import HERE, Compiled, Edge, Guarded
from backends.llvm.test_emit_permute import adjacent, place
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
        rows = draw_side(random, 1, 400)
        columns = draw_side(random, 64 // element_bytes, 150)
        check(compiled, kernel, rows, columns, random)


@pytest.mark.parametrize("isa", WIDE)
def test_whole_groups_end_with_the_lines_they_keep(isa: Isa) -> None:
    """32 rows of 4 bytes are a group; every start of a line, so that one is kept or none."""
    random = np.random.default_rng(0)
    kernel = StreamCopy(element_bytes=4)
    compiled = Compiled([kernel], isa)
    for rows in (32, 64, 96):
        for columns in (16, 17, 31):
            check(compiled, kernel, (rows,), (columns,), random)


def check(
    compiled: Compiled,
    kernel: StreamCopy,
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    random: np.random.Generator,
) -> None:
    """Both ends of both operands against pages nobody may touch; gaps must keep their bytes."""
    width = kernel.element_bytes
    outer = tuple(int(extent) for extent in random.integers(1, 4, 2))
    rows_in, outer_in, _ = place(random, (rows, outer), width * prod(columns), width)
    columns_out, outer_out, _ = place(random, (columns, outer), width * prod(rows), width)
    extents = (*outer, *columns, *rows)
    source_strides = (*outer_in, *adjacent(columns, width), *rows_in)
    target_strides = (*outer_out, *columns_out, *adjacent(rows, width))
    arguments = (
        *(*filled(rows, 1), *filled(rows_in, 0), *filled(columns, 1), *filled(columns_out, 0)),
        *(*outer, *outer_in, *outer_out),
    )
    element = np.dtype(f"V{width}")
    unaligned = np.full(stream_copy_room_bytes() + 64, 0xFF, np.uint8)
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
        np.testing.assert_array_equal(target.bytes, wanted, str((rows, columns, outer)))


def span(extents: tuple[int, ...], strides: tuple[int, ...], width: int) -> int:
    return (
        sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)) + width
    )


def filled(words: tuple[int, ...], rest: int) -> tuple[int, ...]:
    return (*words, *[rest] * (3 - len(words)))


def draw_side(random: np.random.Generator, least: int, most: int) -> tuple[int, ...]:
    """The extents of up to three axes, together between ``least`` and ``most``."""
    while True:
        count = int(random.integers(1, 4))
        extents = tuple(int(extent) for extent in random.choice(EXTENTS, count))
        if least <= prod(extents) <= most:
            return extents


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
