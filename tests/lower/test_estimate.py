"""What is counted of a call: the steps it makes, not how far apart its operands lie."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.parsing import parse_program
from teir.lower.calls import calls_of
from teir.lower.estimate import estimate_seconds
from teir.lower.kernel_program import Call
from teir.lower.kernels import PairBlock
from teir.lower.lower import lower
from teir.lower.site_kernels import SiteProduct
from teir.soak.pair_programs import pairs_of_rows
from teir.soak.site_programs import sites_in_a_row
from teir.target import Isa


def pair_call() -> Call:
    program = parse_program(pairs_of_rows(24, is_b_adjacent=True))
    calls = calls_of(lower(program, Isa.AVX512).roots)
    return next(call for call, _ in calls if isinstance(call.kernel, PairBlock))


def site_call() -> Call:
    program = parse_program(sites_in_a_row(5, DataType.FP32, 2, accumulates=False))
    calls = calls_of(lower(program, Isa.AVX512).roots)
    return next(call for call, _ in calls if isinstance(call.kernel, SiteProduct))


def seconds(call: Call, place: int, times: int) -> float:
    """With one argument so many times as large."""
    arguments = list(call.arguments)
    arguments[place] *= times
    return estimate_seconds([(replace(call, arguments=tuple(arguments)), 1)])


@pytest.mark.parametrize(
    ("call", "counts", "strides"),
    [(pair_call, (0, 3, -3), (1, 2, 4, 5, 6, 7)), (site_call, (0, 3, 6), (1, 2, 4, 5, 7, 8))],
)
def test_steps_are_counted_and_strides_are_not(call, counts, strides) -> None:
    one = call()
    usual = seconds(one, 0, 1)
    assert all(seconds(one, place, 1000) > 10 * usual for place in counts)
    assert all(seconds(one, place, 1000) == usual for place in strides)
