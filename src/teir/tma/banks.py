"""Shared-memory bank conflicts: how many wavefronts a warp's access takes, and how few it could.

Shared memory has 32 banks of 4 bytes. A warp's access is served in phases of 128 bytes: all 32
lanes at 4 bytes each, 16 lanes at 8, 8 at 16. In a phase every bank serves one word per wavefront;
lanes that ask for the same word share it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from teir.tma.domain import Index

BANKS = 32
WORD_BYTES = 4
PHASE_BYTES = BANKS * WORD_BYTES
LANES = 32
SECTOR_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Wavefronts:
    """``got`` is what the addresses take, ``ideal`` what the distinct words would take at best."""

    got: int
    ideal: int

    @property
    def conflicts(self) -> int:
        return self.got - self.ideal


def wavefronts(addresses: Index, width_bytes: int) -> Wavefronts:
    """Wavefronts of one access: ``addresses`` of up to 32 lanes, each ``width_bytes`` wide.

    ``width_bytes`` is 1, 2, 4, 8 or 16 and divides every address.
    """
    lanes_per_phase = LANES if width_bytes <= WORD_BYTES else PHASE_BYTES // width_bytes
    got = ideal = 0
    for first in range(0, len(addresses), lanes_per_phase):
        words = _words(addresses[first : first + lanes_per_phase], width_bytes)
        per_bank = np.bincount(words % BANKS, minlength=BANKS)
        got += int(per_bank.max())
        ideal += -(-len(words) // BANKS)
    return Wavefronts(got=got, ideal=ideal)


def matrix_wavefronts(row_addresses: Index) -> Wavefronts:
    """Wavefronts of ldmatrix and stmatrix: each phase is 8 rows of 16 bytes."""
    return wavefronts(row_addresses, 16)


def sectors(addresses: Index, width_bytes: int) -> Wavefronts:
    """Sectors of 32 bytes a global access touches (``got``), and the fewest for its bytes."""
    touched = _units(addresses, width_bytes, SECTOR_BYTES)
    distinct = len(np.unique(addresses)) * width_bytes
    return Wavefronts(got=len(touched), ideal=-(-distinct // SECTOR_BYTES))


def _words(addresses: Index, width_bytes: int) -> Index:
    return _units(addresses, width_bytes, WORD_BYTES)


def _units(addresses: Index, width_bytes: int, unit_bytes: int) -> Index:
    """The distinct units of ``unit_bytes`` that the accesses touch."""
    first = np.arange(0, width_bytes, min(width_bytes, unit_bytes), dtype=np.int64)
    return np.unique((addresses[:, None] + first[None, :]) // unit_bytes)
