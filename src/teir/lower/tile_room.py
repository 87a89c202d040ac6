"""The room of a `TileProduct`: what it holds, and how large it is.

bytes 0 to 4095     32 x 32 sums in FP32, on their way to C
64 bytes            how the tiles are configured
from byte 4160 on   a panel of 32 rows of A, 2 KiB for every group of 32 steps
behind it           columns of B, 64 bytes for every group of steps that is copied
"""

from __future__ import annotations

GROUP_STEPS = 32
"""Steps of one product of tiles."""
GROUP_BYTES = 64
"""A group of steps of one column, or of two adjacent steps of 16 rows."""
PANEL_GROUP_BYTES = 2048
CONFIGURED_BYTES = 4096
PANEL_START_BYTES = CONFIGURED_BYTES + GROUP_BYTES
_COLUMNS = 32


def room_bytes(segments: int, depth: int, columns: int, is_adjacent: bool) -> int:
    """Bytes for ``segments`` runs of ``depth`` steps and so many columns.

    ``is_adjacent``: the steps of a column follow one another, so that only the last ones are
    copied.
    """
    groups = segments * -(-depth // GROUP_STEPS)
    kept = groups
    if is_adjacent:
        kept = segments if depth % GROUP_STEPS else 0
    column_bytes = (kept | 1) * GROUP_BYTES
    whole_columns = -(-columns // _COLUMNS) * _COLUMNS
    return PANEL_START_BYTES + groups * PANEL_GROUP_BYTES + whole_columns * column_bytes
