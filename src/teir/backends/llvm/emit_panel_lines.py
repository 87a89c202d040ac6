"""Writing a block of C past the caches in whole lines of memory, wherever the block begins.

The lanes of a stretch are moved along so that vectors fall on lines: whole lines are written past
the caches, the two ends through them, by masks.

There is no fence: the processor orders these stores before its next locked instruction, and every
way to hand results to another thread (the pool's counters, a lock of Python's) executes one.
"""

from __future__ import annotations

from collections.abc import Iterator
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
from teir.target import Isa

Sums = list[list[str]]


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
        return self.isa is Isa.AVX512 and is_even and self._segment_lanes % kernel.lanes == 0

    def segments(
        self, columns: list[tuple[str, ...]]
    ) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Every stretch of C: its place, and the column and row of each of its lanes."""
        run_rows = self.kernel.rows // self.kernel.runs
        for run in range(self.kernel.runs):
            rows = range(run * run_rows, (run + 1) * run_rows)
            if self.kernel.dense_columns:
                lanes = [(column, row) for column in range(len(columns)) for row in rows]
                yield columns[0][run], lanes
                continue
            for column, runs in enumerate(columns):
                yield runs[run], [(column, row) for row in rows]

    def chunks(self, sums: Sums, sources: list[tuple[int, int]]) -> list[str]:
        """Vectors of adjacent lanes of a stretch, each from at most two accumulators."""
        lanes = self.kernel.lanes
        chunks = []
        for start in range(0, len(sources), lanes):
            wanted = [
                (column, *divmod(row, lanes)) for column, row in sources[start : start + lanes]
            ]
            origins = list(dict.fromkeys((column, number) for column, number, _ in wanted))
            assert len(origins) <= 2
            values = [sums[column][number] for column, number in origins]
            chosen = [
                lane + lanes * origins.index((column, number)) for column, number, lane in wanted
            ]
            if chosen == list(range(lanes)):
                chunks.append(values[0])
            else:
                chunks.append(
                    shuffle(self.text, self._element, lanes, values[0], (values * 2)[1], chosen)
                )
        return chunks

    def store(self, place: str, chunks: list[str]) -> None:
        """The stretch as lines of memory: whole ones past the caches, its ends by masks.

        Line j is the lanes from L - s on of chunks j - 1 and j side by side, where s is the number
        of lanes between the beginning of the line and the beginning of the stretch.
        """
        text, lanes, width = self.text, self.kernel.lanes, self.kernel.data_type.width
        index = f"i{8 * width}"
        start = text.value(f"ptrtoint ptr {place} to i64")
        inside = text.value(f"and i64 {start}, {lanes * width - 1}")
        shift = text.value(f"lshr i64 {inside}, {width.bit_length() - 1}")
        back = text.value(f"sub i64 0, {inside}")
        line = shift_pointer(text, place, back)
        number = shift if width == 8 else text.value(f"trunc i64 {shift} to i32")
        shifts = splat(text, index, number, lanes)
        kind, numbers = vector(self._element, lanes), vector(index, lanes)
        from_end = text.value(
            f"sub {numbers} {constants(index, range(lanes, 2 * lanes))}, {shifts}"
        )
        is_late = text.value(f"icmp uge {numbers} {constants(index, range(lanes))}, {shifts}")
        ones = constants("i1", [1] * lanes)
        is_early = text.value(f"xor <{lanes} x i1> {is_late}, {ones}")
        suffix = ("ps" if width == 4 else "pd") + ".512"
        name = f"v{lanes}f{8 * width}"
        pairs = zip([chunks[0], *chunks], [*chunks, chunks[-1]], strict=True)
        for count, (left, right) in enumerate(pairs):
            value = text.value(
                f"call {kind} @llvm.x86.avx512.vpermi2var.{suffix}"
                f"({kind} {left}, {numbers} {from_end}, {kind} {right})"
            )
            at = shift_pointer(text, line, count * lanes * width)
            if 0 < count < len(chunks):
                how = f"align {lanes * width}, !nontemporal !{{i32 1}}"
                text.effect(f"store {kind} {value}, ptr {at}, {how}")
                continue
            mask = is_late if count == 0 else is_early
            text.effect(
                f"call void @llvm.masked.store.{name}.p0({kind} {value}, ptr {at}, "
                f"i32 {width}, <{lanes} x i1> {mask})"
            )

    @property
    def _element(self) -> str:
        return computed_number(self.kernel.data_type)
