"""Storing a block of C of panels: in the largest pieces its runs and its address allow.

Past the caches only in pieces that begin at a multiple of their own size, which is looked at when
the block runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from teir.backends.llvm.emit_numbers import computed_number
from teir.backends.llvm.emit_panel_lines import PanelLines, SumOf
from teir.backends.llvm.emit_panel_load import lanes_of, pieces_of
from teir.backends.llvm.emit_panel_turned import TurnedStore, may_turn
from teir.backends.llvm.emit_panel_turned_runs import TurnedRunsStore
from teir.backends.llvm.emit_text import FunctionText, shift_pointer, shuffle, vector
from teir.lower.kernels import PanelBlock
from teir.target import Isa

_NARROWEST_PAST_CACHES = 16


def pieces_fit(text: FunctionText, kernel: PanelBlock, place: str) -> tuple[str, str]:
    """Whether all pieces of whole vectors, and of half vectors, begin at their size."""
    steps = text.value("or i64 %c_n, %c_run") if kernel.runs > 1 else "%c_n"
    start = text.value(f"ptrtoint ptr {place} to i64")
    places = text.value(f"or i64 {start}, {steps}")
    whole = kernel.lanes * kernel.data_type.width
    fits = []
    for size in (whole, whole // 2):
        rest = text.value(f"and i64 {places}, {size - 1}")
        fits.append(text.value(f"icmp eq i64 {rest}, 0"))
    return fits[0], fits[1]


@dataclass(frozen=True, slots=True)
class PanelStore:
    """The end of a block.

    ``columns``: for every column the places of its runs. ``fits``: whether lines begin with
    stretches, or 16 bytes before, where lines can be written; else whether all pieces of whole
    vectors, and of half vectors, begin at their size. None where nothing goes past the caches.
    """

    text: FunctionText
    kernel: PanelBlock
    isa: Isa
    columns: list[tuple[str, ...]]
    fits: tuple[str, str] | None

    def emit(self, sums: Callable[[bool], SumOf]) -> None:
        """Goes on in the open block and ends the kernel's.

        ``sums`` is asked once a way to store, with whether steps are left.
        """
        text, lanes = self.text, self.kernel.lanes
        leave = "br label %next_block" if self.kernel.repeats else "ret void"
        lines = PanelLines(text, self.kernel, self.isa)
        if self.fits is not None and lines.exist:
            natural: Callable[[list[tuple[str, ...]], SumOf], None]
            natural = partial(lines.store, natural=True)
            if may_turn(self.kernel, self.isa):
                turned = TurnedStore if self.kernel.runs == 1 else TurnedRunsStore
                natural = turned(text, self.kernel).emit
            for name, fits, write, late in (
                ("whole", self.fits[0], lines.store_whole, True),
                ("natural", self.fits[1], natural, True),
                ("lines", None, partial(lines.store, natural=False), False),
            ):
                condition = lines.suit() if fits is None else fits
                text.effect(f"br i1 {condition}, label %{name}, label %not_{name}")
                text.label(name)
                write(self.columns, sums(late))
                text.effect(leave)
                text.label(f"not_{name}")
        elif self.fits is not None:
            for name, fits, largest in (
                ("whole", self.fits[0], lanes),
                ("half", self.fits[1], lanes // 2),
            ):
                text.effect(f"br i1 {fits}, label %{name}, label %not_{name}")
                text.label(name)
                self._pieces(sums(True), largest, aligned=True)
                text.effect(leave)
                text.label(f"not_{name}")
        late = self.fits is None or not lines.exist
        self._pieces(sums(late), lanes, aligned=False)
        text.effect(leave)

    def _pieces(self, sum_of: SumOf, largest: int, aligned: bool) -> None:
        text, kernel = self.text, self.kernel
        width, element = kernel.data_type.width, computed_number(kernel.data_type)
        pieces = tuple(pieces_of(kernel, largest))
        for column, runs in enumerate(self.columns):
            for piece in pieces:
                value, total = sum_of(column, piece.vector), lanes_of(kernel, piece.vector)
                if piece.count < total:
                    chosen = list(range(piece.lane, piece.lane + piece.count))
                    value = shuffle(text, element, total, value, "poison", chosen)
                offset, size = piece.row * width, piece.count * width
                place = shift_pointer(text, runs[piece.run], offset)
                how = f"align {width}"
                if aligned and offset % size == 0 and size >= _NARROWEST_PAST_CACHES:
                    how = f"align {size}, !nontemporal !{{i32 1}}"
                text.effect(f"store {vector(element, piece.count)} {value}, ptr {place}, {how}")
