"""Elements of several vectors, brought into another order by constant shuffles of two vectors.

An even number of vectors is two halves, whose vectors are shuffled in pairs; of an odd number, what
belongs together is taken from one vector after another.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from teir.backends.llvm.emit_text import FunctionText, shift_pointer, vector

_WORD_BYTES = 8


class Shuffles(msgspec.Struct, frozen=True, gc=False):
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

    def loaded_in_part(self, pointer: str, wanted: Sequence[bool]) -> str:
        """The wanted elements of the vector at ``pointer``; no other byte is read."""
        bits = ", ".join(f"i1 {str(one).lower()}" for one in wanted for _ in range(self.words))
        numbers = self.lanes * self.words
        suffix = f"v{numbers}i{8 * min(self.element_bytes, _WORD_BYTES)}"
        return self.text.value(
            f"call {self.kind} @llvm.masked.load.{suffix}.p0(ptr {pointer}, i32 1, "
            f"<{numbers} x i1> <{bits}>, {self.kind} zeroinitializer)"
        )

    def every(self, pointer: str, step: int) -> str:
        """Every ``step``-th element from ``pointer`` on; what lies between them is not read."""
        if step == 1:
            return self.text.value(f"load {self.kind}, ptr {pointer}, align 1")
        width, lanes = self.element_bytes, self.lanes
        loaded = [
            self.loaded_in_part(
                shift_pointer(self.text, pointer, number * lanes * width),
                [(number * lanes + lane) % step == 0 for lane in range(lanes)],
            )
            for number in range(step)
        ]
        return self.picked(loaded, [divmod(lane * step, lanes) for lane in range(lanes)])

    def joined(self, apart: Sequence[str]) -> list[str]:
        """Vectors whose elements take turns: all first elements, all second ones, and so on."""
        side, lanes = len(apart), self.lanes
        if side == 1:
            return list(apart)
        if side % 2:
            places = [divmod(place, side) for place in range(side * lanes)]
            return [
                self.picked(apart, [(s, n) for n, s in places[j * lanes : (j + 1) * lanes]])
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
                self.picked(together, [divmod(n * side + s, lanes) for n in range(lanes)])
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

    def picked(self, sources: Sequence[str], wanted: Sequence[tuple[int, int]]) -> str:
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
