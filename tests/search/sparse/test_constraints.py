"""Constraints: text, bounds, and proofs that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from search.sparse.kernels import KERNELS
from teir.errors import TeirError
from teir.search.sparse.bounding import never_below
from teir.search.sparse.constraints import known_of, parse_constraint, symbols_of
from teir.search.sparse.sampling import sample_points
from teir.search.sparse.schedules import Request, RuleSet, find_schedules

STATEMENT = KERNELS["K6"].statement
SYMBOLS = symbols_of(STATEMENT)


def test_symbols_are_indices_and_fibre_lengths() -> None:
    assert SYMBOLS == ("i", "l", "m", "j", "k", "jpos", "kpos")


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("8 <= k <= 256", ["8 <= k", "k <= 256"]),
        ("l > 3", ["3 < l"]),
        ("1000 * i * jpos < i * j", ["1000 * i * jpos < i * j"]),
        ("(i + 2) * (i - 2) == l", ["-4 + i * i == l"]),
        ("i - i >= 0", ["0 <= 0"]),
    ],
)
def test_comparisons_become_polynomials(text: str, printed: list[str]) -> None:
    assert list(map(str, parse_constraint(text, SYMBOLS))) == printed


@pytest.mark.parametrize(
    "text",
    ["", "k", "k <", "k != 3", "k < 2.5", "k < n", "k < i / 2", "k < f(3)", "k < 'a'", "k<" * 900],
)
def test_what_is_no_constraint_is_refused(text: str) -> None:
    with pytest.raises(TeirError) as caught:
        known_of(STATEMENT, [text])
    assert caught.value.findings[0].code == "TEIR667"


@given(st.text("kij<>=+*-() 123", max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        known_of(STATEMENT, [text])
    except TeirError as error:
        codes = {finding.code for finding in error.findings}
    else:
        codes = {"TEIR667"}
    assert codes == {"TEIR667"}


def test_bounds_are_read_off() -> None:
    bounds = known_of(STATEMENT, ["8 <= k <= 256", "l < 10", "m == 4", "i * j < 9"]).bounds
    assert (bounds["k"], bounds["l"], bounds["i"]) == ((8, 256), (1, 9), (1, None))
    assert bounds["m"] == (4, 4)
    assert bounds["jpos"] == (0, None)


products = st.lists(st.sampled_from(SYMBOLS), max_size=3).map(lambda words: tuple(sorted(words)))
sums = st.lists(products, max_size=3).map(lambda parts: tuple(sorted(parts)))


def _exactly(total: tuple[tuple[str, ...], ...], sizes: Mapping[str, int]) -> int:
    return sum(prod(sizes[symbol] for symbol in product) for product in total)


@example(large=((), ("i", "i", "i")), small=(("i", "i", "i"),), strictly=True)
@given(sums, sums, st.booleans())
def test_a_proof_holds_at_every_sample_point(
    large: tuple[tuple[str, ...], ...], small: tuple[tuple[str, ...], ...], strictly: bool
) -> None:
    known = known_of(STATEMENT, ["2 <= l <= 5", "k <= 50"])
    if not never_below(large, small, known, strictly=strictly):
        return
    points = sample_points(known)
    for number in range(0, 200, 10):
        # Whole numbers, for a sum of floats loses its small terms.
        sizes = {symbol: int(values[number]) for symbol, values in points.items()}
        above, below = _exactly(large, sizes), _exactly(small, sizes)
        assert above >= below
        assert not strictly or above > below


def test_proofs_use_ranges_and_fibres() -> None:
    known = known_of(STATEMENT, ["2 <= l", "m <= 2"])
    assert never_below((("i", "j"),), (("i", "jpos"),), known)
    assert never_below((("i", "l"),), (("i",), ("i",)), known)
    assert never_below((("i", "l"),), (("i", "m"),), known)
    assert not never_below((("i",),), (("i",), ("i",)), known)
    assert not never_below((("i", "jpos"),), (("i",),), known)
    assert never_below((("i",), ("l",)), (("l",),), known, strictly=True)


def test_constraints_that_nothing_meets_are_refused() -> None:
    pytest.importorskip("z3")
    request = Request(rule=RuleSet.PAPER, constraints=("i < 5", "i > 7"), cache_bytes=1)
    with pytest.raises(TeirError) as caught:
        find_schedules(STATEMENT, request)
    assert caught.value.findings[0].code == "TEIR668"
