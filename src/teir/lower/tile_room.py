"""The room of a `TileProduct`: what it holds, and how large it is.

bytes 0 to 4095     32 x 32 sums in FP32, on their way to C
64 bytes            how the tiles are configured
from byte 4160 on   two tiles of 16 rows of A, 2 KiB for every group of 32 steps; or all rows, two
                    tiles after the other
behind them         tiles of columns of B, one after the other, 1 KiB for every group of steps
"""

from __future__ import annotations

GROUP_STEPS = 32
"""Steps of one product of tiles."""
GROUP_BYTES = 64
"""A group of steps of one column, or of two adjacent steps of 16 rows."""
TILE_BYTES = 1024
TILE_SIDE = 16
"""Rows of A, or columns of B, of one tile."""
PANEL_GROUP_BYTES = 2 * TILE_BYTES
CONFIGURED_BYTES = 4096
PANEL_START_BYTES = CONFIGURED_BYTES + GROUP_BYTES


def room_bytes(segments: int, depth: int, packed: int, row_pairs: int = 1) -> int:
    """Bytes for ``segments`` runs of ``depth`` steps of rows and of ``packed`` tiles of columns."""
    groups = segments * -(-depth // GROUP_STEPS)
    return PANEL_START_BYTES + groups * (row_pairs * PANEL_GROUP_BYTES + packed * TILE_BYTES)


def most_packed(segments: int, depth: int, room: int) -> int:
    """Tiles of columns for which ``room`` bytes are enough; negative where none would be."""
    groups = segments * -(-depth // GROUP_STEPS)
    return (room - PANEL_START_BYTES) // (groups * TILE_BYTES) - PANEL_GROUP_BYTES // TILE_BYTES
