"""Which tensors of sparse products are turned, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest

import teir
from teir.arrays.levels import Format, Level
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.check import check
from teir.ir.nodes import Operation, Program
from teir.passes.turned_rows import with_turned_rows
from teir.search.sparse.graph import linear
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of

EXTENTS = {"i": 40, "j": 30, "k": 5}


def program_for(text: str, order: str, data_type: DataType = DataType.FP64) -> Program:
    """The nest in this order; B is compressed below its first index."""
    levels = Format(levels=(Level.DENSE, Level.COMPRESSED), mode_order=(0, 1))
    shares = "B" if text.startswith("A[i,j]") else None
    formats = {"B": levels} | ({"A": levels} if shares else {})
    statement = statement_of(parse_index_notation(text), formats)
    return program_of(
        linear(statement, tuple(order)),
        {index: EXTENTS[index] for index in order},
        data_type=data_type,
        index_type=DataType.I32,
        name="turned",
        shares=shares,
    )


def copies(program: Program) -> set[tuple[str, str]]:
    """What Copies read and write."""
    primitives = program.primitive_table()
    leaves = [primitives[one.primitive] for _, one in program.invocations()]
    return {(one.inputs[0], one.output) for one in leaves if one.operation is Operation.COPY}


@pytest.mark.parametrize(
    ("text", "order", "expected"),
    [
        ("A[i,k] = B[i,j] * C[j,k]", "ijk", set()),
        ("A[i,k] = B[i,j] * C[k,j]", "ijk", {("C", "C_rows")}),
        ("A[k,i] = B[i,j] * C[j,k]", "ijk", {("A_rows", "A")}),
        ("A[k,j] = B[i,j] * C[k,i]", "ijk", {("C", "C_rows"), ("A_rows", "A")}),
        ("A[i,j] = B[i,j] * C[i,k] * D[k,j]", "ijk", {("D", "D_rows")}),
        ("A[i,j] = B[i,j] * C[k,i] * D[k,j]", "ijk", {("C", "C_rows"), ("D", "D_rows")}),
    ],
)
def test_what_lies_across_its_rows_is_turned(
    text: str, order: str, expected: set[tuple[str, str]]
) -> None:
    program = program_for(text, order)
    after = with_turned_rows(program, {"B.crd1": 10_000})
    assert copies(after) == expected
    assert expected or after is program
    check(after).raise_if_wrong()


@pytest.mark.parametrize(("stored", "is_turned"), [(59, False), (60, True)])
def test_rows_that_are_seldom_touched_stay(stored: int, is_turned: bool) -> None:
    program = program_for("A[i,k] = B[i,j] * C[k,j]", "ijk")
    assert (with_turned_rows(program, {"B.crd1": stored}) is not program) == is_turned


@pytest.mark.parametrize(
    ("data_type", "lanes"), [(DataType.FP64, "8"), (DataType.FP32, "16"), (DataType.BF16, None)]
)
def test_dots_of_turned_rows_have_the_chains_of_dots(
    data_type: DataType, lanes: str | None
) -> None:
    program = program_for("A[i,j] = B[i,j] * C[i,k] * D[k,j]", "ijk", data_type)
    after = with_turned_rows(program, {"B.crd1": 10_000})
    dots = [one for one in after.primitives if one.k]
    assert [dict(one.metadata).get("lanes") for one in dots] == [lanes]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "subscripts",
    ["ij,kj->ik", "ij,jk->ki", "ij,kj->ki", "ki,ij->kj", "ki,ij->jk", "ij,ik->kj", "ij,klj->ilk"],
)
@pytest.mark.parametrize("width", [1, 3, 16, 37])
def test_every_layout_gives_the_same_result(subscripts: str, threads: int, width: int) -> None:
    draw = np.random.default_rng(7)
    dense = np.where(draw.random((90, 70)) < 0.2, draw.integers(-4, 5, (90, 70)), 0.0)
    dense[5:9] = 0.0
    stored = teir.Sparse.from_coo(
        np.stack(np.nonzero(dense)), dense[np.nonzero(dense)], dense.shape, levels="ds"
    )
    extents = {"i": 90, "j": 70, "k": width, "l": 3}
    terms = subscripts.partition("->")[0].split(",")
    other = next(term for term in terms if term != "ij")
    factor = draw.integers(-4, 5, [extents[index] for index in other]).astype(np.float64)
    given = [stored if term == "ij" else factor for term in terms]
    meant = [dense if term == "ij" else factor for term in terms]
    plan = teir.plan(subscripts, *given, threads=threads)
    expected = np.einsum(subscripts, *meant)
    np.testing.assert_array_equal(plan(*given), expected)
    result = np.full(expected.shape, np.nan)
    plan(*given, out=result)
    np.testing.assert_array_equal(result, expected)
