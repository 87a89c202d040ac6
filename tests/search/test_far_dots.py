"""Dots of large matrices of short rows: the matrix is read as it lies."""

from __future__ import annotations

from msgspec.structs import replace

from search.planned import USUAL, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Program

FAR = replace(USUAL, l2_bytes=2**10)
EXTENTS = {"a": 4, "b": 52, "c": 60, "d": 20}


def walk_of(program: Program) -> tuple[str, ...]:
    """The axes of the loops around the sums, outermost first, then that of their rows."""
    (path,) = (
        path
        for path, leaf in program.invocations()
        if program.primitive_table()[leaf.primitive].operation is Operation.CONTRACTION
    )
    (sums,) = (one for one in program.primitives if one.operation is Operation.CONTRACTION)
    return (*(node.axis for node in path), *sums.m)


def test_rows_and_loops_follow_a_matrix_that_no_cache_holds() -> None:
    assert walk_of(planned("cabd,d->cba", EXTENTS, FAR).program) == ("c", "a", "b")
    assert walk_of(planned("cabd,d->cba", EXTENTS, USUAL).program) == ("b", "a", "c")


def test_rows_that_share_the_other_input_come_first() -> None:
    assert walk_of(planned("cabd,bd->cba", EXTENTS, FAR).program)[-1] == "a"


def test_long_rows_and_many_results_follow_the_result() -> None:
    long = EXTENTS | {"d": 128}
    assert walk_of(planned("cabd,d->cba", long, FAR).program) == ("b", "a", "c")
    short = EXTENTS | {"d": 7}
    assert walk_of(planned("cabd,d->cba", short, FAR).program) == ("b", "a", "c")


def test_a_matrix_from_memory_is_read_as_it_lies_beside_what_is_near() -> None:
    heads = {"b": 16, "k": 512, "h": 8, "d": 130}
    assert walk_of(planned("bhd,bkhd->bhk", heads, USUAL).program) == ("b", "k", "h")
    few = heads | {"k": 128}
    assert walk_of(planned("bhd,bkhd->bhk", few, USUAL).program)[-1] == "k"
    large = {"a": 17, "b": 150, "c": 328, "d": 17}
    assert walk_of(planned("dcb,cadb->dac", large, USUAL).program)[-1] == "a"


def test_what_is_read_as_it_lies_means_what_numpy_computes() -> None:
    for text in ("cabd,d->cba", "cabd,bd->bac", "cabd,cabd->abc"):
        program = planned_sum(text)
        assert_exact(program, text, EXTENTS, DataType.FP32, 3)


def planned_sum(text: str) -> Program:
    return planned(text, EXTENTS, FAR).program
