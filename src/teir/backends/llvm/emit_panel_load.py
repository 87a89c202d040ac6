"""Loading a column of C of a block of panels, and the pieces its lanes lie in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.backends.llvm.emit_numbers import computed_number
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, shuffle, vector
from teir.lower.kernels import PanelBlock


@dataclass(frozen=True, slots=True)
class Piece:
    """``count`` lanes of a vector from ``lane`` on, which lie at ``row`` of ``run`` in C."""

    vector: int
    lane: int
    count: int
    run: int
    row: int


def lanes_of(kernel: PanelBlock, number: int) -> int:
    """Rows of one vector of the block."""
    return kernel.last_lanes if number == kernel.vectors - 1 else kernel.lanes


def pieces_of(kernel: PanelBlock, largest: int) -> Iterator[Piece]:
    """The lanes in powers of two of at most ``largest`` that cross no end of a run."""
    run_rows = kernel.rows // kernel.runs
    for number in range(kernel.vectors):
        start, lane, end = number * kernel.lanes, 0, lanes_of(kernel, number)
        while lane < end:
            run, row = divmod(start + lane, run_rows)
            count = min(end - lane, run_rows - row, largest)
            count = 1 << (count.bit_length() - 1)
            yield Piece(number, lane, count, run, row)
            lane += count


def load_column(text: FunctionText, kernel: PanelBlock, runs: tuple[str, ...]) -> list[str]:
    """The vectors of a column of C, whose runs lie at ``runs``."""
    element, width = computed_number(kernel.data_type), kernel.data_type.width
    vectors: list[str] = []
    for piece in pieces_of(kernel, kernel.lanes):
        total = lanes_of(kernel, piece.vector)
        place = shift_pointer(text, runs[piece.run], piece.row * width)
        kind = vector(element, piece.count)
        part = text.value(f"load {kind}, ptr {place}, align {width}")
        inside = range(piece.lane, piece.lane + piece.count)
        if piece.count < total:
            # At their places in a whole vector; the other lanes hold anything.
            chosen = [lane - piece.lane if lane in inside else 0 for lane in range(total)]
            part = shuffle(text, element, piece.count, part, "poison", chosen)
        if piece.lane == 0:
            vectors.append(part)
            continue
        chosen = [total + lane if lane in inside else lane for lane in range(total)]
        vectors[-1] = shuffle(text, element, total, vectors[-1], part, chosen)
    return vectors
