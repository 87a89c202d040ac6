"""Panel blocks against exact integer arithmetic, at forbidden pages and every kind of alignment."""

from __future__ import annotations

import re

import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    Compiled,
    Edge,
    Guarded,
    full_lanes,
    kernel_assembly,
    small_integers,
    strided,
)
from teir.dtypes import DataType
from teir.lower.block_shapes import block_shapes
from teir.lower.kernels import PanelBlock
from teir.target import Isa

TYPES = (DataType.FP32, DataType.FP64)
WITH_FMA = tuple(isa for isa in HERE if isa.has_fma)


def panel(
    data_type: DataType,
    isa: Isa,
    vectors: int,
    columns: int,
    *,
    narrower: int = 1,
    runs: int = 1,
    flags: str = "",
) -> PanelBlock:
    """A block whose last vector has the lanes of a whole one divided by ``narrower``."""
    lanes = full_lanes(isa, data_type)
    return PanelBlock(
        data_type=data_type,
        lanes=lanes,
        last_lanes=lanes // narrower,
        vectors=vectors,
        columns=columns,
        runs=runs,
        adjacent_columns="adjacent" in flags,
        dense_columns="dense" in flags,
        streams="streams" in flags,
        brings="brings" in flags,
        brings_b="bringsb" in flags,
        claims="claims" in flags,
    )


def blocks_to_run(data_type: DataType, isa: Isa) -> list[PanelBlock]:
    return [
        panel(data_type, isa, 1, 1),
        panel(data_type, isa, 2, 5, narrower=2, flags="brings bringsb"),
        panel(data_type, isa, 2, 3, narrower=2, flags="adjacent streams claims"),
        panel(data_type, isa, 2, 2, narrower=2, flags="streams dense"),
        panel(data_type, isa, 3, 4, runs=4, flags="streams dense"),
        panel(data_type, isa, 3, 2, runs=2, flags="adjacent streams claims brings"),
        panel(data_type, isa, 3, 4, runs=2, flags="streams"),
        panel(data_type, isa, 3, 4, runs=2, flags="streams dense claims"),
        panel(data_type, isa, 6, 3, flags="streams claims"),
        panel(data_type, isa, 9, 2, flags="streams adjacent"),
        panel(data_type, isa, 3, 2, flags="streams dense"),
        panel(data_type, isa, 3, 4, runs=4, flags="claims"),
        panel(data_type, isa, 1, 6, runs=2, flags="adjacent"),
    ]


@pytest.mark.parametrize("isa", WITH_FMA)
@pytest.mark.parametrize("data_type", TYPES)
def test_block_is_exact_and_stays_inside(isa: Isa, data_type: DataType) -> None:
    random = np.random.default_rng(5)
    kernels = blocks_to_run(data_type, isa)
    compiled = Compiled(kernels, isa)
    width = data_type.width
    for kernel in kernels:
        run_rows = kernel.rows // kernel.runs
        for edge in Edge:
            for k in (0, 1, 3, 4, 9):
                for gap_bytes in (0, width, 32, 64):
                    accumulate = int(random.integers(2))
                    c_run = run_rows * width + gap_bytes
                    c_n = c_run * kernel.runs + gap_bytes
                    if kernel.dense_columns:
                        c_n = run_rows * width
                        c_run = c_n * kernel.columns + gap_bytes
                    b_n = width if kernel.adjacent_columns else 3 * width
                    b_k = b_n * kernel.columns
                    a_axes = ((k, kernel.rows * width), (kernel.rows, width))
                    b_axes = ((k, b_k), (kernel.columns, b_n))
                    c_axes = ((kernel.columns, c_n), (kernel.runs, c_run), (run_rows, width))
                    memory = []
                    for axes in (a_axes, b_axes, c_axes):
                        size = sum((extent - 1) * stride for extent, stride in axes) + width
                        guarded = Guarded(max(size, width), edge)
                        guarded.bytes[:] = 0xFF
                        view = strided(guarded.bytes, data_type, 0, axes)
                        view[...] = small_integers(random, view.shape, data_type)
                        memory.append((guarded, view))
                    (a, a_view), (b, b_view), (c, c_view) = memory
                    start = c_view.copy() if accumulate else np.zeros_like(c_view)
                    product = np.einsum("km,kn->nm", a_view, b_view).reshape(c_view.shape)
                    expected = c.bytes.copy()
                    strided(expected, data_type, 0, c_axes)[...] = start + product
                    arguments = (k, a_axes[0][1], b_k, b_n, c_n, c_run, accumulate, 1 << 40, 5, 7)
                    compiled.call(kernel, arguments, [one.address for one in (a, b, c)])
                    np.testing.assert_array_equal(c.bytes, expected, str((kernel, k, gap_bytes)))


@pytest.mark.parametrize("data_type", TYPES)
def test_no_vector_register_goes_to_the_stack(data_type: DataType) -> None:
    if Isa.AVX512 not in HERE:
        pytest.skip("needs AVX-512")
    widest = dict(block_shapes(Isa.AVX512, data_type, data_type))
    for vectors, columns in widest.items():
        for narrower in (1, 2):
            for flags in ("adjacent", "streams claims", "brings bringsb"):
                kernel = panel(
                    data_type, Isa.AVX512, vectors, columns, narrower=narrower, flags=flags
                )
                text = kernel_assembly(kernel, Isa.AVX512)
                spills = re.findall(r"[xyz]mm\d+.*\(%rsp\)|\(%rsp\).*[xyz]mm\d+", text)
                assert not spills, (kernel, spills[:3])
