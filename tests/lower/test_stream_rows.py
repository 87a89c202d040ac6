"""Long rows of large copies are written past the caches as they lie, on AVX2."""

from __future__ import annotations

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.axes import TileAxis
from teir.lower.calls import calls_of
from teir.lower.copy_kernels import StreamRows
from teir.lower.elementwise import lower_elementwise
from teir.lower.evaluate import evaluate_kernels
from teir.lower.kernel_program import Address, Call, KernelNode, KernelProgram, Slot, Storage
from teir.target import Isa

LARGE = 16 << 20


def axes_of(row: int, a: int, b: int) -> tuple[TileAxis, ...]:
    """in[a, b, row] -> out[b, a, row], FP32."""
    row_bytes = 4 * row
    return (
        TileAxis(a, (b * row_bytes, row_bytes)),
        TileAxis(b, (row_bytes, a * row_bytes)),
        TileAxis(row, (4, 4)),
    )


def lowered(
    axes: tuple[TileAxis, ...], isa: Isa, output_bytes: int = LARGE
) -> tuple[KernelNode, ...]:
    operands = (Address(slot=0, offset_bytes=0), Address(slot=1, offset_bytes=0))
    types = (DataType.FP32, DataType.FP32)
    room = Address(slot=2, offset_bytes=0)
    return lower_elementwise(Operation.COPY, axes, operands, types, isa, output_bytes, room)


def streamed(nodes: tuple[KernelNode, ...]) -> list[Call]:
    return [call for call, _ in calls_of(nodes) if isinstance(call.kernel, StreamRows)]


def test_rows_are_copied_in_the_order_of_the_input() -> None:
    (call,) = streamed(lowered(axes_of(200, 30, 400), Isa.AVX2))
    assert call.arguments == (800, 400, 800, 30 * 800, 30, 400 * 800, 800)


@pytest.mark.parametrize(
    ("axes", "isa", "output_bytes"),
    [
        (axes_of(100, 30, 800), Isa.AVX2, LARGE),
        (axes_of(200, 30, 400), Isa.AVX512, LARGE),
        (axes_of(200, 30, 400), Isa.AVX2, 1 << 20),
        (axes_of(200, 2, 2), Isa.AVX2, LARGE),
    ],
)
def test_others_are_not(axes: tuple[TileAxis, ...], isa: Isa, output_bytes: int) -> None:
    """Short rows, other machines, results that stay near, small tiles."""
    assert streamed(lowered(axes, isa, output_bytes)) == []


def test_what_one_call_takes_is_bounded() -> None:
    """2 GB: calls of all rows of one step of the outer axis."""
    (call,) = streamed(lowered(axes_of(1 << 12, 128, 1024), Isa.AVX2))
    assert call.arguments[1] * call.arguments[4] == 1024


@pytest.mark.parametrize("row", [128, 131])
def test_the_evaluator_copies_what_is_meant(row: int) -> None:
    a, b = 7, 900
    slots = tuple(
        Slot(tensor=name, data_type=DataType.FP32, storage=Storage.OPERAND, start_bytes=0)
        for name in ("in0", "out")
    )
    roots = lowered(axes_of(row, a, b), Isa.AVX2)
    assert streamed(roots)
    program = KernelProgram(
        slots=slots, roots=roots, index_cells=0, run_scratch_bytes=0, thread_scratch_bytes=0
    )
    source = np.arange(a * b * row, dtype=np.float32)
    out = np.zeros_like(source)
    evaluate_kernels(program, {"in0": source, "out": out}, {})
    expected = source.reshape(a, b, row).transpose(1, 0, 2).reshape(-1)
    np.testing.assert_array_equal(out, expected)
