"""The register block of panels: exact vectors, rows of C in runs, stores past the caches.

    loop:    k left >= 4 + late -> four steps -> loop
             k left > late -> one step -> loop
             else store

Where a block staggers, its four last steps are late: they are done for some vectors of a column
after the others, and what is finished is stored while the products of the others go on. A burst of
stores at the end would keep the multipliers waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from teir.backends.llvm.emit_gemm_factors import add_product_of_element, panel_reads_factors
from teir.backends.llvm.emit_numbers import computed_number
from teir.backends.llvm.emit_opaque import opaque
from teir.backends.llvm.emit_panel_blocks import BROUGHT, begin_blocks, end_block
from teir.backends.llvm.emit_panel_lines import PanelLines, SumOf
from teir.backends.llvm.emit_panel_load import lanes_of, load_column
from teir.backends.llvm.emit_panel_requests import (
    bring_a,
    bring_next,
    claim_next,
    claim_unless,
    claim_unless_long,
    claims_in_steps,
    read_ahead,
)
from teir.backends.llvm.emit_panel_store import PanelStore, pieces_fit
from teir.backends.llvm.emit_panel_turned import begin_turning, may_turn
from teir.backends.llvm.emit_products import Arithmetic, multiply_add
from teir.backends.llvm.emit_text import (
    FunctionText,
    cache_of_next,
    multiple,
    prefetch,
    shift_pointer,
    splat,
    vector,
)
from teir.lower.kernels import PANEL_STEPS, PanelBlock
from teir.lower.panel_cuts import TALLEST
from teir.target import ARRAY_START_BYTES, MANY_REGISTERS, Isa

_ARGUMENTS = (
    "k", "a_k", "b_k", "b_n", "c_n", "c_run", "accumulate", "a_ahead", "b_ahead", "c_ahead"
)  # fmt: skip

LATE_STEPS = 4
_LATE_VECTORS = 4
_COLUMNS_PER_BASE = 4
"""Columns 0 to 3 are one base plus 0, 1, 2 or 3 times the column stride."""

Sums = list[list[str]]


@dataclass(frozen=True, slots=True)
class _State:
    """What changes from step to step: places in A and B (a base per group of columns), k left, and
    the line of C that is asked for next, and that of the next tile's A and its row, where that is
    done step by step."""

    a: str
    b: tuple[str, ...]
    k_left: str
    asked: tuple[str, ...]
    brought: tuple[str, ...]
    sums: Sums


def panel_arguments(kernel: PanelBlock) -> tuple[str, ...]:
    turned = ("a_turned",) if kernel.turns else ()
    blocks = ("blocks", "b_block", "c_block") if kernel.repeats else ()
    spread = ("a_steps_bytes", "a_row_bytes") if kernel.spreads else ()
    return (*_ARGUMENTS, *turned, *spread, *blocks)


def emit_panel_body(kernel: PanelBlock, isa: Isa) -> FunctionText:
    """The body for operands %A, %B, %C and the arguments of `PanelBlock`."""
    text = FunctionText()
    _Panel(text, kernel, isa).emit()
    return text


@dataclass(frozen=True, slots=True)
class _Panel:
    text: FunctionText
    kernel: PanelBlock
    isa: Isa

    @property
    def width(self) -> int:
        return self.kernel.data_type.width

    def lanes(self, number: int) -> int:
        return lanes_of(self.kernel, number)

    def kind(self, number: int) -> str:
        return vector(self.element, self.lanes(number))

    @property
    def _lines(self) -> PanelLines:
        return PanelLines(self.text, self.kernel, self.isa)

    @property
    def element(self) -> str:
        return computed_number(self.kernel.data_type)

    @property
    def _entry(self) -> str:
        """The block before the loop or the loading of C."""
        if self.kernel.claims and (self.kernel.streams or claims_in_steps(self.kernel)):
            return "begin"
        return "block" if self.kernel.repeats else "entry"

    @property
    def _turns(self) -> bool:
        return may_turn(self.kernel, self.isa)

    @property
    def _a(self) -> str:
        return "%turned_a" if self._turns else "%A"

    @property
    def _b(self) -> str:
        return "%block_b" if self.kernel.repeats else "%B"

    @property
    def _c(self) -> str:
        return "%block_c" if self.kernel.repeats else "%C"

    def emit(self) -> None:
        text = self.text
        text.label("entry")
        if self._turns:
            begin_turning(text, self._lines.begin_at(ARRAY_START_BYTES))
        if self.kernel.repeats:
            begin_blocks(text, self.kernel, self._a, self.element)
        columns = self._columns_of_c()
        bases = self._bases_of_b()
        fits = self._fits() if self.kernel.streams else None
        ends = self._ends(fits)
        if claims_in_steps(self.kernel):
            claim_unless_long(text, self.kernel, PANEL_STEPS, columns)
        elif self.kernel.claims:
            claim_unless(text, self.kernel, self._lines, fits, columns)
        fresh = text.value("icmp eq i64 %accumulate, 0")
        text.effect(f"br i1 {fresh}, label %loop, label %preload")
        text.label("preload")
        first = [load_column(text, self.kernel, runs) for runs in columns]
        text.effect("br label %loop")
        last = self._emit_loop(bases, first, columns, fits, ends)
        if self.kernel.repeats:
            end_block(text, last.brought)

    def _columns_of_c(self) -> list[tuple[str, ...]]:
        """For every column the places of its runs."""
        found = []
        for column in range(self.kernel.columns):
            distance = multiple(self.text, "%c_n", column)
            runs = [shift_pointer(self.text, self._c, distance)]
            for _ in range(1, self.kernel.runs):
                runs.append(shift_pointer(self.text, runs[-1], "%c_run"))
            found.append(tuple(runs))
        return found

    def _bases_of_b(self) -> tuple[str, ...]:
        if self.kernel.adjacent_columns:
            return (self._b,)
        bases = [self._b]
        if self.kernel.columns > 2:
            self.text.define("%b_n2", "shl i64 %b_n, 1")
        if self.kernel.columns > 3:
            self.text.define("%b_n3", "add i64 %b_n2, %b_n")
        if self.kernel.columns > _COLUMNS_PER_BASE:
            self.text.define("%b_n4", "shl i64 %b_n, 2")
        while len(bases) * _COLUMNS_PER_BASE < self.kernel.columns:
            bases.append(shift_pointer(self.text, bases[-1], "%b_n4"))
        return tuple(bases)

    def _place_in_b(self, bases: tuple[str, ...], column: int) -> str:
        if self.kernel.adjacent_columns:
            return shift_pointer(self.text, bases[0], column * self.width)
        base, left = divmod(column, _COLUMNS_PER_BASE)
        steps: tuple[str | int, ...] = (0, "%b_n", "%b_n2", "%b_n3")
        return shift_pointer(self.text, bases[base], steps[left])

    def _fits(self) -> tuple[str, str]:
        """What the two best ways to store need; see `PanelStore`."""
        lines = self._lines
        if not lines.exist:
            return pieces_fit(self.text, self.kernel, self._c)
        natural = "%turned" if self._turns else lines.begin_at(ARRAY_START_BYTES)
        return lines.begin_at(0), natural

    def _ends(self, fits: tuple[str, str] | None) -> tuple[str | int, str | int]:
        """Steps left when the block is stored, late ones in these ways, and PANEL_STEPS more."""
        late = LATE_STEPS if self.kernel.staggers else 0
        if not late or fits is None or not self._lines.exist:
            return late, late + PANEL_STEPS
        either = self.text.value(f"or i1 {fits[0]}, {fits[1]}")
        left = self.text.value(f"select i1 {either}, i64 {late}, i64 0")
        return left, self.text.value(f"add i64 {left}, {PANEL_STEPS}")

    # The loop over k.

    def _emit_loop(
        self,
        bases: tuple[str, ...],
        first: Sums,
        columns: list[tuple[str, ...]],
        fits: tuple[str, str] | None,
        ends: tuple[str | int, str | int],
    ) -> _State:
        text = self.text
        stored_at, many_from = ends
        state = _State(
            text.fresh(),
            tuple(text.fresh() for _ in bases),
            text.fresh(),
            (text.fresh(),) if claims_in_steps(self.kernel) else (),
            tuple(text.fresh() for _ in BROUGHT) if self.kernel.spreads else (),
            [[text.fresh() for _ in rows] for rows in first],
        )
        many = self._steps(state, "many", PANEL_STEPS)
        text.label("few")
        done = text.value(f"icmp eq i64 {state.k_left}, {stored_at}")
        text.effect(f"br i1 {done}, label %finish, label %one")
        one = self._steps(state, "one", 1)
        text.label("finish")
        store = PanelStore(text, self.kernel, self.isa, columns, fits)
        store.emit(lambda late: self._sums_at_end(state, late))
        self._head(state, bases, first, many, one, many_from)
        return state

    def _head(
        self,
        state: _State,
        bases: tuple[str, ...],
        first: Sums,
        many: _State,
        one: _State,
        many_from: str | int,
    ) -> None:
        text = self.text
        text.label("loop")
        zero = [["zeroinitializer"] * len(rows) for rows in first]
        asked = ("%c_asked",) if claims_in_steps(self.kernel) else ()
        brought = BROUGHT if self.kernel.spreads else ()
        sources = (
            (self._entry, _State(self._a, bases, "%k", asked, brought, zero)),
            ("preload", _State(self._a, bases, "%k", asked, brought, first)),
            ("many", many),
            ("one", one),
        )
        kinds = ["ptr"] * (1 + len(bases)) + ["i64"] + ["ptr"] * len(asked + brought)
        kinds += [self.kind(number) for _ in first for number in range(self.kernel.vectors)]
        for number, (name, kind) in enumerate(zip(_flat(state), kinds, strict=True)):
            incoming = ", ".join(
                f"[ {_flat(source)[number]}, %{label} ]" for label, source in sources
            )
            text.define(name, f"phi {kind} {incoming}")
        enough = text.value(f"icmp sge i64 {state.k_left}, {many_from}")
        text.effect(f"br i1 {enough}, label %many, label %few")

    def _sums_at_end(self, state: _State, late: bool) -> SumOf:
        """The sums a store writes; late steps are done where the first of a group is asked for."""
        if not self.kernel.staggers or not late:
            return lambda column, number: state.sums[column][number]
        found: dict[tuple[int, int], str] = {}

        def sum_of(column: int, number: int) -> str:
            if (column, number) not in found:
                group = self._group(number)
                sums = self._late_steps(state, column, group)
                found.update(zip(((column, one) for one in group), sums, strict=True))
            return found[column, number]

        return sum_of

    def _group(self, number: int) -> range:
        """The vectors of a column whose late steps are done together."""
        vectors = self.kernel.vectors
        size = vectors if vectors <= _LATE_VECTORS else 3
        start = number // size * size
        return range(start, min(start + size, vectors))

    def _late_steps(self, state: _State, column: int, group: range) -> list[str]:
        text, a, b = self.text, state.a, state.b
        sums = [state.sums[column][number] for number in group]
        for step in range(LATE_STEPS):
            if step:
                a = shift_pointer(text, a, "%a_k")
                b = tuple(shift_pointer(text, base, "%b_k") for base in b)
            if column == 0:
                bring_a(text, self.kernel, self.isa, a, group)
            factors = self._factors(a, group)
            sums = self._add_products(factors, self._place_in_b(b, column), group, sums)
        return sums

    def _steps(self, state: _State, label: str, steps: int) -> _State:
        text = self.text
        text.label(label)
        a, b, sums, asked, brought = state.a, state.b, state.sums, state.asked, state.brought
        if steps > 1 and asked:
            asked = (claim_next(text, asked[0]),)
        if steps > 1 and self.kernel.brings_b:
            ahead = tuple(shift_pointer(text, base, "%b_ahead") for base in b)
            for column in range(self.kernel.columns):
                prefetch(text, self._place_in_b(ahead, column), cache_of_next(self.isa))
        if steps > 1:
            read_ahead(text, self.kernel, steps, partial(self._place_in_b, b))
        for step in range(steps):
            if steps > 1 and brought:
                brought = bring_next(text, self.kernel, self.isa, step, brought)
            sums = self._step(a, b, sums)
            a = shift_pointer(text, a, "%a_k")
            b = tuple(self._next_of_b(base) for base in b)
        left = text.value(f"sub i64 {state.k_left}, {steps}")
        text.effect("br label %loop")
        return _State(a, b, left, asked, brought, sums)

    def _next_of_b(self, base: str) -> str:
        """Where B lies at the next step; a register of its own where factors are read from it."""
        following = shift_pointer(self.text, base, "%b_k")
        return opaque(self.text, "ptr", following) if self._reads_factors else following

    @property
    def _reads_factors(self) -> bool:
        return panel_reads_factors(self.kernel, self.isa)

    def _step(self, a: str, b: tuple[str, ...], sums: Sums) -> Sums:
        kernel = self.kernel
        every = range(kernel.vectors)
        bring_a(self.text, kernel, self.isa, a, every)
        if kernel.vectors > TALLEST and self.isa.vector_registers < MANY_REGISTERS:
            return self._step_by_vectors(a, b, sums)
        factors = self._factors(a, every)
        return [
            self._add_elements(factors, self._place_in_b(b, column), rows)
            if self._reads_factors and column % kernel.vectors == 0
            else self._add_products(factors, self._place_in_b(b, column), every, rows)
            for column, rows in enumerate(sums)
        ]

    def _step_by_vectors(self, a: str, b: tuple[str, ...], sums: Sums) -> Sums:
        """One vector of A at a time beside the factors of all columns."""
        text, lanes = self.text, self.kernel.lanes
        kind = Arithmetic(self.isa, self.kernel.data_type, lanes)
        scales = []
        for place in map(partial(self._place_in_b, b), range(self.kernel.columns)):
            scalar = text.value(f"load {self.element}, ptr {place}, align {self.width}")
            scales.append(splat(text, self.element, scalar, lanes))
        following: Sums = [[] for _ in sums]
        for number in range(self.kernel.vectors):
            (factor,) = self._factors(a, range(number, number + 1))
            for rows, scale, added in zip(sums, scales, following, strict=True):
                added.append(multiply_add(text, kind, factor, scale, rows[number]))
        return following

    def _add_elements(self, factors: list[str], place: str, sums: list[str]) -> list[str]:
        """As `_add_products`, every multiply-add reading the factor at ``place`` itself."""
        kind = Arithmetic(self.isa, self.kernel.data_type, self.kernel.lanes)
        return [
            add_product_of_element(self.text, kind, factor, place, row)
            for factor, row in zip(factors, sums, strict=True)
        ]

    def _factors(self, a: str, numbers: range) -> list[str]:
        """The vectors of A of one step."""
        text, found = self.text, []
        for number in numbers:
            place = shift_pointer(text, a, number * self.kernel.lanes * self.width)
            found.append(text.value(f"load {self.kind(number)}, ptr {place}, align {self.width}"))
        return found

    def _add_products(
        self, factors: list[str], place: str, numbers: range, sums: list[str]
    ) -> list[str]:
        """One step of a column, whose factor of B lies at ``place``."""
        text = self.text
        scalar = text.value(f"load {self.element}, ptr {place}, align {self.width}")
        scales = {
            lanes: splat(text, self.element, scalar, lanes)
            for lanes in dict.fromkeys(map(self.lanes, numbers))
        }
        following = []
        for number, factor, row in zip(numbers, factors, sums, strict=True):
            lanes = self.lanes(number)
            kind = Arithmetic(self.isa, self.kernel.data_type, lanes)
            following.append(multiply_add(text, kind, factor, scales[lanes], row))
        return following


def _flat(state: _State) -> list[str]:
    places = (state.a, *state.b, state.k_left, *state.asked, *state.brought)
    return [*places, *(row for rows in state.sums for row in rows)]
