"""Text and sublists to einsum expressions: NumPy's grammar, and findings at the character."""

from __future__ import annotations

import numpy as np
import opt_einsum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teir.errors import TeirError, TextPlace
from teir.expr.check import bind_shapes
from teir.expr.parsing import is_symbol, parse_sublists, parse_subscripts, symbol_of


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ij,jk->ik", "ij,jk->ik"),
        (" i j ,\tj k -> i k ", "ij,jk->ik"),
        ("...i,i...", "...i,i..."),
        ("i...j->...", "i...j->..."),
        ("", ""),
        (",->", ",->"),
        ("éß,ßж->éж", "éß,ßж->éж"),
        ("a×,×b->ab", "a×,×b->ab"),
    ],
)
def test_text_is_read(text: str, canonical: str) -> None:
    assert str(parse_subscripts(text)) == canonical


@given(st.text(alphabet="ij k,.->é1\u0000\ud800×", max_size=20))
def test_reading_ends_in_a_value_or_in_findings(text: str) -> None:
    try:
        parsed = parse_subscripts(text)
    except TeirError as error:
        for finding in error.findings:
            assert isinstance(finding.place, TextPlace)
            assert 1 <= finding.place.column <= len(text)
            assert str(finding).isprintable() or "\n" in str(finding)
    else:
        assert parse_subscripts(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("i1,jk", "TEIR601", 2),
        ("i\ud800", "TEIR601", 2),
        ("ij,j.k", "TEIR602", 5),
        ("i. ..", "TEIR602", 2),
        ("...i...", "TEIR602", 5),
        ("....i", "TEIR602", 4),
        ("ij->i->j", "TEIR603", 6),
        ("ij->->", "TEIR603", 5),
        ("i-j", "TEIR603", 2),
        ("ij->i,j", "TEIR603", 6),
        ("i>j", "TEIR603", 2),
    ],
)
def test_the_finding_points_at_the_character(text: str, code: str, column: int) -> None:
    with pytest.raises(TeirError) as caught:
        parse_subscripts(text)
    finding = caught.value.findings[0]
    assert (finding.code, finding.place) == (code, TextPlace(line=1, column=column))


def test_a_second_arrow_is_one_finding() -> None:
    with pytest.raises(TeirError, match="found a second arrow") as caught:
        parse_subscripts("ij,jk->ik->k")
    assert len(caught.value.findings) == 1


def test_a_fourth_dot_is_no_second_ellipsis() -> None:
    with pytest.raises(TeirError, match="found a dot that is not part of one"):
        parse_subscripts("....i")


def test_brackets_are_one_finding_that_names_the_other_languages() -> None:
    with pytest.raises(TeirError) as caught:
        parse_subscripts("A[i,l] B[i,j]")
    (finding,) = caught.value.findings
    assert finding.place == TextPlace(line=1, column=2)
    assert finding.hint is not None
    assert "index notation has an '='" in finding.hint


def test_another_arrow_is_named_where_a_term_is_too_long() -> None:
    with pytest.raises(TeirError, match="an arrow is written '->'"):
        bind_shapes(parse_subscripts("ij,jk→ik"), [(3, 4), (4, 5)])


def test_the_caret_stands_under_the_character() -> None:
    with pytest.raises(TeirError) as caught:
        parse_subscripts("ab,b1->a")
    lines = str(caught.value).splitlines()
    quoted = next(place for place, line in enumerate(lines) if "ab,b1->a" in line)
    assert lines[quoted + 1].index("^") == lines[quoted].index("1")


def test_a_long_expression_is_quoted_around_the_place() -> None:
    with pytest.raises(TeirError) as caught:
        parse_subscripts("a" * 5000 + "1" + "b" * 5000)
    assert len(str(caught.value)) < 1000
    assert "column 5001" in str(caught.value)


def test_all_findings_come_at_once() -> None:
    with pytest.raises(TeirError) as caught:
        parse_subscripts("1,2->3")
    assert [finding.code for finding in caught.value.findings] == ["TEIR601"] * 3


def test_every_symbol_of_opt_einsum_is_one() -> None:
    assert all(is_symbol(opt_einsum.get_symbol(number)) for number in range(55_000))


def test_own_symbols_grow_with_their_number() -> None:
    symbols = [symbol_of(number) for number in range(60_000)]
    assert symbols == sorted(symbols)
    assert all(map(is_symbol, symbols))


@pytest.mark.parametrize(
    ("inputs", "output", "text"),
    [
        ([[0, 1], [1, 2]], [0, 2], "AB,BC->AC"),
        ([(0, 0)], (), "AA->"),
        ([[3, ...]], [..., 3], "A...->...A"),
        ([[10**9, 5]], None, "BA"),
        ([[np.int64(1)]], None, "A"),
        ([[]], [], "->"),
    ],
)
def test_sublists_are_read(inputs: list, output: list | None, text: str) -> None:
    assert str(parse_sublists(inputs, output)) == text


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ([-1], "TEIR611"),
        ([True], "TEIR611"),
        (["a"], "TEIR611"),
        ([1.0], "TEIR611"),
        ([np.array([0, 1])], "TEIR611"),
        ([..., ...], "TEIR602"),
    ],
)
def test_wrong_sublists_are_refused(entry: list, code: str) -> None:
    with pytest.raises(TeirError) as caught:
        parse_sublists([entry], None)
    assert caught.value.findings[0].code == code


@pytest.mark.parametrize(
    ("text", "shapes", "code", "column"),
    [
        ("ij,jk", [(2, 3)], "TEIR606", 1),
        ("ij", [(2,)], "TEIR607", 1),
        ("ij,j", [(2, 3), (3, 4)], "TEIR607", 4),
        ("ij...", [(2,)], "TEIR607", 1),
        ("ij,jk", [(2, 3), (4, 5)], "TEIR608", 4),
        ("...,...", [(2,), (3,)], "TEIR608", 5),
        ("iji", [(2, 3, 4)], "TEIR609", 3),
        ("ii", [(1, 3)], "TEIR609", 2),
        ("ij->ii", [(2, 3)], "TEIR604", 6),
        ("ij->ik", [(2, 3)], "TEIR605", 6),
        ("i...->i", [(2, 3)], "TEIR610", 7),
    ],
)
def test_shapes_that_do_not_fit(text: str, shapes: list, code: str, column: int) -> None:
    with pytest.raises(TeirError) as caught:
        bind_shapes(parse_subscripts(text), shapes)
    finding = caught.value.findings[0]
    assert (finding.code, finding.place) == (code, TextPlace(line=1, column=column))


@pytest.mark.parametrize(
    ("text", "shapes", "shape"),
    [
        ("ba", [(2, 3)], (3, 2)),
        ("ij->...ij", [(2, 3)], (2, 3)),
        ("i...,i...", [(2, 3), (2, 1)], (3,)),
        ("...,...", [(2, 3), (4, 1, 3)], (4, 2, 3)),
        ("i,i", [(0,), (1,)], ()),
        ("aB", [(2, 3)], (3, 2)),
        ("ij,jk", [(2, 1), (4, 5)], (2, 5)),
    ],
)
def test_shapes_of_results(text: str, shapes: list, shape: tuple[int, ...]) -> None:
    assert bind_shapes(parse_subscripts(text), shapes).output_shape == shape
