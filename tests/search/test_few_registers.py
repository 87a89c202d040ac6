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
            used = kernel.vectors * kernel.columns + kernel.vectors + 1
            assert used <= Isa.AVX2.vector_registers, kernel


def test_panels_are_lower() -> None:
    extents = {"i": 512, "j": 512, "k": 512}
    assert choice_of(TEXT, extents, USUAL, DataType.FP32).panel == 64
    assert choice_of(TEXT, extents, FEW, DataType.FP32).panel == 16


def test_nothing_is_written_past_the_caches_in_parts_of_lines() -> None:
    extents = {"i": 4000, "j": 24, "k": 4000}
    assert choice_of(TEXT, extents, USUAL, DataType.FP32).streams
    assert not choice_of(TEXT, extents, FEW, DataType.FP32).streams
