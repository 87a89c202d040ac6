"""A vector times a matrix from memory whose summed axes lie outside others: read as it lies."""

from __future__ import annotations

from msgspec.structs import replace

from search.planned import FAR, USUAL, assert_alike, loops_of, program_of, shares_loops
from teir.dtypes import DataType
from teir.ir.memory_hints import memory_hints
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


def asked_for(program: Program) -> set[tuple[str, ...]]:
    return {tuple(sorted(memory_hints(one).prefetched)) for one in sums_of(program)}


def test_rows_of_some_elements_are_asked_for_a_block_of_the_sum_ahead() -> None:
    for extents in (
        {"b": 16, "k": 500, "h": 8, "d": 40},
        {"b": 8, "k": 300, "h": 64, "d": 20},
    ):
        program = program_of("bhk,bkhd->bhd", extents)
        table = program.axis_table()
        found = [table[name] for name in loops_of(program)[:3]]
        assert [axis.strides["out"] > 0 for axis in found] == [True, False, True]
        assert max(table[one.k[0]].extent for one in sums_of(program)) in (15, 16)
        assert asked_for(program) == {("in1",)}
        assert_alike([program], "bhk,bkhd->bhd", extents, 11)
        assert asked_for(program_of("bhk,bkhd->bhd", extents, FAR)) == {()}


def test_sums_of_one_part_are_formed_at_once_in_the_order_of_the_matrix() -> None:
    long = {"a": 30, "b": 40, "c": 34, "d": 60}
    inside = program_of("bcda,dc->ba", long)
    assert loops_of(inside) == ["b"]
    assert [len(one.k) for one in sums_of(inside)] == [2]
    assert_alike([inside], "bcda,dc->ba", long, 12)


def test_a_few_rows_from_each_place_are_asked_for_where_memory_holds_them() -> None:
    extents = {"a": 14, "b": 451, "c": 18, "d": 40}
    far, near = (replace(USUAL, l3_bytes=size << 20) for size in (32, 64))
    asking, alone = (program_of("cbda,cd->abd", extents, machine) for machine in (far, near))
    assert asked_for(asking) == {("in0",)}
    assert asked_for(alone) != {("in0",)}
    assert_alike([asking, alone], "cbda,cd->abd", extents, 13)


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
