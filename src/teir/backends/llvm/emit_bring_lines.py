"""Requests for lines of memory that are read soon: three loops around one prefetch.

They go to the second cache: the first is full of what is being computed.
"""

from __future__ import annotations

from teir.backends.llvm.emit_text import FunctionText, cache_of_next, prefetch
from teir.target import Isa

BRING_LINES_ARGUMENTS = ("l", "l_step", "m", "m_step", "n", "n_step")


def emit_bring_lines_body(isa: Isa) -> FunctionText:
    """The body of the function for operands %A, %B, %C and the arguments of `BringLines`."""
    text = FunctionText()
    text.label("entry")
    text.effect("%mark = ptrtoint ptr %B to i64")
    text.effect("%began = ptrtoint ptr %C to i64")
    text.effect("%moved = sub i64 %mark, %began")
    text.effect("%first = getelementptr i8, ptr %A, i64 %moved")
    text.effect("br label %each_n")
    _begin_loop(text, "n", "%first", "entry", "n_end")
    text.effect("br label %each_m")
    _begin_loop(text, "m", "%n_at", "each_n", "m_end")
    text.effect("br label %each_l")
    _begin_loop(text, "l", "%m_at", "each_m", "each_l")
    prefetch(text, "%l_at", cache_of_next(isa))
    _end_loop(text, "l", "m_end")
    text.label("m_end")
    _end_loop(text, "m", "n_end")
    text.label("n_end")
    _end_loop(text, "n", "exit")
    text.label("exit")
    text.effect("ret void")
    return text


def _begin_loop(text: FunctionText, count: str, first: str, before: str, last: str) -> None:
    """The head of the loop over ``count``: reached from block ``before``, again from ``last``."""
    text.label(f"each_{count}")
    text.effect(f"%{count}_at = phi ptr [ {first}, %{before} ], [ %{count}_next, %{last} ]")
    text.effect(f"%{count}_left = phi i64 [ %{count}, %{before} ], [ %{count}_rest, %{last} ]")


def _end_loop(text: FunctionText, count: str, after: str) -> None:
    text.effect(f"%{count}_next = getelementptr i8, ptr %{count}_at, i64 %{count}_step")
    text.effect(f"%{count}_rest = sub i64 %{count}_left, 1")
    text.effect(f"%{count}_more = icmp sgt i64 %{count}_rest, 0")
    text.effect(f"br i1 %{count}_more, label %each_{count}, label %{after}")
