"""Index notation: parse, print, check, evaluate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teir.errors import TeirError
from teir.expr.index_notation import Access, Assignment, Product
from teir.expr.index_notation_check import index_extents
from teir.expr.index_notation_evaluate import evaluate_index_notation
from teir.expr.index_notation_parsing import is_index_notation, parse_index_notation

SAME = (
    ("A[i,l] = B[i,j] * C[j,l]", "A(i,l)=B(i,j)*C(j,l)"),
    ("out[row] = m[row,col] * v[col]", " out [ row ] = m(row,col)*v[col] "),
    ("s = a[i] * b[i]", "s[] = a[i]*b[i]"),
    ("A[i] += -B[i] + C[i] - D[i]", "A[i]+=-B[i]+C[i]-D[i]"),
    ("A[ä] = s * B[ä]", "A(ä) = s() * B(ä)"),
    ("y[i] = 2 * A[i,j] * x[j] - 0.5 * z[i]", "y[i]=A[i,j]*x[j]*2-z[i]/2"),
    ("y[i] = -6 * A[i] + 0.25j * B[i]", "y[i] = 2j*A[i]*3.e0j + 1j/4*B[i]"),
    ("y[i] = A[i] + 1e-30 * A[i]", "y[i] = 2*.5*A[i] + 1E-30*A[i]"),
)

WRONG = (
    ("A[i] = ", "TEIR650", 8),
    ("A[i B", "TEIR650", 5),
    ("A[i] = B[i] + 2", "TEIR650", 15),
    ("A[i] = B[i] * -2", "TEIR650", 15),
    ("A[i] = B[i] / C[i]", "TEIR650", 15),
    ("A[i] = B[i] / 0", "TEIR650", 15),
    ("A[i] = 1e300 * 1e300 * B[i]", "TEIR650", 16),
    ("A[i] = 2B[i]", "TEIR650", 9),
    ("A[i] = B[2]", "TEIR650", 10),
    ("2 * A[i] = B[i]", "TEIR650", 1),
    ("A[i] = B[i,]", "TEIR650", 12),
    ("A[i) = B[i]", "TEIR650", 4),
    ("A[i] = B[i] C[i]", "TEIR650", 13),
    ("A[i] == B[i]", "TEIR650", 7),
    ("A[i,i] = B[i]", "TEIR651", 5),
    ("A[i] = A[i] * B[i]", "TEIR651", 8),
    ("A[i,j] = B[i,j] + C[i]", "TEIR652", 5),
    ("A[i] = B[i] * B[i,j]", "TEIR653", 15),
)

names = st.text("abijkXY_ä", min_size=1, max_size=3)


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    indices = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    kept = tuple(draw(st.permutations(indices))[: draw(st.integers(0, len(indices)))])
    products = []
    for number in range(draw(st.integers(1, 3))):
        terms = draw(st.lists(st.lists(st.sampled_from(indices), max_size=3), max_size=2))
        accesses = [kept, *map(tuple, terms)]
        factors = tuple(
            Access(tensor=f"T{number}{place}", indices=indices)
            for place, indices in enumerate(accesses)
        )
        drawn = draw(st.sampled_from((1.0, 2.0, 0.1, 1e-30, 1e22)) | st.floats(0, 1e9))
        is_negative = draw(st.booleans())
        products.append(Product(factors=factors, is_negative=is_negative, number=drawn))
    return Assignment(
        output=Access(tensor="out", indices=kept),
        products=tuple(products),
        accumulates=draw(st.booleans()),
    )


@pytest.mark.parametrize(("canonical", "text"), SAME)
def test_spellings_of_one_statement(canonical: str, text: str) -> None:
    assert parse_index_notation(text) == parse_index_notation(canonical)
    assert str(parse_index_notation(text)) == canonical


@pytest.mark.parametrize(("text", "code", "column"), WRONG)
def test_a_wrong_statement_is_blamed_at_its_character(text: str, code: str, column: int) -> None:
    with pytest.raises(TeirError) as caught:
        parse_index_notation(text)
    finding = caught.value.findings[0]
    assert finding.code == code
    assert f"column {column}" in str(finding.place)
    assert str(finding).splitlines()[2].index("^") == 4 + column - 1


@given(assignments())
def test_print_then_parse_is_the_identity(assignment: Assignment) -> None:
    again = parse_index_notation(str(assignment))
    assert again == assignment
    assert str(again) == str(assignment)


@given(st.text("ABij=+-*/[](), \n5.e0", max_size=30))
def test_any_text_is_read_or_refused_with_findings(text: str) -> None:
    try:
        assignment = parse_index_notation(text)
    except TeirError:
        return
    assert parse_index_notation(str(assignment)) == assignment


@given(assignments(), st.integers(0, 2**32 - 1))
def test_evaluation_agrees_with_numpy(assignment: Assignment, seed: int) -> None:
    draw = np.random.default_rng(seed)
    extents = {index: int(draw.integers(1, 4)) for index in assignment.indices}
    operands = {
        name: draw.standard_normal([extents[index] for index in access.indices])
        for name, access in assignment.inputs.items()
    }
    number = {index: place for place, index in enumerate(assignment.indices)}
    out = [number[index] for index in assignment.output.indices]
    shape = [extents[index] for index in assignment.output.indices]
    old = draw.standard_normal(shape)
    expected = old.copy() if assignment.accumulates else np.zeros(shape)
    for product in assignment.products:
        arguments: list[object] = []
        for factor in product.factors:
            arguments += [operands[factor.tensor], [number[index] for index in factor.indices]]
        term = np.einsum(*arguments, out)  # type: ignore[call-overload]
        expected = expected + product.coefficient * term
    found = evaluate_index_notation(assignment, operands, old)
    scale = max((one.number for one in assignment.products), default=1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11 * max(1.0, abs(scale)))


def test_operands_that_do_not_fit_are_all_named() -> None:
    assignment = parse_index_notation("A[i] = B[i,j] * C[j] * D[i]")
    with pytest.raises(TeirError) as caught:
        index_extents(assignment, {"B": (3, 4), "C": (5,)})
    assert [finding.code for finding in caught.value.findings] == ["TEIR655", "TEIR654"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("A[i] = B[i] + 2", "add it to a dense result"),
        ("A[i] = B[i] / C[i]", "divided by numbers only"),
        ("A[i] = B[i] * -2", "a sign stands before a term"),
        ("A[i] = (B[i] + C[i]) * D[i]", "multiply it out"),
        ("A[i] = A[i] * B[i]", "a name of its own"),
    ],
)
def test_what_other_notations_have_is_told_how_to_write(text: str, hint: str) -> None:
    with pytest.raises(TeirError, match=hint):
        parse_index_notation(text)


def test_an_einsum_is_not_index_notation() -> None:
    assert not is_index_notation("ij,jk->ik")
    assert is_index_notation("A[i] = B[i]")
    assert is_index_notation(" B[i,j] * C[j]")
    assert not is_index_notation("a[1].teir")
    assert not is_index_notation("[[i,k],[k,j]->[i,j]],[j,l]->[i,l]")
