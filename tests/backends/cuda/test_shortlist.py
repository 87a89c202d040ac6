"""Decisions that are measured on request: what is tried, and what is chosen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from backends.cuda.disassembly import need_compiler
from backends.cuda.programs import contraction, permutation
from backends.cuda.test_plan import code_of, has_driver, problem_of
from teir.backends.cuda.compiled import CompiledProgram
from teir.backends.cuda.decision import decision_of, with_decision
from teir.backends.cuda.device_arrays import bind_device_array
from teir.backends.cuda.drawn_operands import DeviceNumbers
from teir.backends.cuda.kernel import Family
from teir.backends.cuda.plan import plan
from teir.backends.cuda.shortlist import MOST, shortlist, tune, tune_on_device
from teir.dtypes import DataType
from teir.errors import TeirError

SIZES = {"m": 512, "n": 512, "k": 256}


@pytest.mark.parametrize("data_type", [DataType.BF16, DataType.TF32, DataType.FP32, DataType.FP64])
def test_every_decision_of_the_list_is_followed(data_type: DataType) -> None:
    program, _ = contraction("mk,nk->mn", SIZES, data_type)
    tried = shortlist(problem_of(program))
    assert 2 <= len(set(tried)) == len(tried) <= MOST
    default = decision_of(plan(program).program.primitive_table()["gemm"])
    assert tried[0] == default
    for decision in tried:
        planned = plan(with_decision(program, "gemm", decision))
        assert decision_of(planned.program.primitive_table()["gemm"]) == decision
    clusters = {one.cluster for one in tried}
    assert clusters == ({1, 2} if tried[0].kernel is Family.WARPGROUP else {1})


def test_the_quickest_is_chosen() -> None:
    need_compiler()
    program, _ = contraction("mk,nk->mn", SIZES, DataType.FP32)

    def measure(programs: Sequence[CompiledProgram]) -> Sequence[float]:
        assert all(one.code[0].cubin for one in programs)
        return [float(len(programs) - at) for at in range(len(programs))]

    tuned = tune(program, measure)
    assert decision_of(tuned.program.primitive_table()["gemm"]) == tuned.trials[-1].decision
    assert tuned.trials[-1].milliseconds == 1.0
    assert tuned.trials[0].decision != tuned.trials[-1].decision


def test_there_is_nothing_to_try_for_a_copy() -> None:
    program, _ = permutation((64, 64), (1, 0), DataType.FP32)
    tuned = tune(program, lambda programs: [0.0 for _ in programs])
    assert tuned.trials == ()
    assert tuned.program is program


@pytest.mark.parametrize("data_type", [kind for kind in DataType if not kind.is_index])
def test_drawn_numbers_are_operands(data_type: DataType) -> None:
    bound = bind_device_array("in0", DeviceNumbers(1 << 20, 5, data_type), data_type, 0)
    assert (bound.address, bound.after_bytes) == (1 << 20, 5 * data_type.width)


def test_without_a_driver_tuning_says_so_at_once() -> None:
    if has_driver():
        pytest.skip("there is a GPU here")
    program, _ = contraction("mk,nk->mn", SIZES, DataType.BF16)
    array = np.zeros(4)
    with pytest.raises(TeirError) as refused:
        tune_on_device(program, {"in0": array, "in1": array, "out": array})
    assert code_of(refused) == "TEIR721"
