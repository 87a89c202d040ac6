"""Transposing copies with a short side: vectors put together in registers, or taken apart.

    for every o
      for every vector of n, the last one moved back over its neighbour
        put together   load one vector of each s;  side vectors of whole rows are stored
        taken apart    load side vectors of whole rows;  one vector of each s is stored

An even side is two halves, whose vectors are shuffled in pairs; an odd one takes from one vector
after another what belongs to a row. Each shuffle is of two vectors, its pattern a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, vector
from teir.lower.copy_kernels import ShortTranspose

SHORT_TRANSPOSE_ARGUMENTS = ("n", "apart", "o", "in_o", "out_o")

_WORD_BYTES = 8


def emit_short_transpose_body(kernel: ShortTranspose) -> FunctionText:
    """The body for operands %A, %B and the arguments of `ShortTranspose`."""
    text = FunctionText()
    text.label("entry")
    text.effect(f"%n_last = sub i64 %n, {kernel.lanes}")
    text.effect(f"%over = add i64 %n, {kernel.lanes - 1}")
    carried = [Carried("ptr", "%A"), Carried("ptr", "%B")]
    emit_loop(text, "outer", "%o", 1, carried, partial(_rows, text, kernel))
    text.effect("ret void")
    return text


def _rows(text: FunctionText, kernel: ShortTranspose, starts: Values) -> Values:
    """All rows of one o, and where those of the next begin."""
    source, target = starts

    def block(carried: Values) -> Values:
        (begin,) = carried
        row = text.value(f"call i64 @llvm.smin.i64(i64 {begin}, i64 %n_last)")
        _block(text, kernel, source, target, row)
        return [text.value(f"add i64 {begin}, {kernel.lanes}")]

    emit_loop(text, "rows", "%over", kernel.lanes, [Carried("i64", "0")], block)
    return [shift_pointer(text, source, "%in_o"), shift_pointer(text, target, "%out_o")]


def _block(text: FunctionText, kernel: ShortTranspose, source: str, target: str, row: str) -> None:
    """A vector of n from this row on, along the whole short side."""
    width, side = kernel.element_bytes, kernel.side
    vectors = _Vectors(text, width, kernel.lanes)
    near = text.value(f"mul i64 {row}, {width}")
    whole = text.value(f"mul i64 {row}, {side * width}")
    reads, writes = (near, whole) if kernel.joins else (whole, near)
    places = _places(text, kernel, shift_pointer(text, source, reads), kernel.joins)
    loaded = [text.value(f"load {vectors.kind}, ptr {place}, align 1") for place in places]
    made = vectors.joined(loaded) if kernel.joins else vectors.split(loaded)
    places = _places(text, kernel, shift_pointer(text, target, writes), not kernel.joins)
    for place, value in zip(places, made, strict=True):
        text.effect(f"store {vectors.kind} {value}, ptr {place}, align 1")


def _places(text: FunctionText, kernel: ShortTranspose, start: str, is_apart: bool) -> list[str]:
    """Where the vectors of a block lie on one side."""
    if not is_apart:
        step = kernel.lanes * kernel.element_bytes
        return [shift_pointer(text, start, step * place) for place in range(kernel.side)]
    places = [start]
    for _ in range(kernel.side - 1):
        places.append(shift_pointer(text, places[-1], "%apart"))
    return places


class _Vectors(msgspec.Struct, frozen=True, gc=False):
    """Vectors of ``lanes`` elements, and what puts several together or takes them apart."""

    text: FunctionText
    element_bytes: int
    lanes: int

    @property
    def words(self) -> int:
        """Parts of an element that LLVM has a type for."""
        return max(1, self.element_bytes // _WORD_BYTES)

    @property
    def kind(self) -> str:
        word_bytes = min(self.element_bytes, _WORD_BYTES)
        return vector(f"i{8 * word_bytes}", self.lanes * self.words)

    def joined(self, apart: Sequence[str]) -> list[str]:
        """Vectors whose elements take turns: all first elements, all second ones, and so on."""
        side, lanes = len(apart), self.lanes
        if side == 1:
            return list(apart)
        if side % 2:
            places = [divmod(place, side) for place in range(side * lanes)]
            return [
                self._picked(apart, [(s, n) for n, s in places[j * lanes : (j + 1) * lanes]])
                for j in range(side)
            ]
        half = side // 2
        pairs = [self._pair(apart[s], apart[s + half]) for s in range(half)]
        return [one for part in range(2) for one in self.joined([pair[part] for pair in pairs])]

    def split(self, together: Sequence[str]) -> list[str]:
        """The inverse of `joined`."""
        side, lanes = len(together), self.lanes
        if side == 1:
            return list(together)
        if side % 2:
            return [
                self._picked(together, [divmod(n * side + s, lanes) for n in range(lanes)])
                for s in range(side)
            ]
        half = side // 2
        low, high = self.split(together[:half]), self.split(together[half:])
        return [
            self._shuffled(low[s], high[s], [2 * n + part for n in range(lanes)])
            for part in range(2)
            for s in range(half)
        ]

    def _pair(self, first: str, second: str) -> list[str]:
        """The elements of two vectors in turn, in two vectors."""
        turns = [place // 2 + place % 2 * self.lanes for place in range(2 * self.lanes)]
        parts = (turns[: self.lanes], turns[self.lanes :])
        return [self._shuffled(first, second, part) for part in parts]

    def _picked(self, sources: Sequence[str], wanted: Sequence[tuple[int, int]]) -> str:
        """A vector of these elements, each a vector and a place in it."""
        used = sorted({source for source, _ in wanted})
        value = sources[used[0]]
        for number, second in enumerate(used[1:]):
            pattern: list[int | None] = []
            for place, (source, lane) in enumerate(wanted):
                if source == second:
                    pattern.append(self.lanes + lane)
                elif source in used[: number + 1]:
                    pattern.append(place if number else lane)
                else:
                    pattern.append(None)
            value = self._shuffled(value, sources[second], pattern)
        return value

    def _shuffled(self, first: str, second: str, pattern: Sequence[int | None]) -> str:
        """Elements of two vectors; None: whatever is there."""
        literals = [
            "i32 poison" if place is None else f"i32 {place * self.words + word}"
            for place in pattern
            for word in range(self.words)
        ]
        mask = f"<{len(literals)} x i32> <{', '.join(literals)}>"
        kinds = f"{self.kind} {first}, {self.kind} {second}"
        return self.text.value(f"shufflevector {kinds}, {mask}")
