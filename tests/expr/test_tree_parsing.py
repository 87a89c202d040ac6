"""Einsum trees: text to value and back, and findings at the character."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teir.errors import TeirError, TextPlace
from teir.expr.evaluate import evaluate_einsum
from teir.expr.parsing import parse_expression
from teir.expr.tree_parsing import is_tree, parse_nested, parse_tree, print_tree

TREES = tuple(
    case["tree"]
    for case in json.loads((Path(__file__).parent / "trees.json").read_text(encoding="utf-8"))
)


@pytest.mark.parametrize("text", TREES)
def test_canonical_text_is_kept(text: str) -> None:
    assert print_tree(parse_tree(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" [ [i , k],[k,j] -> [i,j] ]", "[i,k],[k,j]->[i,j]"),
        ("[row,10],[10,col_1]->[row,col_1]", "[row,10],[10,col_1]->[row,col_1]"),
        ("[i]->[]", "[i]->[]"),
        ("[],[i]->[i]", "[],[i]->[i]"),
        ("[i,i]->[i]", "[i,i]->[i]"),
    ],
)
def test_free_spacing(text: str, canonical: str) -> None:
    assert is_tree(text)
    assert print_tree(parse_tree(text)) == canonical
    assert parse_tree(canonical) == parse_tree(text)


def test_a_tree_is_an_einsum_over_its_leaves_and_a_path() -> None:
    nested = parse_nested(TREES[0])
    assert str(nested) == "84,738,267,156,05->01234"
    assert nested.nesting is not None
    assert nested.nesting.path == ((0, 1), (0, 1), (2, 0), (0, 1))
    assert nested.nesting.results[1] == ("1", "2", "5", "7")


def test_words_are_kept_apart() -> None:
    assert str(parse_nested("[10,1],[1,0]->[10,0]")) == "10 1,10->10 0"


def test_the_meaning_is_that_of_the_einsum() -> None:
    draw = np.random.default_rng(1)
    a, b, c = (draw.integers(-3, 4, shape) for shape in ((2, 3), (3, 4), (4, 2)))
    found = evaluate_einsum(parse_expression("[[i,k],[k,l]->[l,i]],[l,j]->[j,i]"), [a, b, c])
    np.testing.assert_array_equal(found, (a @ b @ c).T)


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("[i,k],[k,j]", "TEIR617", 12),
        ("[i,k][k,j]->[i]", "TEIR617", 6),
        ("[i,k],[k,j]->", "TEIR617", 14),
        ("[i,k],[k,j]->i", "TEIR617", 14),
        ("[i,,k]->[i]", "TEIR617", 4),
        ("[i,]->[i]", "TEIR617", 4),
        ("[i-k]->[i]", "TEIR617", 3),
        ("[[i,k],[k,j]->[i,j]", "TEIR617", 20),
        ("[i]->[i]]", "TEIR617", 9),
        ("[i,k]", "TEIR617", 6),
        ("[i,k],[k,j]->[i,l]", "TEIR605", 17),
        ("[i,k],[k,j]->[i,i]", "TEIR604", 17),
        ("[[i,k],[k,j]->[i,j]],[j,k]->[i,k]", "TEIR618", 25),
        ("[" * 300 + "i" + "]" * 300, "TEIR619", 202),
    ],
)
def test_the_finding_points_at_the_character(text: str, code: str, column: int) -> None:
    with pytest.raises(TeirError) as caught:
        parse_tree(text)
    (finding, *_) = caught.value.findings
    assert (finding.code, finding.place) == (code, TextPlace(line=1, column=column))


def test_every_finding_is_reported() -> None:
    with pytest.raises(TeirError) as caught:
        parse_tree("[[i,k],[k,j]->[i,x]],[j,k]->[i,i]")
    codes = [finding.code for finding in caught.value.findings]
    assert codes == ["TEIR605", "TEIR604", "TEIR618", "TEIR618"]


@given(st.text(alphabet="[],->i1 ", max_size=24))
def test_reading_ends_in_a_value_or_in_findings(text: str) -> None:
    try:
        tree = parse_tree(text)
    except TeirError as error:
        for finding in error.findings:
            assert isinstance(finding.place, TextPlace)
    else:
        assert parse_tree(print_tree(tree)) == tree
