"""Which complex products read their rows in parts, and what room they take."""

from __future__ import annotations

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.calls import calls_of
from teir.lower.evaluate import evaluate_kernels
from teir.lower.explanation import count_calls
from teir.lower.kernels import GemmBlock, Kernel, PartCopy
from teir.lower.lower import lower
from teir.target import Isa

COMPLEX = (DataType.C64, DataType.C128)


def product(
    data_type: DataType, m: int = 32, n: int = 24, k: tuple[int, ...] = (12,), m_step: int = 1
) -> Program:
    """out[n, m] += sum over k of in0[k, m] in1[n, k]; gaps between the steps of an outer axis."""
    width = data_type.width
    axes: list[str] = []
    a, b = width * m * m_step, width
    for number, extent in reversed(list(enumerate(k))):
        axes.insert(0, f"axis k{number} = {extent}: in0 {a}, in1 {b}")
        a, b = a * extent + (width if number else 0), b * extent + (width if number else 0)
    depth = ", ".join(f"k{number}" for number in range(len(k)))
    return parse_program(f"""teir 1 "product"
tensor in0: {data_type.value}
tensor in1: {data_type.value}
tensor out: {data_type.value}
axis m = {m}: in0 {width * m_step}, out {width}
axis n = {n}: in1 {b}, out {width * m}
{chr(10).join(axes)}
primitive product = Contraction {data_type.value} (in0, in1 -> out; M=[m], N=[n], K=[{depth}])
do_product: product
""")


def kernels_of(program: Program, isa: Isa) -> list[Kernel]:
    return list(count_calls(lower(program, isa).roots))


def reads_parts(program: Program, isa: Isa) -> bool:
    called = kernels_of(program, isa)
    has_copy = any(isinstance(one, PartCopy) for one in called)
    assert has_copy == any(isinstance(one, GemmBlock) and one.parts for one in called)
    return has_copy


@pytest.mark.parametrize("data_type", COMPLEX)
def test_rows_are_in_parts_where_turning_them_costs_products(data_type: DataType) -> None:
    assert all(reads_parts(product(data_type), isa) for isa in (Isa.AMX, Isa.AVX512_INTEL))
    others = [isa for isa in Isa if not isa.multiplies_twice_a_cycle]
    assert not any(reads_parts(product(data_type), isa) for isa in others)
    assert not reads_parts(product(DataType.FP32), Isa.AMX)


@pytest.mark.parametrize(
    "changes",
    [{"n": 12}, {"m": 8}, {"m": 24}, {"k": (70_000,)}, {"k": (2, 2, 2, 2)}, {"m_step": 2}],
)
def test_others_read_elements(changes: dict[str, object]) -> None:
    """Few columns, one or three vectors, a large room, many reductions, rows that lie apart."""
    assert not reads_parts(product(DataType.C64, **changes), Isa.AMX)  # type: ignore[arg-type]


def test_a_vector_left_over_reads_elements() -> None:
    called = [
        one for one in kernels_of(product(DataType.C64, m=40), Isa.AMX) if type(one) is GemmBlock
    ]
    assert {(one.vectors % 2, one.parts) for one in called} == {(0, True), (1, False)}
    assert max(one.columns for one in called if not one.parts) > 6


def test_the_room_is_scratch_of_the_thread() -> None:
    lowered = lower(product(DataType.C64, m=30, k=(3, 5)), Isa.AMX)
    assert lowered.thread_scratch_bytes == 4 * 64 * 3 * 5
    (copy,) = [call for call, _ in calls_of(lowered.roots) if isinstance(call.kernel, PartCopy)]
    assert copy.kernel.masked
    assert copy.arguments[-1] == 6


@pytest.mark.parametrize("data_type", COMPLEX)
@pytest.mark.parametrize("m", [16, 29, 40, 61])
@pytest.mark.parametrize("k", [(7,), (2, 3), (2, 3, 2)])
def test_the_bits_are_those_of_elements(data_type: DataType, m: int, k: tuple[int, ...]) -> None:
    program = product(data_type, m=m, n=20, k=k)
    random = np.random.default_rng(6)

    def drawn(size: int) -> np.ndarray:
        numbers = random.standard_normal(size) + 1j * random.standard_normal(size)
        return numbers.astype(data_type.numpy_dtype())

    sizes = {"in0": m * 40, "in1": 20 * 40, "out": 20 * m}
    operands = {name: drawn(size) for name, size in sizes.items()}
    results = []
    for isa in (Isa.AMX, Isa.AVX512):
        images = {name: array.copy() for name, array in operands.items()}
        lowered = lower(program, isa)
        evaluate_kernels(lowered, images, {})
        results.append(images["out"].view(np.uint8))
    np.testing.assert_array_equal(*results)
