"""Matrix operands in shared memory as wgmma reads them: descriptors and element addresses.

A descriptor is 64 bits (PTX ISA, matrix descriptor format): start address / 16 in bits 0-13,
leading byte offset / 16 in bits 16-29, stride byte offset / 16 in bits 32-45, the base offset in
bits 49-51, the swizzle in bits 62-63 (0 none, 1: 128 bytes, 2: 64, 3: 32). Rows are those of M or
N.

    K-major, swizzled over s bytes:   (r mod 8) * s + (r div 8) * stride + k bytes
    K-major, no swizzle:              (r mod 8) * 16 + (r div 8) * stride + (k div 16 B) * leading
    MN-major, swizzled over s bytes:  (k mod 8) * s + (k div 8) * stride + (r div s B) * leading
    MN-major, no swizzle:             (k mod 8) * 16 + (k div 8) * leading + (r div 16 B) * stride

The remainder of the bytes is added, and the XOR of the swizzle applied to the absolute address.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from teir.errors import refuse
from teir.tma.domain import Index
from teir.tma.element_types import ElementType
from teir.tma.rules import WGMMA_OPERAND
from teir.tma.swizzle import swizzled

_UNIT = 16
_CORE_ROWS = 8
_FIELD_LIMIT = 2**14
_MODES = {0: 0, 128: 1, 64: 2, 32: 3}
_SWIZZLES = {mode: swizzle for swizzle, mode in _MODES.items()}


class Major(Enum):
    """Which index of an operand is contiguous in memory."""

    K = "K"
    MN = "MN"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixDescriptor:
    """An operand's place: bytes, all multiples of 16; ``swizzle_bytes`` is 0, 32, 64 or 128."""

    start: int
    leading_bytes: int
    stride_bytes: int
    swizzle_bytes: int
    base_offset: int


def encode(descriptor: MatrixDescriptor) -> int:
    """The 64 bits of ``descriptor``. Raises TeirError (TEIR978)."""
    fields = (
        ("start", descriptor.start),
        ("leading_bytes", descriptor.leading_bytes),
        ("stride_bytes", descriptor.stride_bytes),
    )
    for name, value in fields:
        if value % _UNIT or not 0 <= value // _UNIT < _FIELD_LIMIT:
            expected = f"a multiple of {_UNIT} below {_FIELD_LIMIT * _UNIT}"
            refuse(WGMMA_OPERAND, name, expected, str(value))
    start, leading, stride = (value // _UNIT for _, value in fields)
    mode = _MODES[descriptor.swizzle_bytes]
    return start | leading << 16 | stride << 32 | descriptor.base_offset << 49 | mode << 62


def decode(bits: int) -> MatrixDescriptor:
    """The descriptor of 64 ``bits``."""
    return MatrixDescriptor(
        start=(bits & 0x3FFF) * _UNIT,
        leading_bytes=(bits >> 16 & 0x3FFF) * _UNIT,
        stride_bytes=(bits >> 32 & 0x3FFF) * _UNIT,
        swizzle_bytes=_SWIZZLES[bits >> 62 & 0x3],
        base_offset=bits >> 49 & 0x7,
    )


def operand_addresses(
    descriptor: MatrixDescriptor, major: Major, rows: int, columns: int, element_type: ElementType
) -> Index:
    """Shared-memory addresses of an operand, shape (rows of M or N, columns of K).

    Raises TeirError (TEIR978): 32-bit operands are K-major only.
    """
    width = element_type.width
    if major is Major.MN and width != 2:
        refuse(WGMMA_OPERAND, "major", "K-major: only 16-bit operands are transposed", major.value)
    row = np.arange(rows, dtype=np.int64)[:, None]
    column = np.arange(columns, dtype=np.int64)[None, :]
    line, across = (row, column * width) if major is Major.K else (column, row * width)
    span = descriptor.swizzle_bytes or _UNIT
    group, far = _group_strides(descriptor, major)
    offset = (
        line % _CORE_ROWS * span + line // _CORE_ROWS * group + across // span * far + across % span
    )
    return swizzled(descriptor.start + offset, descriptor.swizzle_bytes)


def _group_strides(descriptor: MatrixDescriptor, major: Major) -> tuple[int, int]:
    """Bytes from one group of 8 lines to the next, and from one span across to the next."""
    leading, stride = descriptor.leading_bytes, descriptor.stride_bytes
    if descriptor.swizzle_bytes:
        return stride, leading
    return (stride, leading) if major is Major.K else (leading, stride)
