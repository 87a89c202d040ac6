"""Both ends of a block of panels whose rows were taken round, shared with its neighbours.

The end of a stretch of C and the beginning of the next one lie in one line. Where blocks join, a
block leaves the vectors of its end in %carried, and the next one writes that line whole.
"""

from __future__ import annotations

from collections.abc import Callable

from teir.backends.llvm.emit_text import FunctionText

Emission = Callable[[], None]


def emit_beginning(text: FunctionText, joins: bool, across: Emission, alone: Emission) -> None:
    """``alone`` writes the beginning of C; ``across`` writes it with what %carried holds."""
    if joins:
        is_first = text.value("icmp eq ptr %block_c, %C")
        text.effect(f"br i1 {is_first}, label %turned_first, label %turned_joined")
        text.label("turned_joined")
        across()
        text.effect("br label %turned_following")
        text.label("turned_first")
    alone()
    if joins:
        text.effect("br label %turned_following")
        text.label("turned_following")


def emit_end(text: FunctionText, joins: bool, keep: Emission, alone: Emission) -> None:
    """``alone`` writes the end of C; ``keep`` leaves that of a block before the last one."""
    if joins:
        is_last = text.value("icmp eq i64 %block_left, 1")
        text.effect(f"br i1 {is_last}, label %turned_last, label %turned_kept")
        text.label("turned_kept")
        keep()
        text.effect("br label %next_block")
        text.label("turned_last")
    alone()
