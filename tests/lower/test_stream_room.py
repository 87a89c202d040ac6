"""The room of streamed permutations: its parts follow one another on whole lines."""

from __future__ import annotations

from teir.backends.llvm.emit_stream_strip import EDGE_BYTES, GROUP_SQUARES
from teir.lower.stream_room import (
    STREAMED_COLUMNS,
    STREAMED_ROWS,
    stream_copy_room,
    stream_copy_room_bytes,
)
from teir.target import LINE_BYTES


def test_parts_lie_on_lines_and_hold_the_longest_call() -> None:
    room = stream_copy_room()
    starts = list(room.values())
    assert all(start % LINE_BYTES == 0 for start in starts)
    assert starts == sorted(starts)
    assert room["columns"] - room["rows"] >= 8 * STREAMED_ROWS
    assert room["edges"] - room["kept"] >= LINE_BYTES * STREAMED_COLUMNS
    assert stream_copy_room_bytes() == starts[-1]


def test_parts_hold_what_the_kernel_leaves_there() -> None:
    room, lanes = stream_copy_room(), LINE_BYTES // 4
    assert room["columns"] - room["rows"] >= 8 * (STREAMED_ROWS + GROUP_SQUARES * lanes)
    assert room["end"] - room["edges"] >= EDGE_BYTES * lanes
