"""The sparse programs whose kernels are compiled ahead."""

from __future__ import annotations

import pytest

from teir.dtypes import DataType
from teir.ir.check import check
from teir.lower.explanation import count_calls
from teir.lower.lower import lower
from teir.lower.usual_walks import WIDTHS, walked_programs
from teir.lower.walked_kernels import WalkedDots, WalkedSampledSum, WalkedSum
from teir.target import Isa


@pytest.mark.parametrize("data_type", [DataType.FP64, DataType.FP32])
def test_all_their_kernels_walk_fibres(data_type: DataType) -> None:
    programs = list(walked_programs(data_type))
    assert len(programs) == 4 * len(WIDTHS)
    for program in programs:
        check(program).raise_if_wrong()
        for kernel in count_calls(lower(program, Isa.AVX512).roots):
            assert isinstance(kernel, WalkedSum | WalkedDots | WalkedSampledSum)


def test_other_types_have_none() -> None:
    assert not list(walked_programs(DataType.C64))


@pytest.mark.parametrize(("width", "data_type"), [(64, DataType.FP64), (128, DataType.FP32)])
def test_rows_that_are_asked_for_are_among_them(width: int, data_type: DataType) -> None:
    kernels = {
        kernel
        for program in walked_programs(data_type)
        for kernel in count_calls(lower(program, Isa.AMX).roots)
    }
    vectors = width * data_type.width // 64
    found = [
        one
        for one in kernels
        if isinstance(one, WalkedSum) and one.vectors == vectors and one.rows and one.rows.asks
    ]
    assert len(found) == 1
