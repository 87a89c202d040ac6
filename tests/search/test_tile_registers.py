"""What the choice makes of products that tile registers form; everybody else's stay."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, choice_of, planned
from teir.dtypes import DataType
from teir.search.choice import Order, Packing
from teir.search.tile_registers import are_tiles, tile_panel, tile_rows

TILES = replace(USUAL, l2_bytes=2 << 20, has_tiles=True)
SMALL = replace(TILES, l1_bytes=1024, l2_bytes=1 << 15)
BF16 = DataType.BF16


@pytest.mark.parametrize(
    ("rows", "panel"), [(48, 48), (512, 512), (2016, 504), (1134, 378), (1009, 256)]
)
def test_panels_leave_no_remainder_where_they_can(rows: int, panel: int) -> None:
    assert tile_panel(rows) == panel


@pytest.mark.parametrize(("rows", "outer", "count"), [(8, 52, 52), (27, 42, 16), (24, 12, 12)])
def test_short_rows_fill_tiles(rows: int, outer: int, count: int) -> None:
    assert tile_rows(rows, outer) == count


def test_blocks_of_columns_fill_the_room_beside_two_tiles_of_rows() -> None:
    extents = {"m": 2016, "n": 2024, "f": 42, "e": 48}
    choice = choice_of("fem,fne->nm", extents, TILES, BF16)
    assert choice.order is Order.COLUMNS
    assert choice.column_block == 253
    assert choice.row_block % choice.panel == 0
    assert not choice.streams


@pytest.mark.parametrize("expression", ["km,nk->nm", "km,kn->nm", "mk,nk->nm", "mk,kn->nm"])
def test_matrices_lie_as_they_are_for_a_call_that_brings_them_into_tiles_once(
    expression: str,
) -> None:
    choice = choice_of(expression, {"m": 2016, "n": 2024, "k": 2016}, TILES, BF16)
    assert (choice.packed_a, choice.packed_b) == (Packing.NONE, Packing.NONE)
    assert (choice.panel, choice.column_block) == (2016, 2024)


@pytest.mark.parametrize(("s", "is_laid"), [(96, True), (26, True), (25, False)])
def test_an_outer_axis_goes_into_the_call_where_the_inner_one_fills_its_tiles(
    s: int, *, is_laid: bool
) -> None:
    extents = {"r": 8, "s": s, "t": 56, "u": 20, "q": 92, "p": 12}
    choice = choice_of("rtus,tuqp->pqrs", extents, TILES, BF16)
    assert (choice.packed_a is Packing.NONE) is is_laid
    assert (choice.packed_b is Packing.NONE) is is_laid


@pytest.mark.parametrize("a", [40, 168])
def test_rows_stay_where_they_lie_unless_much_of_their_tiles_is_empty(a: int) -> None:
    choice = choice_of("dca,bd->cba", {"a": a, "b": 184, "c": 184, "d": 168}, TILES, BF16)
    assert (choice.packed_a, choice.panel) == (Packing.NONE, a)


@pytest.mark.parametrize(
    ("d", "e", "c", "is_packed"),
    [(3, 24, 100, True), (16, 10, 300, True), (32, 10, 300, False), (16, 10, 48, False)],
)
def test_columns_whose_sums_lie_in_short_runs_are_packed_where_many_rows_read_them(
    d: int, e: int, c: int, *, is_packed: bool
) -> None:
    extents = {"a": 9, "b": 190, "c": c, "d": d, "e": e}
    choice = choice_of("eadb,ecd->bac", extents, TILES, BF16)
    assert (choice.packed_b is not Packing.NONE) is is_packed


@pytest.mark.parametrize(("n", "is_cut"), [(1024, False), (64, True)])
def test_long_sums_are_one_block_where_many_results_would_come_and_go(
    n: int, *, is_cut: bool
) -> None:
    extents = {"m": 2048, "n": n, "k": 4096}
    assert (choice_of("km,kn->nm", extents, TILES, BF16).depth < 4096) is is_cut
    assert choice_of("mk,nk->nm", extents, TILES, BF16).depth == 4096


def test_rows_of_a_call_are_as_many_as_the_room_takes() -> None:
    choice = choice_of("km,nk->nm", {"m": 20_000, "n": 1000, "k": 2048}, TILES, BF16)
    assert choice.panel * 2048 * 2 <= 1 << 24
    assert choice.panel > 3000


def test_short_sums_are_turned_by_a_copy() -> None:
    extents = {"m": 2016, "n": 2024, "k": 48}
    assert choice_of("mk,nk->nm", extents, TILES, BF16).packed_a is not Packing.NONE


def test_short_runs_of_b_are_copied_without_gaps() -> None:
    extents = {"m": 480, "n": 480, "f": 40, "e": 48}
    assert choice_of("fem,fne->nm", extents, TILES, BF16).packed_b is Packing.WHOLE
    assert choice_of("fem,fne->nm", extents | {"e": 64}, TILES, BF16).packed_b is Packing.NONE
    assert choice_of("fem,fne->nm", extents, USUAL, BF16).packed_b is Packing.NONE


def test_small_products_are_formed_by_vectors() -> None:
    for extents, by_tiles in (
        ({"m": 16, "n": 16, "k": 32}, True),
        ({"m": 99, "n": 3, "k": 99}, False),
    ):
        (step,) = planned("km,nk->nm", extents, TILES, BF16).matrix_steps
        assert are_tiles(step.shape, TILES) is by_tiles


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_other_types_are_chosen_for_as_without_tiles(data_type: DataType) -> None:
    extents = {"m": 300, "n": 300, "k": 300}
    with_tiles = choice_of("km,nk->nm", extents, TILES, data_type)
    assert with_tiles == choice_of("km,nk->nm", extents, replace(TILES, has_tiles=False), data_type)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", ["fem,fne->nm", "mfe,nef->nm", "afem,bfne->bnam"])
def test_programs_mean_what_numpy_computes(text: str, threads: int) -> None:
    extents = {"m": 24, "n": 20, "f": 5, "e": 12, "a": 3, "b": 2}
    program = planned(text, extents, replace(SMALL, threads=threads), BF16).program
    assert_exact(program, text, extents, BF16, 8)


def test_columns_of_a_call_are_few_enough_for_it_to_end_soon() -> None:
    extents = {"m": 2048, "n": 200_000, "k": 256}
    choice = choice_of("km,nk->nm", extents, TILES, BF16)
    assert 1 << 35 < choice.column_block * 2048 * 256 <= 1 << 36
    assert choice.column_block % 16 == 0
