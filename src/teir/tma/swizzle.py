"""The swizzles of the tile instruction: XORs of shared-memory address bits.

With N bytes, rows of 128 bytes (all 32 banks) are cut into units of 16 bytes, and the unit at
column j of the i-th row of each N/16 goes to column ``i xor j`` (PTX ISA, tensor swizzling modes):

    128 bytes: bits 4..6 ^= bits 7..9       64: bits 4..5 ^= bits 7..8       32: bit 4 ^= bit 7

The pattern repeats after the *atom*, 8, 4 or 2 rows of 128 bytes.
"""

from __future__ import annotations

from typing import TypeVar

from teir.tma.domain import Index

Address = TypeVar("Address", int, Index)

UNIT_BYTES = 16
ROW_BYTES = 128
BASE_ALIGNMENT_BYTES = 128


def atom_bytes(swizzle_bytes: int) -> int:
    """Bytes after which the pattern of ``swizzle_bytes`` (0, 32, 64, 128) repeats."""
    return (swizzle_bytes // UNIT_BYTES) * ROW_BYTES if swizzle_bytes else 1


def swizzled(address: Address, swizzle_bytes: int) -> Address:
    """Where the byte at ``address`` goes; its own inverse."""
    if not swizzle_bytes:
        return address
    columns = swizzle_bytes // UNIT_BYTES
    return address ^ ((address // ROW_BYTES % columns) * UNIT_BYTES)
