"""A vector times a matrix from memory whose summed axes lie outside others: read as it lies."""

from __future__ import annotations

from msgspec.structs import replace

from search.planned import USUAL, assert_alike, loops_of, program_of, shares_loops
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Primitive, Program

INSIDE = "ebda,de->ba"
EXTENTS = {"a": 150, "b": 20, "c": 40, "d": 12, "e": 60}
"""17 MB of FP64 with d and e."""
BLOCKS = {"a": 150, "b": 37, "c": 400}
TWO = replace(USUAL, threads=2)


def sums_of(program: Program) -> list[Primitive]:
    return [one for one in program.primitives if one.operation is Operation.CONTRACTION]


def test_what_is_summed_outside_others_is_a_loop_around_them() -> None:
    program = program_of(INSIDE, EXTENTS)
    assert loops_of(program) == ["e", "b"]
    (found,) = sums_of(program)
    assert (found.m, found.k) == (("a",), ("d",))


def test_a_few_rows_at_a_time_where_nothing_is_summed_inside() -> None:
    program = program_of("bca,bc->ca", BLOCKS)
    table = program.axis_table()
    assert [table[name].extent for name in loops_of(program)] == [4, 400, 400]
    assert [table[one.k[0]].extent for one in sums_of(program)] == [8, 5]


def test_small_matrices_and_results_summed_at_once_are_left_alone() -> None:
    small = EXTENTS | {"e": 50}
    assert "e" not in loops_of(program_of(INSIDE, small))
    inside = program_of("beda,de->ba", EXTENTS)
    assert "e" not in loops_of(inside)
    narrow = EXTENTS | {"e": 240}
    assert "e" not in loops_of(program_of(INSIDE, narrow, data_type=DataType.BF16))


def test_short_rows_are_read_so_where_many_lie_at_one_index() -> None:
    heads = {"b": 8, "k": 300, "h": 32, "d": 40}
    program = program_of("bhk,bkhd->bhd", heads)
    assert loops_of(program)[:3] == ["b", "k", "h"]
    assert_alike([program, program_of("bhk,bkhd->bhd", heads, TWO)], "bhk,bkhd->bhd", heads, 9)
    few = {"b": 16, "k": 500, "h": 8, "d": 40}
    tiny = {"b": 8, "k": 300, "h": 64, "d": 20}
    for extents in (few, tiny):
        assert "k" not in loops_of(program_of("bhk,bkhd->bhd", extents))


def test_threads_share_what_is_not_summed_and_change_no_bit() -> None:
    for text, extents in ((INSIDE, EXTENTS), ("bca,bc->ca", BLOCKS), ("bca,bc->ac", BLOCKS)):
        alone, shared = (program_of(text, extents, machine) for machine in (USUAL, TWO))
        assert not shares_loops(alone)
        assert shares_loops(shared)
        assert_alike([alone, shared], text, extents, 7)


def test_rows_are_shared_where_all_other_axes_are_short() -> None:
    extents = {"a": 9000, "b": 3, "d": 8, "e": 10}
    alone, shared = (program_of(INSIDE, extents, machine) for machine in (USUAL, TWO))
    assert loops_of(alone) == ["e", "b"]
    assert shares_loops(shared)
    assert_alike([alone, shared], INSIDE, extents, 8)
