"""Writing a block of C past the caches in whole lines of memory, wherever the block begins.

The lanes of a stretch are moved along so that vectors fall on lines: whole lines are written past
the caches, the two ends through them, by masks. Line j is the lanes from L - s on of chunks j - 1
and j side by side, where s is the number of lanes between the beginning of the line and the
beginning of the stretch. Where the stretches of one block go on in the next, the last chunk waits
for it, so that lines in between are written once.

There is no fence: the processor orders these stores before its next locked instruction, and every
way to hand results to another thread (the pool's counters, a lock of Python's) executes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from teir.backends.llvm.emit_numbers import computed_number
from teir.backends.llvm.emit_text import (
    FunctionText,
    constants,
    shift_pointer,
    shuffle,
    splat,
    vector,
)
from teir.lower.kernels import PanelBlock
from teir.target import ARRAY_START_BYTES, Isa

SumOf = Callable[[int, int], str]
"""The finished sums of a column and the number of a vector."""


@dataclass(frozen=True, slots=True)
class _Shift:
    """Where stretches begin in a line.

    The way back to the line in bytes, lanes to pick, lanes of the first and of the last line.
    """

    back: str
    from_end: str
    is_late: str
    is_early: str


@dataclass(frozen=True, slots=True)
class _Natural:
    """Stretches begin 16 bytes into a line: lanes move by constants, which takes less time."""


def store_line(text: FunctionText, kernel: PanelBlock, place: str, value: str) -> None:
    """Write a vector that is a whole line past the caches."""
    element, line_bytes = computed_number(kernel.data_type), kernel.lanes * kernel.data_type.width
    how = f"align {line_bytes}, !nontemporal !{{i32 1}}"
    text.effect(f"store {vector(element, kernel.lanes)} {value}, ptr {place}, {how}")


def store_part(
    text: FunctionText,
    kernel: PanelBlock,
    value: str,
    lane: int,
    count: int,
    base: str,
    offset_bytes: int,
) -> None:
    """Write ``count`` lanes of a vector from ``lane`` on, to where a piece of their size begins."""
    element, chosen = computed_number(kernel.data_type), list(range(lane, lane + count))
    part = shuffle(text, element, kernel.lanes, value, "poison", chosen)
    place = shift_pointer(text, base, offset_bytes)
    kind = vector(element, count)
    text.effect(f"store {kind} {part}, ptr {place}, align {count * kernel.data_type.width}")


@dataclass(frozen=True, slots=True)
class PanelLines:
    """The stretches of C of one block: adjacent lanes without a gap, in whole vectors."""

    text: FunctionText
    kernel: PanelBlock
    isa: Isa

    @property
    def _segment_lanes(self) -> int:
        """Lanes of one stretch of C without a gap."""
        columns = self.kernel.columns if self.kernel.dense_columns else 1
        return self.kernel.rows // self.kernel.runs * columns

    @property
    def exist(self) -> bool:
        """True where stretches are whole vectors, made of halves that lie in one accumulator."""
        kernel = self.kernel
        run_rows = kernel.rows // kernel.runs
        is_even = kernel.last_lanes == kernel.lanes and run_rows % (kernel.lanes // 2) == 0
        return self.isa.is_avx512 and is_even and self._segment_lanes % kernel.lanes == 0

    def segments(
        self, columns: list[tuple[str, ...]]
    ) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Every stretch of C: its place, and the column and row of each of its lanes."""
        run_rows = self.kernel.rows // self.kernel.runs
        together = range(len(columns))
        for first in together[:1] if self.kernel.dense_columns else together:
            inside = together if self.kernel.dense_columns else range(first, first + 1)
            for run, place in enumerate(columns[first]):
                rows = range(run * run_rows, (run + 1) * run_rows)
                yield place, [(column, row) for column in inside for row in rows]

    def begin_at(self, offset_bytes: int) -> str:
        """True where all stretches of all blocks begin so many bytes into a line."""
        text, kernel = self.text, self.kernel
        start = text.value("ptrtoint ptr %C to i64")
        beyond = text.value(f"and i64 {start}, {self._line_bytes - 1}")
        if offset_bytes:
            beyond = text.value(f"xor i64 {beyond}, {offset_bytes}")
        steps = ["%c_run"] if kernel.runs > 1 else []
        if kernel.repeats and not kernel.joins:
            steps.append("%c_block")
        if not kernel.dense_columns and kernel.columns > 1:
            steps.append("%c_n")
        for step in steps:
            rest = text.value(f"and i64 {step}, {self._line_bytes - 1}")
            beyond = text.value(f"or i64 {beyond}, {rest}")
        return text.value(f"icmp eq i64 {beyond}, 0")

    def suit(self) -> str:
        """True where all stretches begin at an element, runs of one at the same place of a line."""
        text, kernel = self.text, self.kernel
        start = text.value("ptrtoint ptr %C to i64")
        if kernel.repeats and not kernel.joins:
            start = text.value(f"or i64 {start}, %c_block")
        odd = text.value(f"and i64 {start}, {self._width - 1}")
        if kernel.runs > 1:
            apart = text.value(f"and i64 %c_run, {self._line_bytes - 1}")
            odd = text.value(f"or i64 {odd}, {apart}")
        return text.value(f"icmp eq i64 {odd}, 0")

    def store_whole(self, columns: list[tuple[str, ...]], sum_of: SumOf) -> None:
        """Stretches that begin with a line."""
        for group in self._groups(columns):
            for number in range(len(group[0][1]) // self.kernel.lanes):
                for place, sources in group:
                    at = shift_pointer(self.text, place, number * self._line_bytes)
                    store_line(self.text, self.kernel, at, self._chunk(sum_of, sources, number))

    def _groups(
        self, columns: list[tuple[str, ...]]
    ) -> Iterator[list[tuple[str, list[tuple[int, int]]]]]:
        """Stretches of the same columns, written by turns: columns are asked for in order."""
        segments, together = list(self.segments(columns)), self.kernel.runs
        for first in range(0, len(segments), together):
            yield segments[first : first + together]

    def store(self, columns: list[tuple[str, ...]], sum_of: SumOf, *, natural: bool) -> None:
        """Stretches as lines and parts of lines; ``natural``: all begin 16 bytes into a line."""
        for group in self._groups(columns):
            shift = _Natural() if natural else self._shift(group[0][0])
            back = -ARRAY_START_BYTES if isinstance(shift, _Natural) else shift.back
            places = [shift_pointer(self.text, place, back) for place, _ in group]
            count = len(group[0][1]) // self.kernel.lanes
            chunks = [self._chunk(sum_of, sources, 0) for _, sources in group]
            self._begin(places, chunks, shift)
            for number in range(1, count):
                for one, (line, (_, sources)) in enumerate(zip(places, group, strict=True)):
                    chunk = self._chunk(sum_of, sources, number)
                    at = shift_pointer(self.text, line, number * self._line_bytes)
                    store_line(self.text, self.kernel, at, self._moved(chunks[one], chunk, shift))
                    chunks[one] = chunk
            after = count * self._line_bytes
            self._end([shift_pointer(self.text, line, after) for line in places], chunks, shift)

    def _begin(self, places: list[str], chunks: list[str], shift: _Shift | _Natural) -> None:
        """The first lines: their late lanes, or with what the block before has left over."""
        text, name = self.text, "natural" if isinstance(shift, _Natural) else "any"
        if self.kernel.joins:
            is_first = text.value("icmp eq ptr %block_c, %C")
            text.effect(f"br i1 {is_first}, label %{name}_first, label %{name}_joined")
            text.label(f"{name}_joined")
            kind = vector(self._element, self.kernel.lanes)
            for place, chunk, kept in zip(places, chunks, self._kept(), strict=True):
                left = text.value(f"load {kind}, ptr {kept}, align {self._line_bytes}")
                store_line(self.text, self.kernel, place, self._moved(left, chunk, shift))
            text.effect(f"br label %{name}_following")
            text.label(f"{name}_first")
        for place, chunk in zip(places, chunks, strict=True):
            self._store_part(place, chunk, shift, late=True)
        if self.kernel.joins:
            text.effect(f"br label %{name}_following")
            text.label(f"{name}_following")

    def _end(self, places: list[str], chunks: list[str], shift: _Shift | _Natural) -> None:
        """The last lines: their early lanes, or nothing where the block after joins them."""
        text, name = self.text, "natural" if isinstance(shift, _Natural) else "any"
        if self.kernel.joins:
            is_last = text.value("icmp eq i64 %block_left, 1")
            text.effect(f"br i1 {is_last}, label %{name}_last, label %{name}_kept")
            text.label(f"{name}_kept")
            kind = vector(self._element, self.kernel.lanes)
            for chunk, kept in zip(chunks, self._kept(), strict=True):
                text.effect(f"store {kind} {chunk}, ptr {kept}, align {self._line_bytes}")
            text.effect("br label %next_block")
            text.label(f"{name}_last")
        for place, chunk in zip(places, chunks, strict=True):
            self._store_part(place, chunk, shift, late=False)

    def _kept(self) -> list[str]:
        """Where the last chunk of every run waits for the block that follows."""
        runs = range(self.kernel.runs)
        return [shift_pointer(self.text, "%carried", run * self._line_bytes) for run in runs]

    def _chunk(self, sum_of: SumOf, sources: list[tuple[int, int]], number: int) -> str:
        """A vector of adjacent lanes of a stretch, from at most two accumulators."""
        lanes = self.kernel.lanes
        wanted = [
            (column, *divmod(row, lanes))
            for column, row in sources[number * lanes : (number + 1) * lanes]
        ]
        origins = list(dict.fromkeys((column, vector) for column, vector, _ in wanted))
        assert len(origins) <= 2
        values = [sum_of(*origin) for origin in origins]
        chosen = [lane + lanes * origins.index((column, one)) for column, one, lane in wanted]
        if chosen == list(range(lanes)):
            return values[0]
        return shuffle(self.text, self._element, lanes, values[0], (values * 2)[1], chosen)

    def _shift(self, place: str) -> _Shift:
        text, lanes, width = self.text, self.kernel.lanes, self._width
        index = f"i{8 * width}"
        start = text.value(f"ptrtoint ptr {place} to i64")
        inside = text.value(f"and i64 {start}, {self._line_bytes - 1}")
        shift = text.value(f"lshr i64 {inside}, {width.bit_length() - 1}")
        number = shift if width == 8 else text.value(f"trunc i64 {shift} to i32")
        shifts, numbers = splat(text, index, number, lanes), vector(index, lanes)
        from_end = text.value(
            f"sub {numbers} {constants(index, range(lanes, 2 * lanes))}, {shifts}"
        )
        is_late = text.value(f"icmp uge {numbers} {constants(index, range(lanes))}, {shifts}")
        is_early = text.value(f"xor <{lanes} x i1> {is_late}, {constants('i1', [1] * lanes)}")
        back = text.value(f"sub i64 0, {inside}")
        return _Shift(back, from_end, is_late, is_early)

    def _moved(self, left: str, right: str, shift: _Shift | _Natural) -> str:
        """The lanes from L - s on of two chunks side by side."""
        lanes, width = self.kernel.lanes, self._width
        if isinstance(shift, _Natural):
            first = lanes - ARRAY_START_BYTES // width
            chosen = list(range(first, first + lanes))
            return shuffle(self.text, self._element, lanes, left, right, chosen)
        kind, numbers = vector(self._element, lanes), vector(f"i{8 * width}", lanes)
        suffix = ("ps" if width == 4 else "pd") + ".512"
        return self.text.value(
            f"call {kind} @llvm.x86.avx512.vpermi2var.{suffix}"
            f"({kind} {left}, {numbers} {shift.from_end}, {kind} {right})"
        )

    def _store_part(self, line: str, chunk: str, shift: _Shift | _Natural, *, late: bool) -> None:
        """The end of a line that a chunk begins in, or the beginning of one it ends in."""
        text, lanes, width = self.text, self.kernel.lanes, self._width
        if isinstance(shift, _Natural):
            natural = ARRAY_START_BYTES // width
            pieces = (
                ((0, natural), (natural, 2 * natural)) if late else ((lanes - natural, natural),)
            )
            for lane, count in pieces:
                at = (natural + lane) % lanes * width
                store_part(text, self.kernel, chunk, lane, count, line, at)
            return
        kind = vector(self._element, lanes)
        value = self._moved(chunk, chunk, shift)
        text.effect(
            f"call void @llvm.masked.store.v{lanes}f{8 * width}.p0({kind} {value}, ptr {line}, "
            f"i32 {width}, <{lanes} x i1> {shift.is_late if late else shift.is_early})"
        )

    @property
    def _line_bytes(self) -> int:
        return self.kernel.lanes * self._width

    @property
    def _width(self) -> int:
        return self.kernel.data_type.width

    @property
    def _element(self) -> str:
        return computed_number(self.kernel.data_type)
