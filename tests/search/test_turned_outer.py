"""Products without sums whose operand lies turned to short rows of results."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, assert_means_it, planned, shares_loops, step_of
from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.search.turned_outer import turned_operand

TURNED = {
    "edacb,ecd->debca": {"a": 4, "b": 5, "c": 32, "d": 13, "e": 7},
    "ced,dcaeb->ecbda": {"a": 7, "b": 20, "c": 15, "d": 13, "e": 9},
    "dbc,cadb->dabc": {"a": 18, "b": 76, "c": 3, "d": 14},
    "acb,bac->cba": {"a": 2, "b": 146, "c": 141},
    "abc,c->cba": {"a": 6, "b": 60, "c": 75},
}
OTHERS = {
    "bac,c->bac": {"a": 6, "b": 600, "c": 11},
    "abc,bc->cba": {"a": 60, "b": 6, "c": 75},
    "ab,cb->cab": {"a": 90, "b": 5, "c": 60},
    "ba,b->ab": {"a": 40, "b": 9},
}
"""In order, of long rows, of operands that repeat, and small."""


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("text", TURNED)
def test_operands_are_laid_as_the_results_lie(text: str, threads: int) -> None:
    machine = replace(USUAL, threads=threads, threaded_work=64)
    assert_means_it(text, TURNED[text], machine, 4)


@pytest.mark.parametrize("text", TURNED)
def test_threads_share_tiles(text: str) -> None:
    program = planned(text, TURNED[text], replace(USUAL, threads=3, threaded_work=64)).program
    assert shares_loops(program)


@pytest.mark.parametrize("text", TURNED | OTHERS)
def test_operands_turned_to_short_rows_are_told(text: str) -> None:
    extents = (TURNED | OTHERS)[text]
    assert (turned_operand(step_of(text, extents)) is not None) == (text in TURNED)


def test_a_factor_is_repeated_along_short_rows_alone() -> None:
    """Along a there are rows enough for each."""
    text, extents = "bceda,dce->bcead", {"a": 200, "b": 2, "c": 2, "d": 8, "e": 30}
    program = planned(text, extents, USUAL).program
    table = program.axis_table()
    taken = {
        table[name].extent
        for one in program.primitives
        if one.operation is Operation.COPY and one.inputs == ("in1",)
        for name in (*one.m, *one.n)
    }
    assert taken
    assert max(taken) < extents["a"]
    assert_exact(program, text, extents, DataType.FP32, 7)
