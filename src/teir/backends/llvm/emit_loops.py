"""Loops and conditions of a function whose values are carried from one pass to the next.

A loop's head is written after its body, for only then are the carried values known; blocks may
stand in any order but the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_text import FunctionText

Values = list[str]


@dataclass(frozen=True, slots=True)
class Carried:
    """One carried value: its type, and what it is before the first pass."""

    kind: str
    start: str


def emit_loop(
    text: FunctionText,
    label: str,
    left: str,
    step: int,
    carried: Sequence[Carried],
    body: Callable[[Values], Values],
) -> tuple[str, Values]:
    """Run ``body`` while at least ``step`` of ``left`` remain: what is left then, and the values.

    ``label`` must not stand for another loop of the function.
    """
    return _emit_while(text, label, left, step, carried, lambda _, now: (str(step), body(now)))


def emit_strides(
    text: FunctionText,
    label: str,
    left: str,
    carried: Sequence[Carried],
    body: Callable[[str, Values], tuple[str, Values]],
) -> Values:
    """Run ``body`` while some of ``left`` remain: it is told how many and says what it took."""
    return _emit_while(text, label, left, 1, carried, body)[1]


def _emit_while(
    text: FunctionText,
    label: str,
    left: str,
    least: int,
    carried: Sequence[Carried],
    body: Callable[[str, Values], tuple[str, Values]],
) -> tuple[str, Values]:
    now = [text.fresh() for _ in carried]
    left_now = text.fresh()
    text.effect(f"br label %{label}_enter")
    text.label(f"{label}_enter")
    text.effect(f"br label %{label}")
    text.label(f"{label}_body")
    taken, following = body(left_now, now)
    left_then = text.value(f"sub i64 {left_now}, {taken}")
    text.effect(f"br label %{label}_latch")
    text.label(f"{label}_latch")
    text.effect(f"br label %{label}")
    text.label(label)
    entries = zip(now, carried, following, strict=True)
    phis = [(left_now, "i64", left, left_then)]
    phis += [(name, value.kind, value.start, then) for name, value, then in entries]
    for name, kind, before, then in phis:
        text.define(name, f"phi {kind} [ {before}, %{label}_enter ], [ {then}, %{label}_latch ]")
    enough = text.value(f"icmp sge i64 {left_now}, {least}")
    text.effect(f"br i1 {enough}, label %{label}_body, label %{label}_done")
    text.label(f"{label}_done")
    return left_now, now


def emit_when(
    text: FunctionText,
    label: str,
    condition: str,
    carried: Sequence[Carried],
    body: Callable[[], Values],
) -> Values:
    """The values of ``body`` where ``condition`` holds, else those the values start with."""
    text.effect(f"br label %{label}_test")
    text.label(f"{label}_test")
    text.effect(f"br i1 {condition}, label %{label}_yes, label %{label}_done")
    text.label(f"{label}_yes")
    made = body()
    text.effect(f"br label %{label}_made")
    text.label(f"{label}_made")
    text.effect(f"br label %{label}_done")
    text.label(f"{label}_done")
    return [
        text.value(f"phi {value.kind} [ {value.start}, %{label}_test ], [ {name}, %{label}_made ]")
        for value, name in zip(carried, made, strict=True)
    ]
