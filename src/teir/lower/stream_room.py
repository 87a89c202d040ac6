"""The room of a `StreamCopy`: tables of rows and columns, what is kept of columns, one strip.

``rows``, ``columns``: their offsets, the rows filled up to a whole group. ``lines``, ``shifts``:
where the lines of a column begin, and how many of its rows come before. ``kept``: what a group
leaves of a column to the next. ``edges``: the columns of a strip whose lines are not whole. The
last strip has places of its own. All counts are those of elements of four bytes, the most.
"""

from __future__ import annotations

from itertools import accumulate

from teir.target import LINE_BYTES

STREAMED_ROWS = 16384
"""Rows of one call at most."""
STREAMED_COLUMNS = 4096
"""Columns of one call at most: what is kept of them lies in the second cache."""


def stream_copy_room() -> dict[str, int]:
    """Where each part begins, in bytes, and where the last one ends."""
    group, slots = 2 * LINE_BYTES // 4, STREAMED_COLUMNS + LINE_BYTES // 4
    sizes = {
        "rows": 8 * (STREAMED_ROWS + group),
        "columns": 8 * STREAMED_COLUMNS,
        "lines": 8 * slots,
        "shifts": 8 * slots,
        "kept": LINE_BYTES * slots,
        "edges": 4 * LINE_BYTES * (LINE_BYTES // 4),
    }
    starts = accumulate((0, *sizes.values()))
    return dict(zip((*sizes, "end"), starts, strict=True))


def stream_copy_room_bytes() -> int:
    """Bytes of the room."""
    return stream_copy_room()["end"]
