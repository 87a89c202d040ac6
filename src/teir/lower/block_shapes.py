"""The register blocks that keep every accumulator in a register.

A block needs vectors x columns accumulators, the vectors of A and a broadcast, plus temporaries
where elements are converted. The limits were read off the generated assembly and are held by a
test: no vector register of a block listed here is ever stored to the stack.
"""

from __future__ import annotations

from functools import cache
from typing import assert_never

from teir.dtypes import DataType
from teir.target import Isa

_WIDE_FILE: dict[DataType, tuple[int, ...]] = {
    DataType.FP64: (24, 13, 8, 6),
    DataType.FP32: (24, 13, 8, 6),
    DataType.TF32: (9, 6, 4, 3),
    DataType.BF16: (14, 12, 8, 6),
    DataType.FP16: (16, 12, 8, 6),
    DataType.C64: (18, 11, 6, 4),
    DataType.C128: (18, 11, 6, 4),
}
"""32 registers without masks: columns for 1, 2, 3 and more vectors."""

_AVX512 = _WIDE_FILE | {
    DataType.FP64: (24, 13, 9, 6, 5, 4, 3, 2),
    DataType.FP32: (24, 13, 9, 6, 5, 4, 3, 2),
    DataType.TF32: (15, 12, 8, 5),
    DataType.BF16: (16, 10, 8, 6),
    DataType.C64: (20, 11, 7, 5),
    DataType.C128: (20, 11, 7, 5),
}

_AVX2: dict[DataType, tuple[int, ...]] = {
    DataType.FP64: (11, 6, 4),
    DataType.FP32: (11, 6, 4),
    DataType.TF32: (6, 4, 2),
    DataType.BF16: (9, 5, 3),
    DataType.FP16: (8, 5, 3),
    DataType.C64: (6, 5, 2),
    DataType.C128: (6, 5, 2),
}

_PLAIN: dict[DataType, tuple[int, ...]] = {
    DataType.FP64: (10, 4, 3),
    DataType.FP32: (10, 4, 3),
    DataType.TF32: (9, 4, 2),
    DataType.BF16: (8, 4, 3),
    DataType.FP16: (8,),
    DataType.C64: (6, 3, 1),
    DataType.C128: (6, 3, 1),
}


_PARTS = {2: 13, 4: 6}
"""Columns of AVX-512 blocks of complex numbers in parts, by vectors: nothing is turned."""

_MASK_COLUMNS = (2, 1)
"""Columns fewer beside a mask that takes a register: of one vector, and of more."""
_FIXED_DEPTH = 6
"""Products per result up to which the loop over them would show: blocks without one are taken."""
_FIXED_ACCUMULATORS = 16
_PAIRED_REGISTERS = 22
"""Blocks two vectors high keep A for every column: its vectors and the accumulators."""
_REGISTERS_BESIDE_ONE = {2: 20, 3: 27}
"""The same, by vectors, of blocks that hold a vector of the next block's results as well."""


def is_fixed(depth: int) -> bool:
    """True for sums so short that some blocks of FP32 or FP64 have no loop over them."""
    return depth <= _FIXED_DEPTH


def holds_depth(vectors: int, columns: int, depth: int, loads_ahead: bool) -> bool:
    """True where a block of FP32 or FP64 without a loop over ``depth`` products needs no stack.

    Without a loop LLVM moves loads ahead into whatever registers are free. ``loads_ahead`` as
    `GemmBlock` says.
    """
    if not is_fixed(depth) or vectors * columns > _FIXED_ACCUMULATORS:
        return False
    held = vectors * (columns + depth)
    if loads_ahead and held > _REGISTERS_BESIDE_ONE.get(vectors, held):
        return False
    return vectors != 2 or held <= _PAIRED_REGISTERS


@cache
def block_shapes(
    isa: Isa,
    in_type: DataType,
    out_type: DataType,
    flushes: bool = False,
    masked: bool = False,
) -> tuple[tuple[int, int], ...]:
    """Every (vectors, columns) whose accumulators stay in registers, smallest first.

    ``out_type`` costs nothing: it is converted once, after the loop. ``flushes`` and ``masked`` as
    in `GemmBlock`.
    """
    del out_type
    limits = _limits(isa).get(in_type, ())
    if flushes and isa.is_avx512:
        limits = _WIDE_FILE[in_type]
    if masked and isa.has_masks_among_vectors:
        limits = tuple([max(1, columns - _MASK_COLUMNS[v > 0]) for v, columns in enumerate(limits)])
    return tuple(
        (vectors, columns)
        for vectors, limit in enumerate(limits, start=1)
        for columns in range(1, limit + 1)
    )


@cache
def part_shapes(isa: Isa) -> tuple[tuple[int, int], ...]:
    """As `block_shapes` for blocks of complex types that read A in parts."""
    if not isa.is_avx512:
        return ()
    return tuple(
        (vectors, columns) for vectors, limit in _PARTS.items() for columns in range(1, limit + 1)
    )


@cache
def most_accumulators(isa: Isa) -> int:
    """Vectors of the largest register block in FP32."""
    shapes = block_shapes(isa, DataType.FP32, DataType.FP32)
    return max(vectors * columns for vectors, columns in shapes)


def _limits(isa: Isa) -> dict[DataType, tuple[int, ...]]:
    match isa:
        case Isa.AMX | Isa.AVX512_INTEL | Isa.AVX512_ZEN5 | Isa.AVX512:
            return _AVX512
        case Isa.AVX2:
            return _AVX2
        case Isa.NEON:
            return _WIDE_FILE
        case Isa.PLAIN:
            return _PLAIN
        case _:
            assert_never(isa)
