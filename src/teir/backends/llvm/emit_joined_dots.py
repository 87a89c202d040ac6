"""Sums in chains over short rows that lie one behind the other, vectors across their ends.

for every ``chains`` rows: load all their elements, multiply and add, one chain per lane
the rows left, elements without a row masked
halve the chains until one is left: the sums are one run of numbers, of which the upper half is
added to the lower; add to the output
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_when
from teir.backends.llvm.emit_products import Arithmetic, add_all
from teir.backends.llvm.emit_text import (
    FunctionText,
    constants,
    shift_pointer,
    shuffle,
    splat,
    vector,
)
from teir.lower.kernels import JoinedDots
from teir.target import Isa

JOINED_DOTS_ARGUMENTS = ("k", "accumulate")
_SUFFIX = {"float": "f32", "double": "f64"}


def emit_joined_dots_body(kernel: JoinedDots, isa: Isa, names: tuple[str, ...]) -> FunctionText:
    """The body for operand pointers ``names`` and the arguments of `JoinedDots`."""
    text = FunctionText()
    text.label("entry")
    body = _Body(text, kernel, Arithmetic(isa, kernel.data_type, kernel.lanes))
    *inputs, out = names
    body.finish(out, body.sums(inputs))
    text.effect("ret void")
    return text


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written; sums lie as the elements of ``chains`` rows do."""

    text: FunctionText
    kernel: JoinedDots
    kind: Arithmetic

    @property
    def _vectors(self) -> int:
        return self.kernel.columns * self.kernel.chains // self.kernel.lanes

    def sums(self, inputs: Sequence[str]) -> Values:
        text, kernel = self.text, self.kernel
        block_bytes = kernel.chains * kernel.data_type.width
        count = len(inputs)

        def step(now: Values) -> Values:
            added = self._added(now[:count], now[count:], None)
            moved = [
                shift_pointer(text, place, block_bytes * (1 if spread else kernel.columns))
                for place, spread in zip(now[:count], kernel.spread, strict=True)
            ]
            return [*moved, *added]

        carried = [Carried("ptr", place) for place in inputs]
        carried += [Carried(self.kind.kind, "zeroinitializer")] * self._vectors
        left, now = emit_loop(text, "rows", "%k", kernel.chains, carried, step)
        some = text.value(f"icmp sgt i64 {left}, 0")
        still = [Carried(self.kind.kind, one) for one in now[count:]]
        return emit_when(
            text, "rest", some, still, lambda: self._added(now[:count], now[count:], left)
        )

    def _added(self, places: Values, sums: Values, left: str | None) -> Values:
        """The sums with one row more per chain, or per chain below ``left``."""
        kernel, added = self.kernel, []
        rows: dict[tuple[int, int], str] = {}
        ends = left and self.text.value(f"mul i64 {left}, {kernel.columns}")
        for number, total in enumerate(sums):
            group, place = divmod(number, kernel.columns)
            factors = []
            for operand, spread in enumerate(kernel.spread):
                if not spread:
                    factors.append(self._load(places[operand], number, ends))
                    continue
                if (operand, group) not in rows:
                    rows[operand, group] = self._load(places[operand], group, left)
                lanes = range(place * kernel.lanes, (place + 1) * kernel.lanes)
                picked = [lane // kernel.columns for lane in lanes]
                factors.append(self._picked(rows[operand, group], "poison", picked))
            added.append(add_all(self.text, self.kind, factors, total))
        return added

    def _load(self, place: str, number: int, left: str | None) -> str:
        """One vector; zeros for elements from ``left`` on."""
        text, lanes, kind = self.text, self.kernel.lanes, self.kind.kind
        first = number * lanes
        address = shift_pointer(text, place, first * self.kernel.data_type.width)
        if left is None:
            return text.value(f"load {kind}, ptr {address}, align 1")
        limit = splat(text, "i64", left, lanes)
        numbered = constants("i64", range(first, first + lanes))
        mask = text.value(f"icmp slt {vector('i64', lanes)} {numbered}, {limit}")
        return text.value(
            f"call {kind} @llvm.masked.load.v{lanes}{_SUFFIX[self.kind.element]}.p0("
            f"ptr {address}, i32 1, <{lanes} x i1> {mask}, {kind} zeroinitializer)"
        )

    def finish(self, out: str, sums: Values) -> None:
        """Halve the chains to one, add the output where it counts, store."""
        text, kernel, lanes = self.text, self.kernel, self.kernel.lanes
        elements = kernel.columns * kernel.chains
        while elements > kernel.columns:
            elements //= 2
            upper = [self._run(sums, elements + at) for at in range(0, elements, lanes)]
            lower = sums[: len(upper)]
            pairs = zip(lower, upper, strict=True)
            sums = [text.value(f"fadd {self.kind.kind} {one}, {two}") for one, two in pairs]
        counts = text.value("icmp ne i64 %accumulate, 0")
        for number, total in enumerate(sums):
            count = min(lanes, kernel.columns - number * lanes)
            self._store(
                shift_pointer(text, out, number * lanes * kernel.data_type.width),
                self._picked(total, "poison", range(count)),
                count,
                (number, counts),
            )

    def _run(self, sums: Values, first: int) -> str:
        """As many sums as a vector has from ``first`` on; behind the last sum anything."""
        number, shift = divmod(first, self.kernel.lanes)
        if not shift:
            return sums[number]
        following = sums[number + 1] if number + 1 < len(sums) else sums[number]
        return self._picked(sums[number], following, range(shift, shift + self.kernel.lanes))

    def _picked(self, left: str, right: str, lanes: Sequence[int]) -> str:
        return shuffle(self.text, self.kind.element, self.kernel.lanes, left, right, lanes)

    def _store(self, address: str, total: str, count: int, when: tuple[int, str]) -> None:
        text, kind = self.text, vector(self.kind.element, count)
        number, counts = when

        def load() -> Values:
            return [text.value(f"load {kind}, ptr {address}, align 1")]

        zero = [Carried(kind, "zeroinitializer")]
        (start,) = emit_when(text, f"start{number}", counts, zero, load)
        value = text.value(f"fadd {kind} {start}, {total}")
        text.effect(f"store {kind} {value}, ptr {address}, align 1")
