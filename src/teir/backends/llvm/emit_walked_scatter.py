"""Products added into what the stored elements of a fibre address: one output row for each.

    for every position: coordinate, places of the inputs and of the output,
        load the row of the output, one multiply-add per vector, store it

Without inputs every row is set to zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_fibres import emit_fibre, load_index
from teir.backends.llvm.emit_lanes import Lanes, lanes_in_memory, load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop
from teir.backends.llvm.emit_numbers import numbers_per_element
from teir.backends.llvm.emit_products import Arithmetic, add_product, as_factor, as_scale, product
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.lower.access import Access
from teir.lower.walked_kernels import Follows, WalkedScatter
from teir.target import Isa

_AT_ONCE = 4
"""Elements written without a test between them."""


def walked_scatter_arguments(kernel: WalkedScatter) -> tuple[str, ...]:
    steps = (f"step{number}" for number in range(len(kernel.inputs) + 1))
    return ("last_lanes", "pos_step", *steps, *(("rows",) if kernel.has_rows else ()))


def emit_walked_scatter_body(
    kernel: WalkedScatter, isa: Isa, operands: Sequence[str]
) -> FunctionText:
    """The body of the function for ``operands`` and the arguments of `WalkedScatter`."""
    text = FunctionText()
    text.label("entry")
    existing = "%last_lanes" if kernel.masked else None
    vectors = tuple(
        lanes_in_memory(
            text,
            isa,
            kernel.data_type,
            kernel.lanes,
            Access.UNIT,
            "",
            existing if number == kernel.vectors - 1 else None,
        )
        for number in range(kernel.vectors)
    )
    body = _Body(text, kernel, isa, operands, vectors)
    if kernel.has_rows:
        emit_loop(text, "each_row", "%rows", 1, [Carried("i64", "0")], body.add_row)
    elif kernel.outer is None:
        body.fibre(operands[0], {})
    else:
        begin, left = emit_fibre(text, kernel.outer[0], operands[0])
        emit_loop(text, "fibres", left, 1, [Carried("i64", begin)], body.add_fibre)
    text.effect("ret void")
    return text


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written."""

    text: FunctionText
    kernel: WalkedScatter
    isa: Isa
    operands: Sequence[str]
    vectors: tuple[Lanes, ...]

    @property
    def kind(self) -> Arithmetic:
        count = self.kernel.lanes * numbers_per_element(self.kernel.data_type)
        return Arithmetic(self.isa, self.kernel.data_type, count)

    @property
    def follows(self) -> tuple[Follows, ...]:
        """What moves every input, and the output."""
        return (*(one.follows for one in self.kernel.inputs), self.kernel.output)

    def add_fibre(self, now: Values) -> Values:
        """One fibre below a position of the level above."""
        text, (position,) = self.text, now
        outer = self.kernel.outer
        assert outer is not None
        index = {Follows.OUTER_POSITION: position}
        if Follows.OUTER_COORDINATE in (*self.follows, self.kernel.fibre):
            byte = text.value(f"mul i64 {position}, {outer[1].width}")
            at = shift_pointer(text, self.operands[1], byte)
            index[Follows.OUTER_COORDINATE] = load_index(text, outer[1], at)
        moved = text.value(f"mul i64 {index[self.kernel.fibre]}, %pos_step")
        self.fibre(shift_pointer(text, self.operands[2], moved), index)
        return [text.value(f"add i64 {position}, 1")]

    def add_row(self, now: Values) -> Values:
        """The fibre of one row."""
        text, (row,) = self.text, now
        moved = text.value(f"mul i64 {row}, %pos_step")
        self.fibre(shift_pointer(text, self.operands[0], moved), {Follows.OUTER_POSITION: row})
        return [text.value(f"add i64 {row}, 1")]

    def fibre(self, pos: str, outer: Mapping[Follows, str]) -> None:
        """All elements of one fibre."""
        text = self.text
        begin, left = emit_fibre(text, self.kernel.pos_type, pos)
        fixed = self._places(outer)
        shared = self._shared(fixed)

        def some(count: int, now: Values) -> Values:
            (position,) = now
            for _ in range(count):
                self._element(position, fixed, shared)
                position = text.value(f"add i64 {position}, 1")
            return [position]

        start = [Carried("i64", begin)]
        several = _AT_ONCE if self.kernel.vectors == 1 else 1
        if several > 1:
            left, now = emit_loop(text, "several", left, several, start, lambda v: some(several, v))
            start = [Carried("i64", now[0])]
        emit_loop(text, "single", left, 1, start, lambda v: some(1, v))

    def _places(self, index: Mapping[Follows, str]) -> dict[int, str]:
        """The places of what follows ``index``, and of what stays."""
        pointers = self.operands[self.kernel.index_arrays :]
        places = {}
        for number, follows in enumerate(self.follows):
            if follows in index:
                is_adjacent = self.kernel.adjacent[number]
                step = self.kernel.data_type.width if is_adjacent else f"%step{number}"
                byte = self.text.value(f"mul i64 {index[follows]}, {step}")
                places[number] = shift_pointer(self.text, pointers[number], byte)
            elif follows is Follows.NOTHING:
                places[number] = pointers[number]
        return places

    def _shared(self, fixed: Mapping[int, str]) -> dict[int, list[str]]:
        """Inputs that no position of the fibre moves, loaded before it."""
        count = len(self.kernel.inputs)
        return {n: self._load(n, place) for n, place in fixed.items() if n < count}

    def _element(
        self, position: str, fixed: Mapping[int, str], shared: Mapping[int, list[str]]
    ) -> None:
        text, kernel = self.text, self.kernel
        index = {Follows.POSITION: position}
        if Follows.COORDINATE in self.follows:
            crd = self.operands[kernel.index_arrays - 1]
            byte = text.value(f"mul i64 {position}, {kernel.crd_type.width}")
            index[Follows.COORDINATE] = load_index(
                text, kernel.crd_type, shift_pointer(text, crd, byte)
            )
        places = {**self._places(index), **fixed}
        factors = [
            shared[number] if number in shared else self._load(number, places[number])
            for number in range(len(kernel.inputs))
        ]
        output = places[len(kernel.inputs)]
        for number, lanes in enumerate(self.vectors):
            place = self._vector(output, number)
            before = load(text, lanes, place) if kernel.accumulates else "zeroinitializer"
            picked = [rows[number if len(rows) > 1 else 0] for rows in factors]
            store(text, lanes, place, self._sum(picked, before))

    def _sum(self, factors: list[str], before: str) -> str:
        """The products are formed left to right, the last multiplication fused."""
        text, kind = self.text, self.kind
        if not factors:
            return before
        *first, last = factors
        if not first:
            return text.value(f"fadd {kind.kind} {before}, {last}")
        made = first[0]
        for factor in first[1:]:
            made = product(text, kind, as_factor(text, kind, made), as_scale(text, kind, factor))
        return add_product(
            text, kind, as_factor(text, kind, made), as_scale(text, kind, last), before
        )

    def _load(self, number: int, place: str) -> list[str]:
        """One vector for all lanes, or one per vector of the row."""
        kernel = self.kernel
        if kernel.inputs[number].access is Access.BROADCAST:
            return [load(self.text, Lanes(kernel.data_type, kernel.lanes, broadcast=True), place)]
        return [
            load(self.text, lanes, self._vector(place, vector))
            for vector, lanes in enumerate(self.vectors)
        ]

    def _vector(self, place: str, number: int) -> str:
        width = self.kernel.lanes * self.kernel.data_type.width
        return shift_pointer(self.text, place, number * width)
