"""The register block of panels: exact vectors, rows of C in runs, stores past the caches.

    loop:    k left >= 4 -> four steps -> loop
             k left >= 1 -> one step -> loop
             else store

A block of C is stored in the largest pieces its runs and its address allow: past the caches only
in pieces that begin at a multiple of their own size, which is looked at when the block runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.backends.llvm.emit_numbers import computed_number
from teir.backends.llvm.emit_panel_lines import PanelLines
from teir.backends.llvm.emit_products import Arithmetic, multiply_add
from teir.backends.llvm.emit_text import (
    FunctionText,
    constants,
    shift_pointer,
    splat,
    vector,
)
from teir.lower.kernels import PanelBlock
from teir.target import Isa

PANEL_ARGUMENTS = (
    "k", "a_k", "b_k", "b_n", "c_n", "c_run", "accumulate", "a_ahead", "b_ahead", "c_ahead"
)  # fmt: skip

_STEPS = 4
_LINE_BYTES = 64
_COLUMNS_PER_BASE = 4
"""Columns 0 to 3 are one base plus 0, 1, 2 or 3 times the column stride."""

Sums = list[list[str]]


@dataclass(frozen=True, slots=True)
class _Piece:
    """``count`` lanes of a vector from ``lane`` on, which lie at ``row`` of ``run`` in C."""

    vector: int
    lane: int
    count: int
    run: int
    row: int


@dataclass(frozen=True, slots=True)
class _State:
    """What changes from step to step: places in A and B (a base per group of columns), k left."""

    a: str
    b: tuple[str, ...]
    k_left: str
    sums: Sums


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
        kernel = self.kernel
        return kernel.last_lanes if number == kernel.vectors - 1 else kernel.lanes

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
        return "begin" if self.kernel.streams and self.kernel.claims else "entry"

    def emit(self) -> None:
        text = self.text
        text.label("entry")
        columns = self._columns_of_c()
        bases = self._bases_of_b()
        fits = self._alignment() if self.kernel.streams else None
        if self.kernel.claims:
            self._claim_unless(fits, columns)
        fresh = text.value("icmp eq i64 %accumulate, 0")
        text.effect(f"br i1 {fresh}, label %loop, label %preload")
        text.label("preload")
        first = [self._load_column(place) for place in columns]
        text.effect("br label %loop")
        self._emit_loop(bases, first, columns, fits)

    def _columns_of_c(self) -> list[tuple[str, ...]]:
        """For every column the places of its runs."""
        found = []
        for column in range(self.kernel.columns):
            place = "%C"
            if column:
                place = shift_pointer(self.text, "%C", self.text.value(f"mul i64 %c_n, {column}"))
            runs = [place]
            for _ in range(1, self.kernel.runs):
                runs.append(shift_pointer(self.text, runs[-1], "%c_run"))
            found.append(tuple(runs))
        return found

    def _bases_of_b(self) -> tuple[str, ...]:
        if self.kernel.adjacent_columns:
            return ("%B",)
        bases = ["%B"]
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

    def _alignment(self) -> tuple[str, str]:
        """True where all pieces of whole vectors, and of half vectors, begin at their size."""
        text = self.text
        steps = text.value("or i64 %c_n, %c_run") if self.kernel.runs > 1 else "%c_n"
        start = text.value("ptrtoint ptr %C to i64")
        places = text.value(f"or i64 {start}, {steps}")
        whole = self.kernel.lanes * self.width
        fits = []
        for size in (whole, whole // 2):
            rest = text.value(f"and i64 {places}, {size - 1}")
            fits.append(text.value(f"icmp eq i64 {rest}, 0"))
        return fits[0], fits[1]

    def _claim_unless(self, fits: tuple[str, str] | None, columns: list[tuple[str, ...]]) -> None:
        """Ask for the lines a later block writes, so that its stores find them near."""
        text = self.text
        if fits is None:
            self._claim(columns)
            return
        if self._lines.exist:
            self._claim_ends(columns)
            text.effect("br label %begin")
            text.label("begin")
            return
        text.effect(f"br i1 {fits[1]}, label %begin, label %claim")
        text.label("claim")
        self._claim(columns)
        text.effect("br label %begin")
        text.label("begin")

    def _claim_ends(self, columns: list[tuple[str, ...]]) -> None:
        """Only the lines at both ends of a stretch are written through the caches."""
        for place, lanes in self._lines.segments(columns):
            ahead = shift_pointer(self.text, place, "%c_ahead")
            for offset in (0, len(lanes) * self.width):
                self._prefetch(shift_pointer(self.text, ahead, offset), write=True)

    def _claim(self, columns: list[tuple[str, ...]]) -> None:
        kernel = self.kernel
        run_bytes = kernel.rows // kernel.runs * self.width
        for runs in columns:
            for run in runs:
                place = shift_pointer(self.text, run, "%c_ahead")
                for line in range(0, run_bytes, _LINE_BYTES):
                    self._prefetch(shift_pointer(self.text, place, line), write=True)

    def _prefetch(self, place: str, write: bool) -> None:
        self.text.effect(
            f"call void @llvm.prefetch.p0(ptr {place}, i32 {int(write)}, i32 2, i32 1)"
        )

    # Loading and storing blocks of C.

    def _pieces(self, largest: int) -> Iterator[_Piece]:
        """The lanes in powers of two of at most ``largest`` that cross no end of a run."""
        run_rows = self.kernel.rows // self.kernel.runs
        for number in range(self.kernel.vectors):
            start, lane, end = number * self.kernel.lanes, 0, self.lanes(number)
            while lane < end:
                run, row = divmod(start + lane, run_rows)
                count = min(end - lane, run_rows - row, largest)
                count = 1 << (count.bit_length() - 1)
                yield _Piece(number, lane, count, run, row)
                lane += count

    def _load_column(self, runs: tuple[str, ...]) -> list[str]:
        text = self.text
        vectors: list[str] = []
        for piece in self._pieces(self.kernel.lanes):
            total = self.lanes(piece.vector)
            kind = vector(self.element, piece.count)
            place = shift_pointer(text, runs[piece.run], piece.row * self.width)
            part = text.value(f"load {kind}, ptr {place}, align {self.width}")
            if piece.count < total:
                part = self._widened(part, piece, total)
            if piece.lane == 0:
                vectors.append(part)
            else:
                chosen = [
                    total + lane if piece.lane <= lane < piece.lane + piece.count else lane
                    for lane in range(total)
                ]
                vectors[-1] = self._shuffled(vectors[-1], part, total, chosen)
        return vectors

    def _widened(self, part: str, piece: _Piece, total: int) -> str:
        """The loaded lanes at their places in a whole vector; the others hold anything."""
        inside = range(piece.lane, piece.lane + piece.count)
        chosen = [lane - piece.lane if lane in inside else 0 for lane in range(total)]
        return self._shuffled(part, "poison", piece.count, chosen)

    def _shuffled(self, left: str, right: str, count: int, chosen: list[int]) -> str:
        kind = vector(self.element, count)
        pattern = f"<{len(chosen)} x i32> {constants('i32', chosen)}"
        return self.text.value(f"shufflevector {kind} {left}, {kind} {right}, {pattern}")

    def _store(
        self, sums: Sums, columns: list[tuple[str, ...]], fits: tuple[str, str] | None
    ) -> None:
        text, lanes = self.text, self.kernel.lanes
        text.label("finish")
        if fits is not None and self._lines.exist:
            text.effect(f"br i1 {fits[0]}, label %whole, label %not_whole")
            text.label("whole")
            self._store_pieces(sums, columns, lanes, aligned=True)
            text.effect("ret void")
            text.label("not_whole")
            start = text.value("ptrtoint ptr %C to i64")
            odd = text.value(f"and i64 {start}, {self.width - 1}")
            on_elements = text.value(f"icmp eq i64 {odd}, 0")
            text.effect(f"br i1 {on_elements}, label %lines, label %any")
            text.label("lines")
            for place, sources in self._lines.segments(columns):
                self._lines.store(place, self._lines.chunks(sums, sources))
            text.effect("ret void")
            text.label("any")
        elif fits is not None:
            text.effect(f"br i1 {fits[0]}, label %whole, label %not_whole")
            text.label("whole")
            self._store_pieces(sums, columns, lanes, aligned=True)
            text.effect("ret void")
            text.label("not_whole")
            text.effect(f"br i1 {fits[1]}, label %half, label %any")
            text.label("half")
            self._store_pieces(sums, columns, lanes // 2, aligned=True)
            text.effect("ret void")
            text.label("any")
        self._store_pieces(sums, columns, lanes, aligned=False)
        text.effect("ret void")

    def _store_pieces(
        self, sums: Sums, columns: list[tuple[str, ...]], largest: int, aligned: bool
    ) -> None:
        text = self.text
        pieces = tuple(self._pieces(largest))
        for rows, runs in zip(sums, columns, strict=True):
            for piece in pieces:
                value, total = rows[piece.vector], self.lanes(piece.vector)
                if piece.count < total:
                    chosen = list(range(piece.lane, piece.lane + piece.count))
                    value = self._shuffled(value, "poison", total, chosen)
                kind = vector(self.element, piece.count)
                offset = piece.row * self.width
                place = shift_pointer(text, runs[piece.run], offset)
                size = piece.count * self.width
                if aligned and offset % size == 0 and size >= 16:
                    how = f"align {size}, !nontemporal !{{i32 1}}"
                else:
                    how = f"align {self.width}"
                text.effect(f"store {kind} {value}, ptr {place}, {how}")

    # The loop over k.

    def _emit_loop(
        self,
        bases: tuple[str, ...],
        first: Sums,
        columns: list[tuple[str, ...]],
        fits: tuple[str, str] | None,
    ) -> None:
        text = self.text
        state = _State(
            text.fresh(),
            tuple(text.fresh() for _ in bases),
            text.fresh(),
            [[text.fresh() for _ in rows] for rows in first],
        )
        many = self._steps(state, "many", _STEPS)
        text.label("few")
        done = text.value(f"icmp eq i64 {state.k_left}, 0")
        text.effect(f"br i1 {done}, label %finish, label %one")
        one = self._steps(state, "one", 1)
        self._store(state.sums, columns, fits)
        self._head(state, bases, first, many, one)

    def _head(
        self, state: _State, bases: tuple[str, ...], first: Sums, many: _State, one: _State
    ) -> None:
        text = self.text
        text.label("loop")
        zero = [["zeroinitializer"] * len(rows) for rows in first]
        sources = (
            (self._entry, _State("%A", bases, "%k", zero)),
            ("preload", _State("%A", bases, "%k", first)),
            ("many", many),
            ("one", one),
        )
        kinds = ["ptr"] * (1 + len(bases)) + ["i64"]
        kinds += [self.kind(number) for _ in first for number in range(self.kernel.vectors)]
        for number, (name, kind) in enumerate(zip(_flat(state), kinds, strict=True)):
            incoming = ", ".join(
                f"[ {_flat(source)[number]}, %{label} ]" for label, source in sources
            )
            text.define(name, f"phi {kind} {incoming}")
        enough = text.value(f"icmp sge i64 {state.k_left}, {_STEPS}")
        text.effect(f"br i1 {enough}, label %many, label %few")

    def _steps(self, state: _State, label: str, steps: int) -> _State:
        text = self.text
        text.label(label)
        a, b, sums = state.a, state.b, state.sums
        if steps > 1 and self.kernel.brings_b:
            ahead = tuple(shift_pointer(text, base, "%b_ahead") for base in b)
            for column in range(self.kernel.columns):
                self._prefetch(self._place_in_b(ahead, column), write=False)
        for _ in range(steps):
            sums = self._step(a, b, sums)
            a = shift_pointer(text, a, "%a_k")
            b = tuple(shift_pointer(text, base, "%b_k") for base in b)
        left = text.value(f"sub i64 {state.k_left}, {steps}")
        text.effect("br label %loop")
        return _State(a, b, left, sums)

    def _step(self, a: str, b: tuple[str, ...], sums: Sums) -> Sums:
        text, kernel = self.text, self.kernel
        if kernel.brings:
            ahead = shift_pointer(text, a, "%a_ahead")
            for line in range(0, kernel.rows * self.width, _LINE_BYTES):
                self._prefetch(shift_pointer(text, ahead, line), write=False)
        factors = []
        for number in range(kernel.vectors):
            place = shift_pointer(text, a, number * kernel.lanes * self.width)
            factors.append(text.value(f"load {self.kind(number)}, ptr {place}, align {self.width}"))
        following = []
        for column, rows in enumerate(sums):
            place = self._place_in_b(b, column)
            scalar = text.value(f"load {self.element}, ptr {place}, align {self.width}")
            scales = {
                lanes: splat(text, self.element, scalar, lanes)
                for lanes in dict.fromkeys(map(self.lanes, range(kernel.vectors)))
            }
            following.append(
                [
                    multiply_add(
                        text,
                        Arithmetic(self.isa, kernel.data_type, self.lanes(number)),
                        factor,
                        scales[self.lanes(number)],
                        row,
                    )
                    for number, (factor, row) in enumerate(zip(factors, rows, strict=True))
                ]
            )
        return following


def _flat(state: _State) -> list[str]:
    return [state.a, *state.b, state.k_left, *(row for rows in state.sums for row in rows)]
