"""Expressions of letters alone take a shorter way: it leads where the long one does."""

from __future__ import annotations

import random

import pytest

from teir.errors import TeirError
from teir.expr import check
from teir.expr.check import BoundEinsum, bind_shapes
from teir.expr.nodes import Subscripts, Term
from teir.expr.parsing import parse_subscripts


def drawn(seed: int) -> tuple[str, list[tuple[int, ...]]]:
    """An expression, often right, and shapes that often fit it."""
    draw = random.Random(seed)
    extents = {letter: draw.choice((1, 2, 3, 5)) for letter in "abcD"}
    words = ["".join(draw.choices("abcD", k=draw.randint(0, 4))) for _ in range(draw.randint(1, 3))]
    shapes = [tuple(extents[letter] for letter in word) for word in words]
    if draw.random() < 0.2:
        shapes = [tuple(extent + (draw.random() < 0.1) for extent in shape) for shape in shapes]
    if draw.random() < 0.1:
        shapes[0] = (*shapes[0], 2)
    text = ",".join(words)
    if draw.random() < 0.8:
        letters = sorted({*"".join(words)} | ({"z"} if draw.random() < 0.1 else set()))
        text += "->" + "".join(draw.sample(letters, draw.randint(0, len(letters))))
        text += text[-1] if draw.random() < 0.1 and text[-1] != ">" else ""
    return text, shapes


def columns(subscripts: Subscripts) -> list[tuple[int, tuple[int, ...]]]:
    terms: tuple[Term | None, ...] = (*subscripts.inputs, subscripts.output)
    return [(term.start, term.columns) for term in terms if term is not None]


def bound(text: str, shapes: list[tuple[int, ...]]) -> BoundEinsum | tuple[str, ...]:
    try:
        return bind_shapes(parse_subscripts(text), shapes)
    except TeirError as error:
        return tuple(finding.code for finding in error.findings)


def test_the_text_is_read_alike() -> None:
    for seed in range(300):
        text, _ = drawn(seed)
        plain, with_blank = parse_subscripts(text), parse_subscripts(text + " ")
        assert plain == with_blank
        assert columns(plain) == columns(with_blank)


def test_shapes_are_bound_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [drawn(seed) for seed in range(600)]
    plain = [bound(*case) for case in cases]
    monkeypatch.setattr(check, "_plainly_bound", lambda *_: None)
    assert plain == [bound(*case) for case in cases]
    assert 150 < sum(isinstance(one, BoundEinsum) for one in plain) < 550
