"""The register block of short BF16 sums: two steps at once, rows of C stored 32 at a time.

    loop:    k left >= 2 -> two steps -> loop
             k left = 1 -> one step -> loop
             else next batch -> loop, or finish
    finish:  round, store;  next block of columns

Six vectors by four columns keep the multipliers busy: every two steps of a column bring one pair
of factors to six products, and a pair of columns of A is interleaved once for four. Two vectors of
sums are rounded by one instruction, and one more puts their rows in order. A block of many columns
is formed by one call, so that the products of the next columns begin while results are stored.
Measured on Zen 4, 96 x 4 sums of 24 products from the second cache: 0.92 of the peak, where blocks
of 64 x 3 with a call each and a rounding for each vector reach 0.70.

Where the processor has no such instruction its two steps are two multiply-adds, in a mode in which
subnormal numbers count as zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.backends.llvm.emit_flush import start_flushing, stop_flushing
from teir.backends.llvm.emit_numbers import narrow
from teir.backends.llvm.emit_pairs import (
    ROWS,
    add_two_steps,
    as_ordered,
    has_pairs,
    interleaved,
    load_adjacent_scale,
    load_pair_scale,
    load_single_scale,
    narrow_permuted,
)
from teir.backends.llvm.emit_text import (
    FunctionText,
    multiple,
    multiples,
    prefetch_to_write,
    shift_pointer,
    shuffle,
)
from teir.dtypes import DataType
from teir.lower.kernels import PairBlock
from teir.target import LINE_BYTES, Isa

PAIR_BLOCK_ARGUMENTS = (
    "k", "a_k", "b_k", "batch", "a_batch", "b_batch", "b_n", "c_n", "c_run", "c_ahead",
    "blocks", "b_block", "c_block",
)  # fmt: skip

_SUMS = "<16 x float>"
_WIDTH = DataType.BF16.width
_WORD_ROWS = 4
"""Rows of C in a word of 64 bits."""
_WORDS = 8

Sums = list[list[str]]


def emit_pair_block_body(kernel: PairBlock, isa: Isa) -> FunctionText:
    """The body for operands %A, %B, %C and `PAIR_BLOCK_ARGUMENTS`."""
    if not isa.is_avx512:
        raise ValueError(f"expected an instruction set of AVX-512, found {isa.value}")
    text = FunctionText()
    text.label("entry")
    slots = text.value(f"alloca [{kernel.columns} x i32], align {LINE_BYTES}")
    before = None if has_pairs(isa) else start_flushing(text, isa)
    _Block(text, kernel, isa, slots).emit()
    text.label("exit")
    stop_flushing(text, isa, before)
    text.effect("ret void")
    return text


@dataclass(frozen=True, slots=True)
class _State:
    """Places in A and in the columns of B, steps and batches left, the sums of every column."""

    a: str
    b: str
    k_left: str
    batch_left: str
    sums: Sums


@dataclass(frozen=True, slots=True)
class _Block:
    text: FunctionText
    kernel: PairBlock
    isa: Isa
    slots: str

    def emit(self) -> None:
        text = self.text
        text.define("%a_pair", "shl i64 %a_k, 1")
        if not self.kernel.b_adjacent:
            text.define("%b_pair", "shl i64 %b_k, 1")
        for side, step in (("a", "%a_k"), ("b", self._b_distance(1))):
            text.define(f"%{side}_steps", f"mul i64 %k, {step}")
            text.define(f"%{side}_back", f"sub i64 %{side}_batch, %{side}_steps")
        columns = multiples(text, "%b_n", self.kernel.columns)
        text.effect("br label %block")
        text.label("block")
        for name, kind, first in (
            ("b", "ptr", "%B"),
            ("c", "ptr", "%C"),
            ("left", "i64", "%blocks"),
        ):
            text.define(
                f"%block_{name}", f"phi {kind} [ {first}, %entry ], [ %next_{name}, %finish ]"
            )
        runs = self._runs_of_c()
        if self.kernel.claims:
            self._claim(runs)
        begun = self._first_sums(runs)
        text.effect("br label %loop")
        self._emit_loop(columns, runs, begun)

    def _runs_of_c(self) -> list[list[str]]:
        """For every column the places of its runs."""
        found = []
        for column in range(self.kernel.columns):
            distance = multiple(self.text, "%c_n", column)
            runs = [shift_pointer(self.text, "%block_c", distance)]
            for _ in range(1, self.kernel.runs):
                runs.append(shift_pointer(self.text, runs[-1], "%c_run"))
            found.append(runs)
        return found

    def _claim(self, columns: list[list[str]]) -> None:
        run_bytes = self.kernel.rows // self.kernel.runs * _WIDTH
        for run in (run for runs in columns for run in runs):
            place = shift_pointer(self.text, run, "%c_ahead")
            for line in range(0, run_bytes, LINE_BYTES):
                prefetch_to_write(self.text, shift_pointer(self.text, place, line))

    def _first_sums(self, columns: list[list[str]]) -> Sums:
        """Zeros, or C: unpacked, BF16 numbers are FP32 numbers whose low halves are zero."""
        vectors = self.kernel.vectors
        if not self.kernel.accumulates:
            return [["zeroinitializer"] * vectors for _ in columns]
        sums: Sums = []
        for (run,) in columns:
            pairs = []
            for number in range(0, vectors, 2):
                rows = self._two_vectors(shift_pointer(self.text, run, number * ROWS * _WIDTH))
                pairs += interleaved(self.text, 2 * ROWS, rows, "zeroinitializer")
            kind = f"<{2 * ROWS} x bfloat>"
            sums.append([self.text.value(f"bitcast {kind} {one} to {_SUMS}") for one in pairs])
        return sums

    def _two_vectors(self, place: str) -> str:
        return self.text.value(f"load <{2 * ROWS} x i16>, ptr {place}, align {_WIDTH}")

    def _emit_loop(
        self, columns: tuple[str | int, ...], runs: list[list[str]], begun: Sums
    ) -> None:
        text, kernel = self.text, self.kernel
        numbers = range(kernel.vectors)
        sums = [[text.fresh() for _ in numbers] for _ in columns]
        state = _State(text.fresh(), text.fresh(), text.fresh(), text.fresh(), sums)
        text.label("few")
        done = text.value(f"icmp eq i64 {state.k_left}, 0")
        text.effect(f"br i1 {done}, label %segment, label %single")
        batch = self._next_batch(state)
        single = self._steps(state, columns, "single", 1)
        pair = self._steps(state, columns, "pair", 2)
        text.label("loop")
        start = _State("%A", "%block_b", "%k", "%batch", begun)
        kinds = ["ptr", "ptr", "i64", "i64", *[_SUMS] * (kernel.vectors * kernel.columns)]
        sources = (("block", start), ("pair", pair), ("single", single), ("next_batch", batch))
        for number, (name, kind) in enumerate(zip(_flat(state), kinds, strict=True)):
            incoming = ", ".join(f"[ {_flat(one)[number]}, %{label} ]" for label, one in sources)
            text.define(name, f"phi {kind} {incoming}")
        enough = text.value(f"icmp sge i64 {state.k_left}, 2")
        text.effect(f"br i1 {enough}, label %pair, label %few")
        self._finish(state.sums, runs)

    def _next_batch(self, state: _State) -> _State:
        """Past the steps of one batch; A and B stand ``k`` of them past where they began."""
        text = self.text
        text.label("segment")
        left = text.value(f"sub i64 {state.batch_left}, 1")
        more = text.value(f"icmp sgt i64 {left}, 0")
        text.effect(f"br i1 {more}, label %next_batch, label %finish")
        text.label("next_batch")
        a = shift_pointer(text, state.a, "%a_back")
        b = shift_pointer(text, state.b, "%b_back")
        text.effect("br label %loop")
        return _State(a, b, "%k", left, state.sums)

    def _steps(
        self, state: _State, columns: tuple[str | int, ...], label: str, steps: int
    ) -> _State:
        text = self.text
        text.label(label)
        factors = self._factors(state.a, steps)
        following = []
        for column, (distance, sums) in enumerate(zip(columns, state.sums, strict=True)):
            scale = self._scale(column, shift_pointer(text, state.b, distance), steps)
            following.append(
                [
                    add_two_steps(self.text, self.isa, factor, scale, total)
                    for factor, total in zip(factors, sums, strict=True)
                ]
            )
        a = shift_pointer(text, state.a, "%a_pair" if steps > 1 else "%a_k")
        b = shift_pointer(text, state.b, self._b_distance(steps))
        left = text.value(f"sub i64 {state.k_left}, {steps}")
        text.effect("br label %loop")
        return _State(a, b, left, state.batch_left, following)

    def _b_distance(self, steps: int) -> str | int:
        """From the factors of a step to those after one or two."""
        if self.kernel.b_adjacent:
            return steps * _WIDTH
        return "%b_pair" if steps > 1 else "%b_k"

    def _factors(self, a: str, steps: int) -> list[str]:
        text, found = self.text, []
        second = shift_pointer(text, a, "%a_k")
        for number in range(0, self.kernel.vectors, 2):
            offset, late = number * ROWS * _WIDTH, "zeroinitializer"
            early = self._two_vectors(shift_pointer(text, a, offset))
            if steps > 1:
                late = self._two_vectors(shift_pointer(text, second, offset))
            found += interleaved(text, 2 * ROWS, early, late)
        return found

    def _scale(self, column: int, place: str, steps: int) -> str:
        if steps == 1:
            return load_single_scale(self.text, self.slots, column, place)
        if self.kernel.b_adjacent:
            return load_adjacent_scale(self.text, self.slots, column, place)
        second = shift_pointer(self.text, place, self._b_distance(1))
        return load_pair_scale(self.text, self.slots, column, place, second)

    def _finish(self, sums: Sums, columns: list[list[str]]) -> None:
        text = self.text
        text.label("finish")
        for held, runs in zip(sums, columns, strict=True):
            for number in range(0, self.kernel.vectors, 2):
                words = self._rounded(held[number], held[number + 1])
                for first, count, run, row in _pieces(self.kernel, number):
                    self._store(words, first, count, shift_pointer(text, runs[run], row * _WIDTH))
        text.define("%next_b", "getelementptr i8, ptr %block_b, i64 %b_block")
        text.define("%next_c", "getelementptr i8, ptr %block_c, i64 %c_block")
        text.define("%next_left", "sub i64 %block_left, 1")
        more = text.value("icmp sgt i64 %next_left, 0")
        text.effect(f"br i1 {more}, label %block, label %exit")

    def _rounded(self, one: str, other: str) -> str:
        """The 32 rows of two vectors of sums, in order."""
        text = self.text
        if has_pairs(self.isa):
            return narrow_permuted(text, one, other)
        halves = [
            narrow(text, DataType.BF16, self.isa, rows, ROWS)
            for rows in as_ordered(text, [one, other])
        ]
        rows = shuffle(text, "i16", ROWS, halves[0], halves[1], list(range(2 * ROWS)))
        return text.value(f"bitcast <32 x i16> {rows} to <8 x i64>")

    def _store(self, words: str, first: int, count: int, place: str) -> None:
        text = self.text
        if count < _WORDS:
            words = shuffle(text, "i64", _WORDS, words, "poison", list(range(first, first + count)))
        text.effect(f"store <{count} x i64> {words}, ptr {place}, align {_WIDTH}")


def _pieces(kernel: PairBlock, number: int) -> Iterator[tuple[int, int, int, int]]:
    """How the words of two vectors from ``number`` on are stored: the first word, how many, a power
    of two, the run they belong to and their first row in it."""
    run_words = kernel.rows // kernel.runs // _WORD_ROWS
    before, word = number * ROWS // _WORD_ROWS, 0
    while word < _WORDS:
        run, place = divmod(before + word, run_words)
        count = min(_WORDS - word, run_words - place)
        count = 1 << (count.bit_length() - 1)
        yield word, count, run, place * _WORD_ROWS
        word += count


def _flat(state: _State) -> list[str]:
    places = (state.a, state.b, state.k_left, state.batch_left)
    return [*places, *(one for sums in state.sums for one in sums)]
