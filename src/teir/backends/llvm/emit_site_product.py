"""Small matrices along sites of adjacent elements: sums of permuted vectors.

factors: for every product of every column, what it multiplies each lane by
for every row of sites
  for every vector of sites: load A, permute, multiply-add for every product; store C
  where whole vectors would write over others: as many lanes of each as have sites
  the sites left: a vector in part

A vector that sites do not fill is stored whole: what it writes behind them the next one writes
again. How sums are formed is in `emit_site_sums` and `emit_pair_sites`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_flush import start_flushing, stop_flushing
from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_strides, emit_when
from teir.backends.llvm.emit_pair_sites import pair_sums
from teir.backends.llvm.emit_pairs import has_pairs
from teir.backends.llvm.emit_site_numbers import SiteSums, offsets
from teir.backends.llvm.emit_site_sums import full_sums
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.dtypes import DataType
from teir.lower.access import Access
from teir.lower.site_kernels import BLOCK_LOOPS, SiteProduct
from teir.target import Isa


def site_product_arguments(kernel: SiteProduct) -> tuple[str, ...]:
    """The names of the arguments of `SiteProduct`."""
    outer_sums = (
        f"{operand}_outer_sum{number}"
        for number in range(len(kernel.outer_sums))
        for operand in "ab"
    )
    outer_columns = (
        f"{operand}_outer_column{number}"
        for number in range(len(kernel.outer_columns))
        for operand in "bc"
    )
    columns = (f"b_column{number}" for number in range(len(kernel.columns)))
    sums = (f"b_sum{number}" for number in range(len(kernel.sums)))
    counted = ("count", "a_site", "c_site")
    blocks = (
        f"{word}{number}"
        for number in range(BLOCK_LOOPS)
        for word in ("blocks", "a_block", "c_block")
    )
    return (*counted, *blocks, "accumulate", *outer_sums, *outer_columns, *columns, *sums)


def emit_site_product_body(kernel: SiteProduct, isa: Isa) -> FunctionText:
    """The body of the function for operands %A, %B, %C and the arguments of `SiteProduct`."""
    text = FunctionText()
    text.label("entry")
    if kernel.data_type is not DataType.BF16:
        _emit_rows(text, kernel, isa, full_sums(text, kernel, isa))
        text.effect("ret void")
        return text
    before = None if has_pairs(isa) else start_flushing(text, isa)
    _emit_rows(text, kernel, isa, pair_sums(text, kernel, isa))
    text.effect("br label %exit")
    text.label("exit")
    stop_flushing(text, isa, before)
    text.effect("ret void")
    return text


def _emit_rows(text: FunctionText, kernel: SiteProduct, isa: Isa, sums: SiteSums) -> None:
    sums_at = offsets(text, kernel.outer_sums, "%a_outer_sum")
    columns_at = offsets(text, kernel.outer_columns, "%c_outer_column")
    _Body(text, kernel, isa, sums, sums_at, columns_at).rows()


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written."""

    text: FunctionText
    kernel: SiteProduct
    isa: Isa
    sums: SiteSums
    sums_at: Sequence[str | int]
    columns_at: Sequence[str | int]

    def rows(self) -> None:
        """All rows of sites."""
        text = self.text
        counts = text.value("icmp ne i64 %accumulate, 0")
        whole, left = self._passes(counts)

        def walk(level: int, places: Values) -> None:
            if not level:
                ends = self._whole_vectors(whole, places, counts)
                self._rest(left, self._lanes_of_vectors(left, ends, counts), counts)
                return
            number = level - 1

            def turn(now: Values) -> Values:
                walk(number, now)
                return [
                    shift_pointer(text, place, f"%{name}_block{number}")
                    for name, place in zip("ac", now, strict=True)
                ]

            carried = [Carried("ptr", place) for place in places]
            emit_loop(text, f"block{number}", f"%blocks{number}", 1, carried, turn)

        walk(BLOCK_LOOPS, ["%A", "%C"])

    def _passes(self, counts: str) -> tuple[str, str]:
        """How many vectors of a row are moved whole, and the sites behind them."""
        text, kernel = self.text, self.kernel
        if kernel.is_whole:
            passes = text.value(f"udiv i64 %count, {kernel.sites}")
        else:
            # Whole vectors reach this far: no element behind a row is read or written.
            reaches = (kernel.lanes, kernel.a_elements), (kernel.c_lanes, kernel.c_elements)
            reach = max(-(-lanes // elements) for lanes, elements in reaches)
            over = text.value(f"sub i64 %count, {reach - kernel.sites}")
            some = text.value(f"call i64 @llvm.smax.i64(i64 {over}, i64 0)")
            full = text.value(f"udiv i64 {some}, {kernel.sites}")
            is_plain = text.value(f"xor i1 {counts}, true")
            are_joined = [self._follow(name) for name in "ac"]
            for one in are_joined:
                is_plain = text.value(f"and i1 {is_plain}, {one}")
            passes = text.value(f"select i1 {is_plain}, i64 {full}, i64 0")
        taken = text.value(f"mul i64 {passes}, {kernel.sites}")
        return passes, text.value(f"sub i64 %count, {taken}")

    def _follow(self, operand: str) -> str:
        """Whether one vector's sites follow those of the one before."""
        kernel = self.kernel
        elements = kernel.a_elements if operand == "a" else kernel.c_elements
        size = kernel.sites * elements * kernel.data_type.width
        return self.text.value(f"icmp eq i64 %{operand}_site, {size}")

    def _whole_vectors(self, passes: str, places: Values, counts: str) -> Values:
        """The vectors moved whole, each of A loaded before the one before is stored.

        A load waits for an earlier store to the same place of another page, until that is known to
        be another one: results so lie beside factors wherever both begin a few elements apart.
        """
        kernel = self.kernel
        taken, made = (Lanes(kernel.data_type, lanes) for lanes in (kernel.lanes, kernel.c_lanes))

        def turn(places: Values, readable: Callable[[int], str], loaded: Values) -> Values:
            following = self._loaded(readable(0), taken)
            c = places[1]
            self._finish(loaded, self._before("whole", c, made, counts), c, made)
            return following

        def begin() -> list[Carried]:
            loaded = self._loaded(places[0], taken)
            return [Carried(self.sums.loaded_kind, one) for one in loaded]

        return self._in_turn("whole_vectors", passes, places, begin, turn)

    def _lanes_of_vectors(self, left: str, places: Values, counts: str) -> Values:
        """The vectors full of sites among those left, each of C loaded before the one before is
        stored: a load waits for an earlier store to lanes that this leaves out.
        """
        text, kernel = self.text, self.kernel
        if kernel.is_whole:
            return places
        moves = self._moves(str(kernel.sites))
        full = text.value(f"udiv i64 {left}, {kernel.sites}")

        def turn(places: Values, readable: Callable[[int], str], sums: Values) -> Values:
            loaded = self._loaded(places[0], moves[0])
            following = self._before("following", readable(1), moves[1], counts)
            self._finish(loaded, sums, places[1], moves[1])
            return following

        def begin() -> list[Carried]:
            sums = self._before("first", places[1], moves[1], counts)
            return [Carried(self.sums.kind, one) for one in sums]

        return self._in_turn("lanes", full, places, begin, turn)

    def _in_turn(
        self,
        label: str,
        count: str,
        places: Values,
        begin: Callable[[], list[Carried]],
        turn: Callable[[Values, Callable[[int], str], Values], Values],
    ) -> Values:
        """The places behind ``count`` vectors. ``begin`` loads ahead of the first one; ``turn``
        forms one at its places from what was loaded ahead, and loads from where it may read next.
        """
        text = self.text

        def vectors(left: str, now: Values) -> tuple[str, Values]:
            here, loaded = now[:2], now[2:]
            is_last = text.value(f"icmp eq i64 {left}, 1")
            then = self._moved(here)

            def readable(operand: int) -> str:
                return text.value(f"select i1 {is_last}, ptr {here[operand]}, ptr {then[operand]}")

            return "1", [*then, *turn(here, readable, loaded)]

        pointers = [Carried("ptr", place) for place in places]

        def run() -> Values:
            return emit_strides(text, label, count, pointers + begin(), vectors)[:2]

        some = text.value(f"icmp sgt i64 {count}, 0")
        return emit_when(text, f"{label}_some", some, pointers, run)

    def _rest(self, left: str, places: Values, counts: str) -> None:
        """The sites that fill no vector."""
        text, kernel = self.text, self.kernel
        rest = text.value(f"urem i64 {left}, {kernel.sites}")

        def part() -> Values:
            moves = self._moves(rest)
            sums = self._before("part", places[1], moves[1], counts)
            self._finish(self._loaded(places[0], moves[0]), sums, places[1], moves[1])
            return []

        emit_when(text, "rest", text.value(f"icmp sgt i64 {rest}, 0"), [], part)

    def _moves(self, sites: str) -> tuple[Lanes, Lanes]:
        """The lanes of so many sites in A and in C."""
        text, kernel = self.text, self.kernel

        def existing(lanes: int, elements: int) -> Lanes:
            count = text.value(f"mul i64 {sites}, {elements}")
            return lanes_in_memory(text, self.isa, kernel.data_type, lanes, Access.UNIT, "0", count)

        return (
            existing(kernel.lanes, kernel.a_elements),
            existing(kernel.c_lanes, kernel.c_elements),
        )

    def _moved(self, places: Values) -> Values:
        """The places of the next vector's sites."""
        return [
            shift_pointer(self.text, place, f"%{name}_site")
            for name, place in zip("ac", places, strict=True)
        ]

    def _loaded(self, a: str, lanes: Lanes) -> Values:
        """A vector of A for every outer product."""
        text = self.text
        return [load(text, lanes, shift_pointer(text, a, offset)) for offset in self.sums_at]

    def _before(self, label: str, c: str, lanes: Lanes, counts: str) -> Values:
        """What a vector of sites of every outer column is added to."""
        text, sums = self.text, self.sums
        zeros = [Carried(sums.kind, "zeroinitializer")] * (len(self.columns_at) * sums.vectors)

        def load_c() -> Values:
            places = [shift_pointer(text, c, offset) for offset in self.columns_at]
            return [one for place in places for one in sums.opened(load(text, lanes, place))]

        return emit_when(text, label, counts, zeros, load_c)

    def _finish(self, loaded: Values, sums: Values, c: str, lanes: Lanes) -> None:
        """Form and store one vector of sites of every outer column."""
        text, each = self.text, self.sums.vectors
        totals = self.sums.added(loaded, sums)
        for number, offset in enumerate(self.columns_at):
            rounded = self.sums.rounded(totals[number * each : (number + 1) * each])
            store(text, lanes, shift_pointer(text, c, offset), rounded)
