"""The facts of a machine the dense search looks at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import msgspec

from teir.dtypes import DataType
from teir.passes.cache_blocks import is_third_cache_far, panel_rows, panel_vectors
from teir.target import LINE_BYTES

_TILE_FLOPS = 1024
"""Operations of a cycle on tile registers."""


BEYOND_L2 = 4
"""Sizes of the second cache from which an operand counts as streaming by."""
FROM_MEMORY = 12
"""Sizes of the second cache from which an operand comes from memory at every run, or goes there."""
SAME_PLACE_BYTES = 4096
"""Rows a multiple of this apart compete for the same few lines of the first cache."""


class Machine(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Vector width and cache sizes of one core, in bytes, and the threads a program may use.

    ``vector_registers`` is how many vectors of sums and factors a core holds.
    ``l3_bytes`` is 0 where it is not known.
    A second thread is used where there are at least ``threaded_work`` products or elements.
    ``has_tiles``: there are tile registers that multiply BF16.
    ``multiplies_twice``: two whole vectors a cycle, so that loads of vectors that cross lines and
    conversions of factors show beside the products, and turning complex vectors costs some.
    ``follows_few_rows``: a permutation reads long rows as streams. ``forgets_requests``: only what
    is asked for into the first cache comes for sure. ``multiplies_whole``: a vector of 64 bytes is
    multiplied as quickly as half of one (all as in `teir.target.Isa`). What follows from these
    facts is found once: plans ask again and again.
    """

    vector_bytes: int
    vector_registers: int = 32
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int = 0
    threads: int
    threaded_work: int
    has_tiles: bool = False
    multiplies_twice: bool = False
    follows_few_rows: bool = False
    forgets_requests: bool = False
    multiplies_whole: bool = False

    @cached_property
    def has_far_third_cache(self) -> bool:
        """True where what the second cache loses is worth asking for again in time."""
        return is_third_cache_far(self.l2_bytes, self.l3_bytes)

    @cached_property
    def keeps_near_requests(self) -> bool:
        """True where all that is asked for comes, from a third cache that is near: there rows in
        place are asked for that others pack or leave to the hardware."""
        return not (self.forgets_requests or self.has_far_third_cache)

    def lanes(self, width: int) -> int:
        """Accumulators ``width`` bytes wide in one vector."""
        return max(1, self.vector_bytes // width)

    def panel_rows(self, width: int) -> int:
        """Rows of a packed panel of accumulators ``width`` bytes wide."""
        return panel_rows(self.vector_bytes, self.vector_registers, width)

    @cached_property
    def writes_lines(self) -> bool:
        """True where a vector is a line, so that blocks write whole lines past the caches.

        Lines in two parts, of blocks two vectors high, took three to nine times as long as writing
        them to the caches (AVX2 on Golden Cove).
        """
        return self.vector_bytes >= LINE_BYTES

    @cached_property
    def reads_short_pieces(self) -> bool:
        """True where pieces of some lines, each of another row, come at full speed once they are
        asked for; not known of machines whose vectors are shorter than a line."""
        return self.writes_lines and not self.follows_few_rows

    @cached_property
    def has_few_registers(self) -> bool:
        """True where blocks of four vectors and six columns do not stay in registers."""
        return self.panel_vectors < 4

    @cached_property
    def panel_vectors(self) -> int:
        """Vectors of a packed panel whose register blocks have six columns."""
        return panel_vectors(self.vector_registers)

    @cached_property
    def highest_block(self) -> int:
        """Vectors of the highest register block: four, or three in few registers."""
        return max(3, self.panel_vectors)

    @staticmethod
    def columns_in_few(vectors: int) -> int:
        """Columns of a block so high in few registers; higher panels are cut into two vectors."""
        return {1: 11, 3: 4}.get(vectors, 6)

    @cached_property
    def panel_heights(self) -> tuple[int, int]:
        """Vectors of the panels that lose least: those with six columns, and of three with more."""
        return (3, 4) if self.panel_vectors > 3 else (2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """What one core reaches, for the model: multiply-adds in registers, and copies in each cache.

    Multiply-adds count two operations, copies the bytes read and the bytes written.
    ``tile_flops_per_second``: products of BF16 by tile registers; None where there are none.
    """

    fp32_flops_per_second: float
    fp64_flops_per_second: float
    l2_bytes_per_second: float
    l3_bytes_per_second: float
    memory_bytes_per_second: float
    l3_bytes: int
    tile_flops_per_second: float | None = None

    def flops_per_second(self, out: DataType) -> float:
        """The peak of sums kept for outputs of this type."""
        is_double = out.accumulator in (DataType.FP64, DataType.C128)
        return self.fp64_flops_per_second if is_double else self.fp32_flops_per_second


def assumed_speeds(vector_bytes: int, l3_bytes: int, has_tiles: bool = False) -> Speeds:
    """Where nothing was measured: a core of 3.5 GHz with two multiply-add units.

    Tile registers multiply 16 x 16 x 32 numbers in 16 cycles.
    """
    cycles = 3.5e9
    return Speeds(
        fp32_flops_per_second=cycles * vector_bytes,
        fp64_flops_per_second=cycles * vector_bytes / 2,
        l2_bytes_per_second=cycles * 24,
        l3_bytes_per_second=cycles * 12,
        memory_bytes_per_second=20e9,
        l3_bytes=l3_bytes,
        tile_flops_per_second=cycles * _TILE_FLOPS if has_tiles else None,
    )
