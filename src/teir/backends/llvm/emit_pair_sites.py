"""The sums of small matrices of BF16 along sites: two products at once by `vdpbf16ps`.

    A      k0 k1 k2 k3 | k0 k1 k2 k3 | ...       the rows of two sites, a word each
    taken  k1 k0 | k1 k0 | ... | k1 k0 | ...     a pair of them in every lane of their results
    B      n0: k1 k0 | n1: k1 k0 | ...

One `vpermw` brings the pairs of all lanes into place, wherever they lie in the vector, with the
earlier step in the high half (see `emit_pairs`). Where all results of a vector of sums are of one
row they take the same pair: it goes to all lanes from memory, on the stack, at no cost to the
units that permute and multiply. A vector of 32 results is two of sums, which one instruction rounds
and leaves in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_loops import Values
from teir.backends.llvm.emit_numbers import narrow
from teir.backends.llvm.emit_pairs import (
    ROWS,
    add_two_steps,
    has_pairs,
    narrow_sum,
    narrow_sums,
    store_turned,
    stored_scale,
)
from teir.backends.llvm.emit_site_numbers import lanes_of_sites, offsets
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, shuffle
from teir.dtypes import DataType
from teir.lower.site_kernels import SiteProduct
from teir.target import Isa

_WORDS = 2 * ROWS
_PAIRS = f"<{_WORDS} x bfloat>"
_SUMS = f"<{ROWS} x float>"
_FEWEST_FROM_MEMORY = 3
"""Pairs of a sum from which bringing them from memory pays: with 16 columns 0.81 to 0.95 of the
time of permuted vectors on Zen 4, of two pairs 1.04, of one 1.32."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One product: the vector of A it meets, and how far its factors lie behind the first there;
    where its factors are in B, by outer column."""

    vector: int
    behind: int
    starts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two steps, the second of which may be missing: the vectors of A; by vector of sums the words
    that are taken; by outer column and vector of sums, what they are multiplied by."""

    early: int
    late: int | None
    taken: tuple[tuple[int, ...], ...]
    factors: tuple[tuple[str, ...], ...]

    def single(self, number: int) -> int | None:
        """The place in the vector of A of the one pair that all lanes of a vector of sums take, a
        word of 32 bits; None where they take others, or all vectors the same: a permuted one then
        serves several, and takes less time."""
        late, early = self.taken[number][:2]
        is_word = self.late == self.early and early % 2 == 0 and late == early + 1
        is_same = len(set(self.taken[number])) == len((early, late))
        is_alone = len(set(self.taken)) == len(self.taken) and len(self.factors) == 1
        return early if is_word and is_same and is_alone else None


@dataclass(frozen=True, slots=True)
class PairSums:
    """Sums of pairs, in FP32 (see `SiteSums`); ``slots`` by vector of A where words of it go to all
    lanes."""

    text: FunctionText
    isa: Isa
    pairs: tuple[_Pair, ...]
    slots: dict[int, str]
    vectors: int
    kind: str = _SUMS
    loaded_kind: str = f"<{_WORDS} x i16>"

    def opened(self, stored: str) -> Values:
        text, found = self.text, []
        for first in range(0, ROWS * self.vectors, ROWS):
            rows = list(range(first, first + ROWS))
            words = shuffle(text, "i16", ROWS * self.vectors, stored, "poison", rows)
            wide = text.value(f"zext <{ROWS} x i16> {words} to <{ROWS} x i32>")
            high = text.value(f"shl <{ROWS} x i32> {wide}, splat (i32 16)")
            found.append(text.value(f"bitcast <{ROWS} x i32> {high} to {_SUMS}"))
        return found

    def added(self, loaded: Values, sums: Values) -> Values:
        text, found = self.text, list(sums)
        for vector, slot in self.slots.items():
            store_turned(text, slot, loaded[vector])
        for pair in self.pairs:
            for number in range(self.vectors):
                taken = self._taken(loaded, pair, number)
                for column, factors in enumerate(pair.factors):
                    place = column * self.vectors + number
                    total, factor = found[place], factors[number]
                    found[place] = add_two_steps(text, self.isa, factor, taken, total)
        return found

    def _taken(self, loaded: Values, pair: _Pair, number: int) -> str:
        single, words = pair.single(number), pair.taken[number]
        if single is not None and pair.early in self.slots:
            slot = shift_pointer(self.text, self.slots[pair.early], single * DataType.BF16.width)
            return stored_scale(self.text, slot)
        late = "zeroinitializer" if pair.late is None else loaded[pair.late]
        other = "poison" if pair.late == pair.early else late
        taken = shuffle(self.text, "i16", _WORDS, loaded[pair.early], other, words)
        return self.text.value(f"bitcast <{_WORDS} x i16> {taken} to {_PAIRS}")

    def rounded(self, sums: Values) -> str:
        text = self.text
        if has_pairs(self.isa):
            return narrow_sums(text, *sums) if self.vectors > 1 else narrow_sum(text, sums[0])
        halves = [narrow(text, DataType.BF16, self.isa, one, ROWS) for one in sums]
        if self.vectors == 1:
            return halves[0]
        return shuffle(text, "i16", ROWS, halves[0], halves[1], list(range(_WORDS)))


def pair_sums(text: FunctionText, kernel: SiteProduct, isa: Isa) -> PairSums:
    """The sums of a kernel of BF16, its factors loaded."""
    vectors = kernel.c_lanes // ROWS
    lanes = lanes_of_sites(kernel)
    parts = [lanes[first : first + ROWS] for first in range(0, len(lanes), ROWS)]
    columns_at = offsets(text, [axis.extent for axis in kernel.columns], "%b_column")
    steps = list(_steps(text, kernel))
    pairs = []
    for first in range(0, len(steps), 2):
        early, late = (*steps[first : first + 2], None)[:2]
        assert early is not None
        taken = tuple(_words(part, early, late) for part in parts)
        factors = tuple(
            _factors(text, columns_at, parts, start, None if late is None else late.starts[column])
            for column, start in enumerate(early.starts)
        )
        pairs.append(_Pair(early.vector, None if late is None else late.vector, taken, factors))
    return PairSums(text, isa, tuple(pairs), _slots(text, pairs, vectors), vectors)


def _slots(text: FunctionText, pairs: Sequence[_Pair], vectors: int) -> dict[int, str]:
    """Memory for every vector of A of which words go to all lanes, where they are many enough."""
    if len(pairs) < _FEWEST_FROM_MEMORY:
        return {}
    read = {pair.early for pair in pairs for one in range(vectors) if pair.single(one) is not None}
    return {vector: text.value(f"alloca [{ROWS} x i32], align 64") for vector in sorted(read)}


def _steps(text: FunctionText, kernel: SiteProduct) -> Iterator[_Step]:
    """All products of a sum in order."""
    sums_at = offsets(text, [axis.extent for axis in kernel.sums], "%b_sum")
    outer_columns = offsets(text, kernel.outer_columns, "%b_outer_column")
    outer_sums = offsets(text, kernel.outer_sums, "%b_outer_sum")
    for vector, outer in enumerate(outer_sums):
        for along, behind in zip(sums_at, kernel.products(), strict=True):
            start = shift_pointer(text, shift_pointer(text, "%B", along), outer)
            starts = tuple(shift_pointer(text, start, column) for column in outer_columns)
            yield _Step(vector, behind, starts)


def _words(lanes: Sequence[tuple[int, int]], early: _Step, late: _Step | None) -> tuple[int, ...]:
    """The words of two vectors that the lanes take, the later step's in the low half."""
    behind = _WORDS if late is None or late.vector != early.vector else 0
    return tuple(
        word
        for place, _ in lanes
        for word in (
            behind if late is None else place + late.behind + behind,
            place + early.behind,
        )
    )


def _factors(
    text: FunctionText,
    columns_at: Sequence[str | int],
    parts: Sequence[Sequence[tuple[int, int]]],
    early: str,
    late: str | None,
) -> tuple[str, ...]:
    """What the lanes of every vector of sums multiply their pairs by; equal vectors are one."""
    count = len(columns_at)
    first = _singles(text, columns_at, early)
    second = "zeroinitializer" if late is None else _singles(text, columns_at, late)
    known: dict[tuple[int, ...], str] = {}
    found = []
    for lanes in parts:
        columns = tuple(column for _, column in lanes)
        if columns not in known:
            words = [word for column in columns for word in (count + column, column)]
            picked = shuffle(text, "i16", count, first, second, words)
            known[columns] = text.value(f"bitcast <{_WORDS} x i16> {picked} to {_PAIRS}")
        found.append(known[columns])
    return tuple(found)


def _singles(text: FunctionText, columns_at: Sequence[str | int], start: str) -> str:
    """The factors of all columns inside a site."""
    kind, known = f"<{len(columns_at)} x i16>", "poison"
    for number, offset in enumerate(columns_at):
        single = text.value(f"load i16, ptr {shift_pointer(text, start, offset)}, align 1")
        known = text.value(f"insertelement {kind} {known}, i16 {single}, i64 {number}")
    return known
