"""Tiles of small matrices along sites: one call, and what it means."""

from __future__ import annotations

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower import sites
from teir.lower.calls import calls_of
from teir.lower.estimate import estimate_seconds
from teir.lower.evaluate import evaluate_kernels
from teir.lower.explanation import count_calls
from teir.lower.kernels import GemmBlock
from teir.lower.lower import lower
from teir.lower.site_kernels import SiteProduct
from teir.soak.site_programs import sites_apart, sites_in_a_row, sites_with_outer_sums
from teir.target import Isa

TYPES = (DataType.FP32, DataType.FP64, DataType.C64, DataType.C128, DataType.BF16)
TEXTS = {
    "in a row": lambda kind: sites_in_a_row(5, kind, 2, accumulates=False),
    "of three": lambda kind: sites_in_a_row(5, kind, 3, accumulates=True),
    "outer sums": lambda kind: sites_with_outer_sums(3, kind),
    "apart": lambda kind: sites_apart(3, kind),
}


def bytes_of(program: Program, tensor: str) -> int:
    """What the axes reach on a tensor."""
    axes = [axis for axis in program.axes if tensor in axis.strides]
    width = program.tensor_table()[tensor].data_type.width
    return sum((axis.extent - 1) * axis.strides[tensor] for axis in axes) + width


def assert_means_it(program: Program, kind: DataType, isa: Isa) -> None:
    draw, width = np.random.default_rng(3), kind.width
    start = {
        name: draw.integers(-3, 4, bytes_of(program, name) // width).astype(kind.numpy_dtype())
        for name in "abc"
    }
    expected, actual = ({name: one.copy() for name, one in start.items()} for _ in range(2))
    evaluate(program, expected)
    evaluate_kernels(lower(program, isa), actual, {})
    for name, one in expected.items():
        np.testing.assert_array_equal(actual[name], one)


@pytest.mark.parametrize("isa", [Isa.AVX512, Isa.AVX2, Isa.NEON])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("text", TEXTS)
def test_calls_mean_what_the_program_means(text: str, kind: DataType, isa: Isa) -> None:
    assert_means_it(parse_program(TEXTS[text](kind)), kind, isa)


@pytest.mark.parametrize("most", [1, 40, 300, 1000])
@pytest.mark.parametrize("text", TEXTS)
def test_calls_end_before_long(text: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing interrupts a call: a longer one is cut, its rows first."""
    monkeypatch.setattr(sites, "LONGEST_CALL", most)
    program = parse_program(TEXTS[text](DataType.FP32))
    assert len(calls_of(lower(program, Isa.AVX512).roots)) >= 1
    assert_means_it(program, DataType.FP32, Isa.AVX512)
    for call, _ in calls_of(lower(program, Isa.AVX512).roots):
        assert isinstance(call.kernel, SiteProduct)
        results = call.arguments[0] * call.arguments[3] * call.arguments[6] * call.kernel.c_elements
        assert results <= max(most, call.kernel.sites * call.kernel.c_elements)


def test_all_rows_are_counted_as_time() -> None:
    short, long = (
        parse_program(TEXTS["in a row"](DataType.FP32).replace("axis r = 3", f"axis r = {rows}"))
        for rows in (3, 3000)
    )
    seconds = [estimate_seconds(calls_of(lower(one, Isa.AVX512).roots)) for one in (short, long)]
    assert seconds[1] > 20 * seconds[0]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", [DataType.FP32, DataType.C64, DataType.BF16])
def test_they_are_one_call(text: str, kind: DataType) -> None:
    called = count_calls(lower(parse_program(TEXTS[text](kind)), Isa.AVX512).roots)
    assert [type(kernel) for kernel in called] == [SiteProduct]


def test_the_operand_in_sites_may_be_the_second() -> None:
    text = sites_with_outer_sums(3, DataType.FP32).replace("(a, b -> c", "(b, a -> c")
    ((call, times),) = calls_of(lower(parse_program(text), Isa.AVX512).roots)
    assert isinstance(call.kernel, SiteProduct)
    assert times == 1
    first = calls_of(
        lower(parse_program(sites_with_outer_sums(3, DataType.FP32)), Isa.AVX512).roots
    )
    assert call.arguments == next(iter(first))[0].arguments


def test_sums_in_another_order_are_left_to_blocks() -> None:
    """What lies in other vectors is added first, or every sum would be another one."""
    text = sites_with_outer_sums(3, DataType.FP32).replace("K=[x, k]", "K=[k, x]")
    called = count_calls(lower(parse_program(text), Isa.AVX512).roots)
    assert [type(kernel) for kernel in called] == [GemmBlock]


def test_pairs_are_formed_where_subnormals_are_zero() -> None:
    text = sites_in_a_row(5, DataType.BF16, 3, accumulates=False)
    plain = text.replace(' with {"subnormals": "zero"}', "")
    kinds = [
        {type(kernel) for kernel in count_calls(lower(parse_program(one), isa).roots)}
        for one in (text, plain)
        for isa in (Isa.AVX512, Isa.AVX512_INTEL, Isa.AVX2)
    ]
    assert [SiteProduct in one for one in kinds] == [True, False, False, False, False, False]
