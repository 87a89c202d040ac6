"""How many columns of B a register block may read side by side."""

from __future__ import annotations

import pytest

from teir.dtypes import DataType
from teir.lower.blocking import (
    BlockedTile,
    Blocking,
    choose_blocking,
    most_columns,
    narrow_rest,
)
from teir.target import Isa


@pytest.mark.parametrize(
    ("stride_bytes", "most"),
    [(0, None), (4096, 6), (8192, 6), (2048, 12), (10240, 12), (1024, None), (4160, None)],
)
def test_columns_that_share_sets_of_the_first_cache_are_few(
    stride_bytes: int, most: int | None
) -> None:
    assert most_columns(stride_bytes) == most


def chosen(
    size: tuple[int, int, int],
    isa: Isa,
    in_type: DataType = DataType.FP32,
    out_type: DataType = DataType.FP32,
    most: int | None = None,
) -> Blocking:
    """The blocking of a tile of so many rows, columns and products."""
    rows, columns, depth = size
    tile = BlockedTile(
        rows=rows,
        columns=columns,
        depth=depth,
        in_type=in_type,
        out_type=out_type,
        most_columns=most,
    )
    return choose_blocking(tile, isa)


def test_no_block_has_more_columns_than_its_sets_hold() -> None:
    blocking = chosen((8, 96, 64), Isa.AVX512, DataType.FP64, DataType.FP64, 12)
    assert max(cut.size for cut in blocking.columns) <= 12


def test_few_products_take_tall_blocks_of_some_columns() -> None:
    """Runs of C that are written once for three products are long: fewer lines are crossed."""
    short = chosen((121, 113, 3), Isa.AVX512)
    assert [cut.size for cut in short.rows] == [4]
    assert min(cut.size for cut in short.columns) >= 2


def test_blocks_have_more_products_per_load_where_loads_do_not_hide() -> None:
    """One multiply-add a cycle hides the loads of a 2 x 6 block; two a cycle do not."""
    one, two = (chosen((54, 67, 38), isa) for isa in (Isa.AVX512, Isa.AMX))
    assert [(cut.size, cut.count) for cut in one.rows] == [(2, 2)]
    assert [cut.size for cut in one.columns] == [6, 5]
    assert [(cut.size, cut.count) for cut in two.rows] == [(4, 1)]
    assert [cut.size for cut in two.columns] == [6, 5]


def test_blocks_of_narrow_types_are_those_of_any_avx512() -> None:
    one, two = (chosen((54, 67, 38), isa, DataType.BF16) for isa in (Isa.AVX512, Isa.AMX))
    assert one == two


def test_deep_sums_from_beyond_the_first_cache_read_few_lines() -> None:
    """Wide blocks read A less often: what hot tiles gain by tall ones is lost on its way."""
    deep = chosen((1600, 96, 448), Isa.AMX)
    hot = chosen((64, 96, 38), Isa.AMX)
    assert [cut.size for cut in deep.columns] == [9, 8]
    assert [cut.size for cut in hot.columns] == [6]


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "isa", "rest"),
    [
        (49, 102, 640, Isa.AVX512, 1),
        (24, 16, 64, Isa.AVX512, 8),
        (25, 102, 640, Isa.AVX512, 0),
        (48, 102, 640, Isa.AVX512, 0),
        (8, 102, 640, Isa.AVX512, 0),
        (24, 15, 640, Isa.AVX512, 0),
        (24, 102, 63, Isa.AVX512, 0),
        (24, 102, 640, Isa.AMX, 0),
        (12, 102, 640, Isa.AVX2, 0),
    ],
)
def test_half_a_vector_of_rows_takes_narrow_vectors(
    rows: int, columns: int, depth: int, isa: Isa, rest: int
) -> None:
    tile = BlockedTile(
        rows=rows, columns=columns, depth=depth, in_type=DataType.FP32, out_type=DataType.FP32
    )
    assert narrow_rest(tile, isa) == rest


@pytest.mark.parametrize(("results_far", "columns"), [(True, {6}), (False, {10, 9})])
def test_bf16_blocks_are_wider_where_results_stay_near(
    results_far: bool, columns: set[int]
) -> None:
    tile = BlockedTile(
        rows=24,
        columns=48,
        depth=48,
        in_type=DataType.BF16,
        out_type=DataType.BF16,
        flushes=True,
        results_far=results_far,
    )
    assert {cut.size for cut in choose_blocking(tile, Isa.AVX512).columns} == columns


@pytest.mark.parametrize(("goes_on", "height", "width"), [(True, 3, 8), (False, 5, 5)])
def test_factors_in_runs_are_read_again_for_lower_blocks(
    goes_on: bool, height: int, width: int
) -> None:
    tile = BlockedTile(
        rows=152,
        columns=39,
        depth=468,
        in_type=DataType.FP64,
        out_type=DataType.FP64,
        b_goes_on=goes_on,
    )
    blocking = choose_blocking(tile, Isa.AVX512)
    assert (blocking.rows[0].size, blocking.columns[0].size) == (height, width)
