"""Two steps of the chain at once: BF16 products by `vdpbf16ps`.

The instruction adds the product of the high halves of 32-bit lanes, then that of the low halves,
each as a fused multiply-add that takes subnormal numbers for zero. With the earlier step in the
high halves it is two steps of the chain. So that A may lie with its rows adjacent, as other
kernels read it, two of its columns are interleaved in registers: an unpack of the halves of two
vectors costs less than an interleave in order, and leaves the rows of both vectors permuted until
the sums are stored. The two elements of B that go to all lanes meet in memory, on the stack, as
they are broadcast from there at no cost to the multipliers.

    rows of unpacked vectors    0-3 8-11 16-19 24-27    4-7 12-15 20-23 28-31
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.compile_ir import machine_for
from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load
from teir.backends.llvm.emit_numbers import narrow
from teir.backends.llvm.emit_products import Arithmetic, multiply_add
from teir.backends.llvm.emit_text import (
    FunctionText,
    repeated,
    shift_pointer,
    shuffle,
    splat,
    vector,
)
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.kernels import PAIR_ROWS, GemmBlock
from teir.target import Isa

ROWS = PAIR_ROWS
_FEATURE = "+avx512bf16"
_FEW_ROWS = (4, 8)
"""Of blocks one vector high, whose vectors are as short."""
_UNPACKED = ((0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
PAIRS_BROUGHT = 4
"""Pairs of adjacent factors that a block with one vector of rows brings by one load."""
_WORD_BYTES = 4
_INSTRUCTION = "@llvm.x86.avx512bf16.dpbf16ps"
_HIGH_HALVES = -(1 << 16)
_NARROW = "@llvm.x86.avx512bf16.cvtneps2bf16"
_SHORTEST_NARROWED = 8
_NARROW_TWO = "@llvm.x86.avx512bf16.cvtne2ps2bf16.512"


def has_pairs(isa: Isa) -> bool:
    """True where code for ``isa`` may use the instruction."""
    return isa.is_avx512 and _FEATURE in machine_for(isa).features.split(",")


def takes_pairs(kernel: GemmBlock, isa: Isa) -> bool:
    """True where the block is one the instruction serves, and the machine has it."""
    return (
        kernel.flushes
        and kernel.in_type is DataType.BF16
        and (kernel.lanes == ROWS or (kernel.lanes in _FEW_ROWS and kernel.vectors == 1))
        and kernel.a_access is Access.UNIT
        and has_pairs(isa)
    )


def brings_pairs(kernel: GemmBlock) -> bool:
    """True for a block that brings several pairs of a column by one load."""
    return kernel.b_adjacent and kernel.vectors == 1


@dataclass(frozen=True, slots=True)
class PairRows:
    """The rows of A as the instruction reads them: two vectors at a time, the last alone if odd.

    ``lanes`` has the lanes of each group; ``slots`` is memory for the 32-bit words of
    every column that are brought at once; ``rows`` are those of a vector.
    """

    lanes: tuple[Lanes, ...]
    slots: str
    rows: int


def pair_rows(text: FunctionText, kernel: GemmBlock, isa: Isa, last_lanes: str | None) -> PairRows:
    """Emit what addressing the rows needs; ``last_lanes`` of the last vector exist."""
    groups, rows = [], kernel.lanes
    for first in range(0, kernel.vectors, 2):
        vectors = min(2, kernel.vectors - first)
        existing = None
        if last_lanes is not None and first + vectors == kernel.vectors:
            existing = text.value(f"add i64 {last_lanes}, {rows * (vectors - 1)}")
        groups.append(
            lanes_in_memory(text, isa, DataType.BF16, rows * vectors, Access.UNIT, "0", existing)
        )
    words = kernel.columns * (PAIRS_BROUGHT if brings_pairs(kernel) else 1)
    slots = text.value(f"alloca [{words} x i32], align 64")
    return PairRows(tuple(groups), slots, rows)


def load_pair_factors(
    text: FunctionText, rows: PairRows, first: str, second: str | None
) -> list[str]:
    """The rows of two columns of A, interleaved; a missing second column is zero."""
    factors = []
    for number, lanes in enumerate(rows.lanes):
        offset = 2 * rows.rows * DataType.BF16.width * number
        early = load(text, lanes, shift_pointer(text, first, offset))
        late = "zeroinitializer"
        if second is not None:
            late = load(text, lanes, shift_pointer(text, second, offset))
        factors += interleaved(text, lanes.count, early, late)
    return factors


def interleaved(text: FunctionText, count: int, early: str, late: str) -> list[str]:
    """``count`` rows of two columns of A as the instruction reads them, permuted if over 16."""
    factors = []
    for pattern in _patterns(count):
        words = shuffle(text, "i16", count, early, late, pattern)
        numbers = vector("bfloat", len(pattern))
        factors.append(text.value(f"bitcast {vector('i16', len(pattern))} {words} to {numbers}"))
    return factors


def _patterns(count: int) -> list[list[int]]:
    """The words each interleaved vector takes: low halves from the late column, high from early."""
    orders = [list(range(min(count, ROWS)))]
    if count > ROWS:
        orders = [[half + row for half in (0, 16) for row in part] for part in _UNPACKED]
    return [[word for row in order for word in (count + row, row)] for order in orders]


def load_adjacent_scale(
    text: FunctionText, slots: str, column: int, place: str, rows: int = ROWS
) -> str:
    """The elements of B at ``place`` (the earlier) and right after it, in every lane.

    ``slots``: memory for one 32-bit word per column.
    """
    words = text.value(f"load i32, ptr {place}, align 1")
    pair = text.value(f"call i32 @llvm.fshl.i32(i32 {words}, i32 {words}, i32 16)")
    return _broadcast(text, slots, column, pair, rows)


def store_turned_pairs(text: FunctionText, pairs: PairRows, column: int, place: str) -> None:
    """Store the pairs of adjacent elements of B from ``place`` on, the earlier in high halves."""
    kind = vector("i32", PAIRS_BROUGHT)
    words = text.value(f"load {kind}, ptr {place}, align 1")
    _store_words(text, _slot(text, pairs, column, 0), words, PAIRS_BROUGHT)


def store_turned(text: FunctionText, slot: str, numbers: str) -> None:
    """The same of a vector of 32 elements."""
    words = text.value(f"bitcast {vector('i16', 2 * ROWS)} {numbers} to {vector('i32', ROWS)}")
    _store_words(text, slot, words, ROWS)


def _store_words(text: FunctionText, slot: str, words: str, count: int) -> None:
    kind = vector("i32", count)
    operands = f"{kind} {words}, {kind} {words}, {kind} {repeated('i32', count, 16)}"
    turned = text.value(f"call {kind} @llvm.fshl.v{count}i32({operands})")
    text.effect(f"store volatile {kind} {turned}, ptr {slot}, align {count * _WORD_BYTES}")


def stored_pair(text: FunctionText, pairs: PairRows, column: int, number: int) -> str:
    """One of the pairs that `store_turned_pairs` stored, in every lane."""
    return stored_scale(text, _slot(text, pairs, column, number), pairs.rows)


def _slot(text: FunctionText, pairs: PairRows, column: int, number: int) -> str:
    offset = _WORD_BYTES * (PAIRS_BROUGHT * column + number)
    return shift_pointer(text, pairs.slots, offset)


def load_pair_scale(
    text: FunctionText, slots: str, column: int, first: str, second: str, rows: int = ROWS
) -> str:
    """The elements of B at ``first`` (the earlier) and ``second``, in every lane."""
    early = text.value(f"shl i32 {_word(text, first)}, 16")
    pair = text.value(f"or i32 {early}, {_word(text, second)}")
    return _broadcast(text, slots, column, pair, rows)


def load_single_scale(
    text: FunctionText, slots: str, column: int, place: str, rows: int = ROWS
) -> str:
    """The element of B at ``place`` and zero, in every lane."""
    single = text.value(f"shl i32 {_word(text, place)}, 16")
    return _broadcast(text, slots, column, single, rows)


def _broadcast(text: FunctionText, slots: str, column: int, pair: str, rows: int) -> str:
    slot = shift_pointer(text, slots, 4 * column)
    text.effect(f"store volatile i32 {pair}, ptr {slot}, align 4")
    return stored_scale(text, slot, rows)


def stored_scale(text: FunctionText, slot: str, rows: int = ROWS) -> str:
    """The word at ``slot`` in every lane."""
    stored = text.value(f"load i32, ptr {slot}, align 4")
    words = splat(text, "i32", stored, rows)
    return text.value(f"bitcast {vector('i32', rows)} {words} to {vector('bfloat', 2 * rows)}")


def _word(text: FunctionText, place: str) -> str:
    word = text.value(f"load i16, ptr {place}, align 1")
    return text.value(f"zext i16 {word} to i32")


def add_pair(text: FunctionText, factor: str, scale: str, total: str, rows: int = ROWS) -> str:
    """Two steps of the chain."""
    sums, numbers = vector("float", rows), vector("bfloat", 2 * rows)
    return text.value(
        f"call {sums} {_INSTRUCTION}.{32 * rows}({sums} {total}, {numbers} {factor}, "
        f"{numbers} {scale})"
    )


def add_two_steps(text: FunctionText, isa: Isa, factor: str, scale: str, total: str) -> str:
    """Two steps of the chain, by two multiply-adds where the processor has no such instruction:
    their function must count subnormal numbers as zero."""
    if has_pairs(isa):
        return add_pair(text, factor, scale, total)
    kind = Arithmetic(isa, DataType.FP32, ROWS)
    for part in (_early, _late):
        total = multiply_add(text, kind, part(text, factor), part(text, scale), total)
    return total


def _early(text: FunctionText, pairs: str) -> str:
    words = text.value(f"bitcast <32 x bfloat> {pairs} to <16 x i32>")
    high = text.value(f"and <16 x i32> {words}, {repeated('i32', ROWS, _HIGH_HALVES)}")
    return text.value(f"bitcast <16 x i32> {high} to <16 x float>")


def _late(text: FunctionText, pairs: str) -> str:
    words = text.value(f"bitcast <32 x bfloat> {pairs} to <16 x i32>")
    high = text.value(f"shl <16 x i32> {words}, {repeated('i32', ROWS, 16)}")
    return text.value(f"bitcast <16 x i32> {high} to <16 x float>")


def narrow_sum(text: FunctionText, total: str, rows: int = ROWS) -> str:
    """A vector of sums as BF16, rounded to nearest even; no sum is subnormal here."""
    if rows < _SHORTEST_NARROWED:
        return narrow(text, DataType.BF16, Isa.AVX512, total, rows)
    sums, numbers = vector("float", rows), vector("bfloat", rows)
    rounded = text.value(f"call {numbers} {_NARROW}.{32 * rows}({sums} {total})")
    return text.value(f"bitcast {numbers} {rounded} to {vector('i16', rows)}")


def narrow_sums(text: FunctionText, one: str, other: str) -> str:
    """As `narrow_sum` of two vectors, the second behind the first."""
    kind = "<16 x float>"
    numbers = text.value(f"call <32 x bfloat> {_NARROW_TWO}({kind} {other}, {kind} {one})")
    return text.value(f"bitcast <32 x bfloat> {numbers} to <32 x i16>")


def narrow_permuted(text: FunctionText, one: str, other: str) -> str:
    """As `narrow_sum` of two vectors as the accumulators hold them: their rows in order, <8 x i64>.

    What lies side by side in a permuted vector are four rows, a 64-bit word of the result.
    """
    numbers = narrow_sums(text, one, other)
    words = text.value(f"bitcast <32 x i16> {numbers} to <8 x i64>")
    return shuffle(text, "i64", 8, words, "poison", [0, 4, 1, 5, 2, 6, 3, 7])


def as_permuted(text: FunctionText, sums: list[str]) -> list[str]:
    """Vectors of rows in order, as the accumulators hold them."""
    return _regrouped(text, sums, _TO_PERMUTED)


def as_ordered(text: FunctionText, sums: list[str]) -> list[str]:
    """What the accumulators hold, as vectors of rows in order."""
    return _regrouped(text, sums, _TO_ORDERED)


_ROWS_OF_PERMUTED = [half + row for part in _UNPACKED for half in (0, 16) for row in part]
_TO_PERMUTED = (_ROWS_OF_PERMUTED[:ROWS], _ROWS_OF_PERMUTED[ROWS:])
_PLACES = [_ROWS_OF_PERMUTED.index(row) for row in range(2 * ROWS)]
_TO_ORDERED = (_PLACES[:ROWS], _PLACES[ROWS:])


def _regrouped(
    text: FunctionText, sums: list[str], patterns: tuple[list[int], list[int]]
) -> list[str]:
    moved = list(sums)
    for first in range(0, len(sums) - 1, 2):
        one, other = sums[first : first + 2]
        moved[first : first + 2] = [
            shuffle(text, "float", ROWS, one, other, pattern) for pattern in patterns
        ]
    return moved
