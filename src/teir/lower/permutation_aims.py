"""How large the tiles of a permutation shall be, by how many rows a processor follows by itself."""

from __future__ import annotations

from dataclasses import dataclass

from teir.target import Isa


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """What a tile aims at: pieces of the output, of the input, and where all rows make one run.

    ``streamed_bytes``: outputs from here on leave the caches before anybody reads them;
    ``dense_column_bytes``: columns of neighbouring tiles together, there; ``run_column_bytes``:
    what a tile of runs reads of the input at once; ``run_tile_bytes``: such a tile.
    """

    row_bytes: int
    column_bytes: int
    dense_bytes: int
    dense_column_bytes: int
    run_column_bytes: int
    run_tile_bytes: int
    streamed_bytes: int


_NEAR_AIMS = Aims(
    row_bytes=1024,
    column_bytes=192,
    dense_bytes=32 * 1024,
    dense_column_bytes=512,
    run_column_bytes=512,
    run_tile_bytes=32 * 1024,
    streamed_bytes=8 << 20,
)
"""Long pieces of the output, some lines of the input; a tile lies in the first cache or near it.
Streamed from 8 MB on instead of 16, drawn permutations took 0.36 to 1.3 of the time on Zen 4.
Columns of a line together, where all rows make one run, read parts of lines again for each of a
farther axis: of half a kilobyte they took 0.5 to 1.1 of the time, 0.8 in the mean."""
_NEAREST_AIMS = Aims(
    row_bytes=320,
    column_bytes=448,
    dense_bytes=24 * 1024,
    dense_column_bytes=512,
    run_column_bytes=1024,
    run_tile_bytes=5 * 1024,
    streamed_bytes=16 << 20,
)
"""For `Isa.forgets_requests`: this tile and the next, which is asked for into the first cache, fit
there. Measured on Zen 5, 57 permutations of 48 to 96 MB: squares 0.90 of the time in the geometric
mean, runs 0.77."""
_FAR_AIMS = Aims(
    row_bytes=512,
    column_bytes=1024,
    dense_bytes=256 * 1024,
    dense_column_bytes=1024,
    run_column_bytes=1024,
    run_tile_bytes=32 * 1024,
    streamed_bytes=6 << 20,
)
"""Long pieces of the input, for `Isa.follows_few_rows`: tiles lie in the second cache. Measured on
Golden Cove, 26 permutations of 48 MB: 0.52 to 1.16 of the time, 0.81 in the geometric mean. Past
the caches squares of 8 to 16 MB took 0.5 of the time; of 4 MB none gained, runs lost 1.6 times."""


def aims_of(isa: Isa) -> Aims:
    """What tiles of a permutation aim at on this machine."""
    if isa.follows_few_rows:
        return _FAR_AIMS
    return _NEAREST_AIMS if isa.forgets_requests else _NEAR_AIMS
