"""Products along an axis of all three operands: many small products side by side, one per lane.

for every vector of lanes
  rows x columns accumulators: zero, or what C holds
  for every (outer, batch, k): rows loads of A, columns loads of B, rows x columns multiply-adds
  store
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.backends.llvm.emit_chunks import Operand, Piece, emit_row, row_chunks
from teir.backends.llvm.emit_lanes import load, store
from teir.backends.llvm.emit_loops import Carried, Values, emit_loop, emit_when
from teir.backends.llvm.emit_numbers import (
    narrow,
    numbers_per_element,
    require_one_accumulator,
    round_factor,
    widen,
)
from teir.backends.llvm.emit_products import Arithmetic, add_product, as_factor, as_scale
from teir.backends.llvm.emit_text import FunctionText, ask_to_store, multiples, shift_pointer
from teir.lower.access import Access
from teir.lower.kernels import LaneBlock
from teir.target import Isa

LANE_BLOCK_ARGUMENTS = (
    "m", "k", "a_k", "b_k", "batch", "a_batch", "b_batch", "outer", "a_outer", "b_outer",
    "a_row", "b_column", "c_row", "c_column", "accumulate",
)  # fmt: skip

_LOOPS = ("outer", "batch", "k")
_LINES_AHEAD = 2
"""From what is stored to what is asked for to be stored soon (`ask_to_store`). Batches of
4 x 4 to 13 x 13, innermost, that leave the first cache: 0.6 to 0.95 of the time on Golden Cove."""


def emit_lane_block_body(kernel: LaneBlock, isa: Isa) -> FunctionText:
    """The body of the function for operands %A, %B, %C and the arguments of `LaneBlock`."""
    require_one_accumulator(kernel.in_type, kernel.out_type)
    text = FunctionText()
    text.label("entry")
    body = _Body(
        text,
        kernel,
        isa,
        multiples(text, "%a_row", kernel.rows),
        multiples(text, "%b_column", kernel.columns),
        multiples(text, "%c_row", kernel.rows),
        multiples(text, "%c_column", kernel.columns),
    )
    text.effect("br label %loop")
    types = (kernel.in_type, kernel.in_type, kernel.out_type)
    operands = [
        Operand(data_type, Access.UNIT, name, "")
        for data_type, name in zip(types, ("%A", "%B", "%C"), strict=True)
    ]
    chunks = row_chunks(isa, kernel.lanes, 1)
    emit_row(text, isa, chunks, operands, "entry", "exit", body.piece)
    text.label("exit")
    text.effect("ret void")
    return text


@dataclass(frozen=True, slots=True)
class _Body:
    """The body while it is written, and the byte offsets of rows and columns."""

    text: FunctionText
    kernel: LaneBlock
    isa: Isa
    a_rows: tuple[str | int, ...]
    b_columns: tuple[str | int, ...]
    c_rows: tuple[str | int, ...]
    c_columns: tuple[str | int, ...]

    def piece(self, piece: Piece) -> str:
        """One vector of lanes; returns the label of the block it ends in."""
        text, label = self.text, piece.chunk.label
        count = piece.chunk.lanes * numbers_per_element(self.kernel.in_type)
        kind = Arithmetic(self.isa, self.kernel.in_type, count)
        (a,), (b,), (c,) = piece.addresses
        places = [
            shift_pointer(text, shift_pointer(text, c, row), column)
            for row in self.c_rows
            for column in self.c_columns
        ]
        zeros = [Carried(kind.kind, "zeroinitializer") for _ in places]
        counts = text.value("icmp ne i64 %accumulate, 0")

        def preload() -> Values:
            stored = [load(text, piece.lanes[2], place) for place in places]
            return [widen(text, self.kernel.out_type, self.isa, one, count) for one in stored]

        first = emit_when(text, f"{label}_start", counts, zeros, preload)
        loops = _LOOPS[-1:] if self.kernel.one_loop else _LOOPS
        sums = self._reduce(label, loops, piece, kind, [a, b], first)
        for place, total in zip(places, sums, strict=True):
            stored = narrow(text, self.kernel.out_type, self.isa, total, count)
            store(text, piece.lanes[2], place, stored)
            ask_to_store(text, self.isa, place, _LINES_AHEAD)
        text.effect(f"br label %{label}_end")
        text.label(f"{label}_end")
        return f"{label}_end"

    def _reduce(
        self,
        label: str,
        loops: tuple[str, ...],
        piece: Piece,
        kind: Arithmetic,
        places: Values,
        sums: Values,
    ) -> Values:
        """The reductions ``loops``, the first outermost."""
        text = self.text
        if not loops:
            return self._step(piece, kind, places, sums)
        axis, *inner = loops

        def body(now: Values) -> Values:
            added = self._reduce(label, tuple(inner), piece, kind, now[:2], now[2:])
            moved = [
                shift_pointer(text, place, f"%{name}_{axis}")
                for name, place in zip("ab", now[:2], strict=True)
            ]
            return [*moved, *added]

        carried = [Carried("ptr", place) for place in places]
        carried += [Carried(kind.kind, one) for one in sums]
        _, now = emit_loop(text, f"{label}_{axis}", f"%{axis}", 1, carried, body)
        return now[2:]

    def _step(self, piece: Piece, kind: Arithmetic, places: Values, sums: Values) -> Values:
        """One value of k: the sums with one product more each."""
        text = self.text
        factors = [
            as_factor(text, kind, self._numbers(piece, 0, places[0], row, kind.count))
            for row in self.a_rows
        ]
        added = list(sums)
        for number, column in enumerate(self.b_columns):
            scale = as_scale(text, kind, self._numbers(piece, 1, places[1], column, kind.count))
            for row, factor in enumerate(factors):
                at = row * self.kernel.columns + number
                added[at] = add_product(text, kind, factor, scale, sums[at])
        return added

    def _numbers(
        self, piece: Piece, operand: int, place: str, offset: str | int, count: int
    ) -> str:
        text, in_type = self.text, self.kernel.in_type
        stored = load(text, piece.lanes[operand], shift_pointer(text, place, offset))
        numbers = widen(text, in_type, self.isa, stored, count)
        return round_factor(text, in_type, numbers, count)
