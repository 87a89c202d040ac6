"""Where a core holds sixteen vectors, panels are as high as register blocks that fit in them."""

from __future__ import annotations

import msgspec
import pytest

from search.planned import USUAL, choice_of, planned
from teir.dtypes import DataType
from teir.lower.calls import calls_of
from teir.lower.kernels import PanelBlock
from teir.lower.lower import lower
from teir.target import Isa

FAR = {"a": 24, "b": 12, "c": 12, "d": 24, "e": 12, "f": 12, "g": 24}
"""Short sums of 96 MB in FP64."""
FEW = msgspec.structs.replace(USUAL, vector_bytes=32, vector_registers=16)
TEXT = "ij,jk->ik"
SIZES = ((64, 96, 100), (200, 333, 128), (1000, 500, 184), (100, 40, 24), (31, 700, 1009))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_every_panel_stays_in_registers(sizes: tuple[int, ...], data_type: DataType) -> None:
    extents = dict(zip("ijk", sizes, strict=True))
    program = planned(TEXT, extents, FEW, data_type).program
    kernels = {call.kernel for call, _ in calls_of(lower(program, Isa.AVX2).roots)}
    for kernel in kernels:
        if isinstance(kernel, PanelBlock):
            beside = kernel.vectors + 1 if kernel.vectors <= 3 else kernel.columns + 1
            used = kernel.vectors * kernel.columns + beside
            assert used <= Isa.AVX2.vector_registers, kernel


def test_panels_are_lower() -> None:
    extents = {"i": 512, "j": 512, "k": 512}
    assert choice_of(TEXT, extents, USUAL, DataType.FP32).panel == 64
    assert choice_of(TEXT, extents, FEW, DataType.FP32).panel == 16


@pytest.mark.parametrize(
    ("rows", "data_type", "is_tile"),
    [
        (24, DataType.FP64, True),
        (24, DataType.FP32, True),
        (16, DataType.FP64, True),
        (20, DataType.FP64, False),
        (22, DataType.FP64, False),
        (56, DataType.FP64, False),
    ],
)
def test_one_tile_takes_columns_that_follow_one_another(
    rows: int, data_type: DataType, is_tile: bool
) -> None:
    choice = choice_of("agfd,cbeg->fedcba", FAR | {"a": rows}, FEW, data_type)
    assert (choice.panel == rows and choice.column_block == 144) == is_tile


def test_blocks_of_a_tile_are_whole_columns() -> None:
    program = planned("agfd,cbeg->fedcba", FAR, FEW, DataType.FP64).program
    kernels = {call.kernel for call, _ in calls_of(lower(program, Isa.AVX2).roots)}
    (block,) = [kernel for kernel in kernels if isinstance(kernel, PanelBlock)]
    assert (block.vectors, block.columns) == (6, 2)
    assert block.dense_columns
    assert block.repeats
    assert not block.claims


def test_nothing_is_written_past_the_caches_in_parts_of_lines() -> None:
    extents = {"i": 4000, "j": 24, "k": 4000}
    assert choice_of(TEXT, extents, USUAL, DataType.FP32).streams
    assert not choice_of(TEXT, extents, FEW, DataType.FP32).streams
