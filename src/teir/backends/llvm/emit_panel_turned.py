"""Blocks of panels whose rows are taken round by what lies before the first whole line of C.

Where a stretch of C begins 16 bytes into a line, vectors of its rows in order would lie across
lines, and every one would have to be moved along before it is written, by the unit that multiplies.
Taken round by the rows before the first whole line, all vectors but the last are lines as they are:
with eight lanes and 24 rows 6 to 13, 14 to 21, and 22, 23, 0 to 5. The last one is the end of a
stretch and its beginning; where columns are dense it makes a line with that of the next column.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_numbers import computed_number
from teir.backends.llvm.emit_panel_ends import emit_beginning, emit_end
from teir.backends.llvm.emit_panel_lines import SumOf, store_line, store_part
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, shuffle, vector
from teir.lower.kernels import PanelBlock
from teir.target import ARRAY_START_BYTES, Isa


def may_turn(kernel: PanelBlock, isa: Isa) -> bool:
    """True for blocks that may take rows round; whether they do, `begin_turning` says."""
    return kernel.turns and kernel.streams and isa.is_avx512


def begin_turning(text: FunctionText, natural: str) -> None:
    """%turned: rows are taken round; %turned_a: where the vectors of A begin then, or else.

    ``natural``: all stretches of C begin `ARRAY_START_BYTES` into a line. A block that goes on with
    what C holds, which lies in order, does not take its rows round.
    """
    text.write(f"""
%begins_anew = icmp eq i64 %accumulate, 0
%turned = and i1 {natural}, %begins_anew
%turn = select i1 %turned, i64 %a_turned, i64 0
%turned_a = getelementptr i8, ptr %A, i64 %turn
""")


@dataclass(frozen=True, slots=True)
class TurnedStore:
    """Writing the vectors of a block whose rows were taken round."""

    text: FunctionText
    kernel: PanelBlock

    def emit(self, columns: list[tuple[str, ...]], sum_of: SumOf) -> None:
        last = self.kernel.vectors - 1
        before: str | None = None
        for column, (place,) in enumerate(columns):
            for number in range(last):
                at = shift_pointer(self.text, place, self._first + number * self._line_bytes)
                store_line(self.text, self.kernel, at, sum_of(column, number))
            ends = sum_of(column, last)
            if not self.kernel.dense_columns:
                self._store_begin(place, ends)
                self._store_end(place, ends)
            elif before is None:
                self._begin(place, ends)
            else:
                self._store_across(place, before, ends)
            before = ends
        if self.kernel.dense_columns:
            assert before is not None
            self._end(columns[-1][0], before)

    def _begin(self, place: str, ends: str) -> None:
        """The first line of the block, with what the block before has left over."""
        text, kept = self.text, f"ptr %carried, align {self._line_bytes}"
        emit_beginning(
            text,
            self.kernel.joins,
            lambda: self._store_across(place, text.value(f"load {self._kind}, {kept}"), ends),
            lambda: self._store_begin(place, ends),
        )

    def _end(self, place: str, ends: str) -> None:
        text, kept = self.text, f"ptr %carried, align {self._line_bytes}"
        emit_end(
            text,
            self.kernel.joins,
            lambda: text.effect(f"store {self._kind} {ends}, {kept}"),
            lambda: self._store_end(place, ends),
        )

    def _store_across(self, place: str, before: str, after: str) -> None:
        """The line that a column begins in, with the end of the column before."""
        lanes, few = self.kernel.lanes, self._few
        chosen = [lane if lane < few else lanes + lane for lane in range(lanes)]
        line = shuffle(self.text, self._element, lanes, before, after, chosen)
        store_line(
            self.text, self.kernel, shift_pointer(self.text, place, -ARRAY_START_BYTES), line
        )

    def _store_begin(self, place: str, ends: str) -> None:
        """The rows before the first whole line, in pieces that begin at their size."""
        few = self._few
        for lane in (few, 2 * few):
            store_part(self.text, self.kernel, ends, lane, lane, place, (lane - few) * self._width)

    def _store_end(self, place: str, ends: str) -> None:
        at = self.kernel.rows * self._width - ARRAY_START_BYTES
        store_part(self.text, self.kernel, ends, 0, self._few, place, at)

    @property
    def _few(self) -> int:
        """Rows of the end of a stretch that lie in a line of their own."""
        return ARRAY_START_BYTES // self._width

    @property
    def _first(self) -> int:
        """Bytes of a stretch before its first whole line."""
        return self._line_bytes - ARRAY_START_BYTES

    @property
    def _line_bytes(self) -> int:
        return self.kernel.lanes * self._width

    @property
    def _width(self) -> int:
        return self.kernel.data_type.width

    @property
    def _element(self) -> str:
        return computed_number(self.kernel.data_type)

    @property
    def _kind(self) -> str:
        return vector(self._element, self.kernel.lanes)
