"""Dots of a matrix from memory whose summed axes lie outside others: read as it lies, in parts."""

from __future__ import annotations

from msgspec.structs import replace

from search.planned import USUAL, assert_alike, loops_of, program_of, shares_loops
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Primitive, Program

TEXT = "prqs,rs->pq"
EXTENTS = {"p": 35, "r": 30, "q": 50, "s": 41}
"""17 MB of FP64."""
TWO = replace(USUAL, threads=2)


def sum_of(program: Program) -> Primitive:
    (found,) = (one for one in program.primitives if one.operation is Operation.CONTRACTION)
    return found


def test_results_are_formed_part_by_part_as_the_matrix_lies() -> None:
    program = program_of(TEXT, EXTENTS)
    assert loops_of(program) == ["p", "r"]
    assert (sum_of(program).m, sum_of(program).k) == (("q",), ("s",))
    assert loops_of(program_of("rpqs,rs->qp", EXTENTS)) == ["r", "p"]


def test_what_is_summed_inside_the_rows_stays_in_a_part() -> None:
    program = program_of("prqts,srt->pq", EXTENTS | {"s": 10, "t": 5})
    assert loops_of(program) == ["p", "r"]
    assert sum_of(program).k == ("ts",)


def test_small_matrices_and_long_or_tiny_runs_are_summed_at_once() -> None:
    small = EXTENTS | {"p": 30}
    long = {"p": 8, "r": 4, "q": 32, "s": 2100}
    tiny = {"p": 10000, "r": 30, "q": 7, "s": 4}
    for extents in (small, long, tiny):
        assert "r" not in loops_of(program_of(TEXT, extents))
    inside = program_of("pqrs,rs->pq", EXTENTS)
    assert loops_of(inside) in (["p"], ["q"], [])


def test_parts_of_narrow_numbers_are_never_rounded() -> None:
    extents = EXTENTS | {"p": 140}
    assert "r" not in loops_of(program_of(TEXT, extents, data_type=DataType.BF16))
    assert "r" in loops_of(program_of(TEXT, extents, data_type=DataType.C64))


def test_threads_share_free_axes_and_change_no_bit() -> None:
    for text in (TEXT, "rpqs,rs->qp", "prqs,pr->pq"):
        alone, shared = program_of(text, EXTENTS), program_of(text, EXTENTS, TWO)
        assert "r" in loops_of(alone)
        assert shares_loops(shared)
        assert_alike([alone, shared], text, EXTENTS, 5)


def test_rows_alone_are_shared_in_pieces() -> None:
    extents = {"r": 60, "q": 900, "s": 41}
    alone, shared = (program_of("rqs,rs->q", extents, machine) for machine in (USUAL, TWO))
    assert loops_of(alone) == ["r"]
    assert shares_loops(shared)
    assert_alike([alone, shared], "rqs,rs->q", extents, 6)
