"""What `teir warm` compiles for gates and points is what calls of them need."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import teir
from teir.dtypes import DataType
from teir.ir.check import check
from teir.lower.explanation import count_calls
from teir.lower.lower import lower
from teir.lower.site_kernels import SiteProduct
from teir.lower.usual_sites import site_programs
from teir.pipeline.executable import default_isa
from teir.target import Isa

TYPES = {"float32": DataType.FP32, "complex64": DataType.C64, "complex128": DataType.C128}


def warmed(isa: Isa, data_type: DataType) -> set[SiteProduct]:
    kernels = {
        kernel
        for program in site_programs(isa, data_type)
        for kernel in count_calls(lower(program, isa).roots)
    }
    return {kernel for kernel in kernels if isinstance(kernel, SiteProduct)}


@pytest.mark.parametrize("isa", [Isa.AVX512, Isa.AVX2, Isa.NEON])
def test_programs_are_right(isa: Isa) -> None:
    assert [one for one in site_programs(isa, DataType.FP32) if not check(one).ok] == []
    assert list(site_programs(isa, DataType.BF16)) == []


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("places", [(11,), (10,), (3, 11), (10, 11), (9, 11), (2, 10)])
def test_gates_need_no_other_kernels(name: str, places: tuple[int, ...]) -> None:
    cuts = (-1, *places, 12)
    state = [2 ** (after - before - 1) for before, after in pairwise(cuts)]
    rows, columns, sums = "cdef"[: len(state)], "ab"[: len(places)], "xy"[: len(places)]
    shape = [extent for size in state for extent in (size, 2)][:-1]
    text = "".join(one + two for one, two in zip(rows, (*sums, ""), strict=True))
    out = "".join(one + two for one, two in zip(rows, (*columns, ""), strict=True))
    gate = np.ones((2,) * (2 * len(places)), name)
    plan = teir.plan(f"{columns}{sums},{text}->{out}", gate, np.ones(shape, name), threads=1)
    assert plan.executable is not None
    called = count_calls(plan.executable.kernel_program.roots)
    needed = {kernel for kernel in called if isinstance(kernel, SiteProduct)}
    # Of two numbers a vector, C128 has other kernels for all gates.
    is_short = name == "complex128" and default_isa() is Isa.AVX2
    narrow = "complex64" if default_isa() is Isa.AVX2 else "complex128"
    assert bool(needed) == (not is_short and (name, places) != (narrow, (10, 11)))
    assert needed <= warmed(default_isa(), TYPES[name])
