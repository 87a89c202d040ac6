"""Blocks of two runs of one and a half lines a column, whose rows were taken round for lines of C.

Columns of a run follow one another, so two of them, even and odd, make three lines of each run.
Where C begins 16 bytes into a line, those are, in quarters of a vector of 0 to 5 of a column:

    odd before 5, even 0 1 2  |  even 3 4 5, odd 0  |  odd 1 2 3 4  |  odd 5, even after 0 1 2

The rows of A were moved so that a vector x of each run holds quarters 3 4 5 0, and one vector y
quarters 1 2 of both. Then a line is one of

    x of even, its last quarter that of odd
    the half of y, and half of x, of odd
    a quarter of x of odd, the last one of x of the column after, and the half of its y

so three lines of a run take two moves of vectors along and two choices lane by lane, which are
cheap; of rows in order, they would take five.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_numbers import computed_number
from teir.backends.llvm.emit_panel_ends import emit_beginning, emit_end
from teir.backends.llvm.emit_panel_lines import SumOf, store_line, store_part
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, shuffle, vector
from teir.lower.kernels import PanelBlock
from teir.target import ARRAY_START_BYTES

_QUARTERS = 4


@dataclass(frozen=True, slots=True)
class TurnedRunsStore:
    """Writing the vectors of a block of an even number of columns, two runs each."""

    text: FunctionText
    kernel: PanelBlock

    def emit(self, columns: list[tuple[str, ...]], sum_of: SumOf) -> None:
        runs = range(self.kernel.runs)
        before: list[str] | None = None
        for even in range(0, len(columns), 2):
            for run in runs:
                if before is not None:
                    first = self._of(sum_of, even, run)
                    self._store_across(columns[even][run], before[run], first, run)
            if before is None:
                self._begin(columns[0], [self._of(sum_of, 0, run) for run in runs])
            for run in runs:
                place = columns[even][run]
                x, _ = self._of(sum_of, even, run)
                odd_x, odd_y = self._of(sum_of, even + 1, run)
                at = shift_pointer(self.text, place, self._line_bytes - ARRAY_START_BYTES)
                store_line(self.text, self.kernel, at, self._picked(x, odd_x, (0, 1, 2, 7)))
                at = shift_pointer(self.text, at, self._line_bytes)
                half = (2 * run, 2 * run + 1, 4, 5)
                store_line(self.text, self.kernel, at, self._picked(odd_y, odd_x, half))
            before = [sum_of(even + 1, run) for run in runs]
        assert before is not None
        self._end(columns[-1], before)

    def _begin(self, places: tuple[str, ...], firsts: list[tuple[str, str]]) -> None:
        """The first line of each run, with what the block before has left over."""
        emit_beginning(
            self.text,
            self.kernel.joins,
            lambda: self._join(places, firsts),
            lambda: self._store_begins(places, firsts),
        )

    def _join(self, places: tuple[str, ...], firsts: list[tuple[str, str]]) -> None:
        for run, (place, first) in enumerate(zip(places, firsts, strict=True)):
            kept = self._carried(run)
            before = self.text.value(f"load {self._kind}, ptr {kept}, align {self._line_bytes}")
            self._store_across(place, before, first, run)

    def _store_begins(self, places: tuple[str, ...], firsts: list[tuple[str, str]]) -> None:
        quarter = self._quarter
        for run, (place, (x, y)) in enumerate(zip(places, firsts, strict=True)):
            store_part(self.text, self.kernel, x, 3 * quarter, quarter, place, 0)
            start = 2 * run * quarter
            store_part(self.text, self.kernel, y, start, 2 * quarter, place, ARRAY_START_BYTES)

    def _end(self, places: tuple[str, ...], lasts: list[str]) -> None:
        """The last quarter of each run, unless the next block writes it with its first line."""
        emit_end(
            self.text,
            self.kernel.joins,
            lambda: self._keep(lasts),
            lambda: self._store_ends(places, lasts),
        )

    def _keep(self, lasts: list[str]) -> None:
        for run, last in enumerate(lasts):
            how = f"align {self._line_bytes}"
            self.text.effect(f"store {self._kind} {last}, ptr {self._carried(run)}, {how}")

    def _store_ends(self, places: tuple[str, ...], lasts: list[str]) -> None:
        at = 5 * ARRAY_START_BYTES
        for place, last in zip(places, lasts, strict=True):
            store_part(self.text, self.kernel, last, 2 * self._quarter, self._quarter, place, at)

    def _store_across(self, place: str, before: str, after: tuple[str, str], run: int) -> None:
        """The line that an even column begins in, with the end of the odd one before."""
        x, y = after
        ends = self._picked(before, x, (0, 1, 2, 7))
        line = self._picked(ends, y, (2, 3, 4 + 2 * run, 5 + 2 * run))
        at = shift_pointer(self.text, place, -ARRAY_START_BYTES)
        store_line(self.text, self.kernel, at, line)

    def _picked(self, left: str, right: str, quarters: tuple[int, ...]) -> str:
        """Quarters of ``left`` (0 to 3) and ``right`` (4 to 7)."""
        size = self._quarter
        chosen = [quarter * size + lane for quarter in quarters for lane in range(size)]
        return shuffle(self.text, self._element, self.kernel.lanes, left, right, chosen)

    def _of(self, sum_of: SumOf, column: int, run: int) -> tuple[str, str]:
        """The vectors x and y of a run of a column."""
        return sum_of(column, run), sum_of(column, self.kernel.runs)

    def _carried(self, run: int) -> str:
        return shift_pointer(self.text, "%carried", run * self._line_bytes)

    @property
    def _quarter(self) -> int:
        return self.kernel.lanes // _QUARTERS

    @property
    def _line_bytes(self) -> int:
        return self.kernel.lanes * self.kernel.data_type.width

    @property
    def _element(self) -> str:
        return computed_number(self.kernel.data_type)

    @property
    def _kind(self) -> str:
        return vector(self._element, self.kernel.lanes)
