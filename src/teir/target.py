"""Facts of a machine as a value: instruction set, vector width, caches, measured peaks."""

from __future__ import annotations

from enum import Enum
from typing import assert_never


class Isa(Enum):
    """The instruction set family code is generated for."""

    AVX512 = "avx512"
    AVX2 = "avx2"
    NEON = "neon"
    PLAIN = "plain"

    @property
    def vector_bytes(self) -> int:
        match self:
            case Isa.AVX512:
                return 64
            case Isa.AVX2:
                return 32
            case Isa.NEON | Isa.PLAIN:
                return 16
            case _:
                assert_never(self)

    @property
    def vector_registers(self) -> int:
        match self:
            case Isa.AVX512 | Isa.NEON:
                return 32
            case Isa.AVX2 | Isa.PLAIN:
                return 16
            case _:
                assert_never(self)

    @property
    def has_masks(self) -> bool:
        """True where loads and stores of part of a vector cost no more than whole ones."""
        return self is Isa.AVX512

    @property
    def has_fma(self) -> bool:
        return self is not Isa.PLAIN
