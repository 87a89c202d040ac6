"""Permutations for copy kernels: drawn strides in memory, and a check of every byte written."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from backends.llvm.kernel_calls import Compiled, Edge, Guarded
from teir.lower.kernels import Kernel
from teir.target import LINE_BYTES

GAPS = (0, 0, 0, 1, 5, 16)
"""Elements left out between axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permutation:
    """The extents of all axes, and strides in bytes; what a kernel is told of them."""

    extents: tuple[int, ...]
    source_strides: tuple[int, ...]
    target_strides: tuple[int, ...]
    unit_bytes: int
    arguments: tuple[int, ...]

    def span(self, strides: tuple[int, ...]) -> int:
        walks = zip(self.extents, strides, strict=True)
        return sum((extent - 1) * stride for extent, stride in walks) + self.unit_bytes


def check_copy(
    compiled: Compiled,
    kernel: Kernel,
    drawn: Permutation,
    room_bytes: int,
    random: np.random.Generator,
) -> None:
    """Both ends of both operands against pages nobody may touch; gaps must keep their bytes."""
    element = np.dtype(f"V{drawn.unit_bytes}")
    unaligned = np.full(room_bytes + LINE_BYTES, 0xFF, np.uint8)
    room = -(-unaligned.ctypes.data // LINE_BYTES) * LINE_BYTES
    for edge in Edge:
        source = Guarded(drawn.span(drawn.source_strides), edge)
        source.bytes[:] = np.frombuffer(random.bytes(source.bytes.size), np.uint8)
        target = Guarded(drawn.span(drawn.target_strides), edge)
        target.bytes[:] = 0x3C
        wanted = target.bytes.copy()
        read = np.ndarray(drawn.extents, element, source.bytes.data, 0, drawn.source_strides)
        np.ndarray(drawn.extents, element, wanted.data, 0, drawn.target_strides)[...] = read
        compiled.call(kernel, drawn.arguments, (source.address, target.address, room))
        if not np.array_equal(target.bytes, wanted):
            np.testing.assert_array_equal(target.bytes, wanted, str((kernel, drawn)))


def draw_stream(
    random: np.random.Generator,
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    width: int,
    run: int | None = None,
) -> Permutation:
    """Columns adjacent in the source and rows in the target, of elements or of ``run`` of them."""
    unit = width * (run or 1)
    outer = tuple(int(extent) for extent in random.integers(1, 4, 2))
    rows_in, outer_in, _ = place(random, (rows, outer), unit * prod(columns), width)
    columns_out, outer_out, _ = place(random, (columns, outer), unit * prod(rows), width)
    arguments = (
        *(*filled(rows, 1), *filled(rows_in, 0), *filled(columns, 1), *filled(columns_out, 0)),
        *(*outer, *outer_in, *outer_out),
        *(() if run is None else (run,)),
    )
    return Permutation(
        extents=(*outer, *columns, *rows),
        source_strides=(*outer_in, *adjacent(columns, unit), *rows_in),
        target_strides=(*outer_out, *columns_out, *adjacent(rows, unit)),
        unit_bytes=unit,
        arguments=arguments,
    )


def draw_side(
    random: np.random.Generator, extents: tuple[int, ...], least: int, most: int
) -> tuple[int, ...]:
    """Up to three of ``extents``, whose product is between ``least`` and ``most``."""
    while True:
        count = int(random.integers(1, 4))
        side = tuple(int(extent) for extent in random.choice(extents, count))
        if least <= prod(side) <= most:
            return side


def place(
    random: np.random.Generator,
    sides: tuple[tuple[int, ...], ...],
    start: int,
    width: int,
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Strides of all axes in a random order of memory, gaps between some; and the end."""
    axes = [(side, axis) for side, extents in enumerate(sides) for axis in range(len(extents))]
    random.shuffle(axes)
    strides: dict[tuple[int, int], int] = {}
    reach = start + width * int(random.choice(GAPS))
    for side, axis in axes:
        strides[side, axis] = reach
        reach = reach * sides[side][axis] + width * int(random.choice(GAPS))
    first, second = (
        tuple(strides[side, axis] for axis in range(len(sides[side]))) for side in range(2)
    )
    return first, second, reach


def adjacent(extents: tuple[int, ...], unit: int) -> tuple[int, ...]:
    return tuple(unit * prod(extents[:axis]) for axis in range(len(extents)))


def filled(words: tuple[int, ...], rest: int) -> tuple[int, ...]:
    """Three words, the missing ones ``rest``."""
    return (*words, *[rest] * (3 - len(words)))
