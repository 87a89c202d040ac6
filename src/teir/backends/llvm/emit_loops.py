"""Loops and conditions of a function whose values are carried from one pass to the next.

A loop's head is written after its body, for only then are the carried values known; blocks may
stand in any order but the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from teir.backends.llvm.emit_opaque import opaque
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
    before = text.block
    text.effect(f"br label %{label}")
    text.label(f"{label}_body")
    taken, following = body(left_now, now)
    left_then = text.value(f"sub i64 {left_now}, {taken}")
    after = text.block
    text.effect(f"br label %{label}")
    text.label(label)
    counted = (left_now, Carried("i64", left), left_then)
    _emit_carried(text, (before, after), [counted, *zip(now, carried, following, strict=True)])
    enough = text.value(f"icmp sge i64 {left_now}, {least}")
    text.effect(f"br i1 {enough}, label %{label}_body, label %{label}_done")
    text.label(f"{label}_done")
    return left_now, now


def emit_to_zero(
    text: FunctionText,
    label: str,
    left: str,
    carried: Sequence[Carried],
    body: Callable[[str, Values], Values],
    *,
    has_vector: bool,
) -> Values:
    """Run ``body(index, values)`` for index = -left, ..., -1; what is carried at the end.

    One number is both the index of every array, from its end on, and what ends the loop: one
    addition and one jump. LLVM, did it see where the index comes from, would keep a pointer for
    every array beside it. With ``has_vector`` the first carried value is a whole vector of a
    processor whose vectors have masks, for which constraints have a letter: the addition stands
    behind it, no other arithmetic comes between it and the jump, which needs no comparison then.
    """

    def run() -> Values:
        start = text.value(f"sub i64 0, {left}")
        index, now = text.fresh(), [text.fresh() for _ in carried]
        before = text.block
        text.effect(f"br label %{label}")
        text.label(f"{label}_body")
        following = body(index, now)
        anchor = Carried(carried[0].kind, following[0]) if has_vector else None
        then = text.value(f"add i64 {_behind(text, index, anchor)}, 1")
        is_left = text.value(f"icmp ne i64 {then}, 0")
        after = text.block
        text.effect(f"br i1 {is_left}, label %{label}, label %{label}_out")
        text.label(label)
        counted = (index, Carried("i64", start), then)
        _emit_carried(text, (before, after), [counted, *zip(now, carried, following, strict=True)])
        text.effect(f"br label %{label}_body")
        text.label(f"{label}_out")
        return following

    some = text.value(f"icmp sgt i64 {left}, 0")
    return emit_when(text, f"{label}_some", some, carried, run)


def _emit_carried(
    text: FunctionText, blocks: tuple[str, str], values: Sequence[tuple[str, Carried, str]]
) -> None:
    """The name of every value, and what comes to it from ``blocks``: before and after a pass."""
    before, after = blocks
    for name, value, then in values:
        pair = f"[ {value.start}, %{before} ], [ {then}, %{after} ]"
        text.define(name, f"phi {value.kind} {pair}")


def _behind(text: FunctionText, index: str, anchor: Carried | None) -> str:
    """``index``, of which LLVM knows nothing, after ``anchor`` is known."""
    if anchor is None:
        return opaque(text, "i64", index)
    return text.value(f'call i64 asm "", "=r,0,v"(i64 {index}, {anchor.kind} {anchor.start})')


def emit_when(
    text: FunctionText,
    label: str,
    condition: str,
    carried: Sequence[Carried],
    body: Callable[[], Values],
) -> Values:
    """The values of ``body`` where ``condition`` holds, else those the values start with."""
    before = text.block
    text.effect(f"br i1 {condition}, label %{label}_yes, label %{label}_done")
    text.label(f"{label}_yes")
    made = body()
    after = text.block
    text.effect(f"br label %{label}_done")
    text.label(f"{label}_done")
    return [
        text.value(f"phi {value.kind} [ {value.start}, %{before} ], [ {name}, %{after} ]")
        for value, name in zip(carried, made, strict=True)
    ]
