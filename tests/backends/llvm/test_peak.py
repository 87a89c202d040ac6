"""The measured peaks are finite, and the loop they are measured with holds multiply-adds only."""

from __future__ import annotations

import re

import pytest

from backends.llvm.kernel_calls import HERE
from teir.backends.llvm.compile_ir import assembly, module_text, runs_here
from teir.backends.llvm.peak import _CHAINS, _peak_function, measure_bf16_peak, measure_fma_peak
from teir.dtypes import DataType
from teir.target import Isa


@pytest.mark.parametrize("isa", HERE)
def test_peak_of_fp32_is_above_that_of_fp64(isa: Isa) -> None:
    peaks = [measure_fma_peak(isa, data_type) for data_type in (DataType.FP32, DataType.FP64)]
    assert 1e8 < peaks[1] < peaks[0] < 1e12


@pytest.mark.parametrize("isa", [isa for isa in Isa if isa.has_fma and isa is not Isa.NEON])
def test_peak_loop_holds_one_instruction_per_chain(isa: Isa) -> None:
    text = assembly(module_text([_peak_function(isa, "float")], isa), isa, ("teir_peak",))
    assert len(re.findall(r"vfmadd\d+ps", text)) == _CHAINS
    assert "rsp" not in text


@pytest.mark.skipif(not runs_here(Isa.AMX), reason="no tile registers")
def test_tiles_form_products_of_bf16_faster_than_vectors_do() -> None:
    assert measure_bf16_peak(Isa.AMX) > 2 * measure_bf16_peak(Isa.AVX512)
