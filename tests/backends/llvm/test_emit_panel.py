"""Panel blocks against exact integer arithmetic, at forbidden pages and every kind of alignment."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

from backends.llvm.kernel_calls import (
    HERE,
    Compiled,
    Edge,
    Guarded,
    compiled_once,
    full_lanes,
    kernel_assembly,
    small_integers,
    strided,
)
from teir.backends.llvm.emit_panel import emit_panel_body
from teir.dtypes import DataType
from teir.lower.asked_in_passing import asking_columns
from teir.lower.block_shapes import block_shapes
from teir.lower.kernels import PanelBlock
from teir.target import ARRAY_START_BYTES, VECTORS_IN_A_ROW, Isa

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
        staggers="staggers" in flags,
        repeats="repeats" in flags,
        joins="joins" in flags,
        turns="turns" in flags,
        reads_ahead="ahead" in flags,
        spreads=3 if "spreads" in flags else 0,
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
        panel(data_type, isa, 2, 5, narrower=2, flags="brings bringsb staggers"),
        panel(data_type, isa, 2, 3, narrower=2, flags="adjacent streams claims staggers"),
        panel(data_type, isa, 3, 4, runs=2, flags="streams dense claims staggers"),
        panel(data_type, isa, 3, 2, runs=2, flags="adjacent streams brings staggers"),
        panel(data_type, isa, 9, 2, flags="streams adjacent claims staggers"),
        panel(data_type, isa, 6, 3, flags="streams staggers"),
        panel(data_type, isa, 3, 4, runs=2, flags="adjacent dense streams staggers repeats joins"),
        panel(data_type, isa, 3, 4, runs=2, flags="dense streams claims staggers repeats"),
        panel(data_type, isa, 9, 2, flags="adjacent streams claims staggers repeats"),
        panel(data_type, isa, 3, 2, flags="adjacent dense streams repeats joins"),
        panel(data_type, isa, 1, 6, flags="repeats"),
        panel(data_type, isa, 3, 4, flags="adjacent dense streams staggers repeats joins turns"),
        panel(data_type, isa, 9, 2, flags="adjacent streams claims staggers repeats turns"),
        panel(data_type, isa, 3, 2, flags="dense streams claims repeats turns"),
        panel(data_type, isa, 3, 5, flags="dense streams turns"),
        panel(data_type, isa, 1, 3, flags="streams staggers turns"),
        panel(data_type, isa, 3, 6, runs=2, flags="dense streams staggers repeats joins turns"),
        panel(data_type, isa, 3, 8, runs=2, flags="adjacent dense streams repeats joins turns"),
        panel(data_type, isa, 3, 4, runs=2, flags="dense streams claims staggers repeats turns"),
        panel(data_type, isa, 3, 2, runs=2, flags="adjacent dense streams turns"),
        panel(data_type, isa, 3, 5, flags="claims ahead"),
        panel(data_type, isa, 2, 3, narrower=2, flags="claims ahead"),
        panel(data_type, isa, 2, 12, flags="adjacent claims ahead"),
        panel(data_type, isa, 2, 5, flags="adjacent"),
        panel(data_type, isa, 4, 6, flags="adjacent claims ahead"),
        panel(data_type, isa, 2, 11, flags="adjacent dense claims ahead"),
        panel(data_type, isa, 1, 2, flags="dense claims ahead"),
        panel(data_type, isa, 2, 1, narrower=2, flags="dense claims ahead"),
        panel(data_type, isa, 6, 2, flags="adjacent dense staggers repeats"),
        panel(data_type, isa, 4, 3, flags="dense staggers repeats"),
        panel(data_type, isa, 3, 4, flags="brings repeats spreads"),
        panel(data_type, isa, 2, 5, narrower=2, flags="brings streams claims repeats spreads"),
        panel(data_type, isa, 3, 2, flags="adjacent dense brings claims repeats spreads turns"),
    ]


@pytest.mark.parametrize("data_type", TYPES)
def test_factors_of_low_panels_are_read_by_every_second_column(data_type: DataType) -> None:
    """Where the processor multiplies twice a cycle, and no last vector is narrower."""
    low = panel(data_type, Isa.AMX, 2, 12, flags="adjacent")
    read = emit_panel_body(low, Isa.AMX).text().count("asm ")
    steps = 4 + 1
    assert read == steps * (2 * 6 + 1)
    others = (
        (panel(data_type, Isa.AMX, 3, 8, flags="adjacent"), Isa.AMX),
        (panel(data_type, Isa.AMX, 2, 12, narrower=2, flags="adjacent"), Isa.AMX),
        (panel(data_type, Isa.AMX, 2, 12), Isa.AMX),
        (panel(data_type, Isa.AVX512, 2, 12, flags="adjacent"), Isa.AVX512),
    )
    for kernel, isa in others:
        assert "asm " not in emit_panel_body(kernel, isa).text()


def test_columns_side_by_side_are_one_stream_to_ask_for() -> None:
    """Four steps of six numbers of 8 bytes are three lines."""
    dense = panel(DataType.FP64, Isa.AMX, 4, 6, flags="adjacent ahead")
    assert emit_panel_body(dense, Isa.AMX).text().count("llvm.prefetch") == 3


def test_lines_of_the_next_tile_are_asked_for_a_few_at_a_time() -> None:
    """Three beside four steps of all blocks, where each of five steps has three and a part."""
    for flags, asked in (("brings", 5 * 4), ("brings repeats spreads", 3)):
        kernel = panel(DataType.FP64, Isa.AMX, 3, 5, flags=flags)
        assert emit_panel_body(kernel, Isa.AMX).text().count("@llvm.prefetch.p0") == asked


@pytest.mark.parametrize("data_type", TYPES)
def test_lines_of_one_piece_are_asked_for_one_at_a_time(data_type: DataType) -> None:
    """Where the sum is long enough for all, in its loop; else before it, as other results are."""
    once, asked = "i32 1, i32 2, i32 1)", []
    for flags in ("adjacent dense claims ahead", "adjacent claims ahead", "adjacent dense claims"):
        text = emit_panel_body(panel(data_type, Isa.AMX, 2, 11, flags=flags), Isa.AMX).text()
        before, loop = text.split("many:")
        asked.append((before.count(once), loop.count(once)))
        assert (f"icmp sge i64 %k, {4 * 22}" in before) is (asked[-1] == (22, 1))
    assert asked == [(22, 1), (22, 0), (22, 0)]


@pytest.mark.parametrize("columns", [1, 5])
def test_every_column_is_asked_for_ahead(columns: int) -> None:
    plain = panel(DataType.FP32, Isa.AVX512, 3, columns)
    asking = panel(DataType.FP32, Isa.AVX512, 3, columns, flags="ahead")
    before, after = (emit_panel_body(one, Isa.AVX512).text() for one in (plain, asking))
    assert "prefetch" not in before
    assert after.count("@llvm.prefetch.p0") == columns


@pytest.mark.parametrize("isa", WITH_FMA)
@pytest.mark.parametrize("data_type", TYPES)
def test_block_is_exact_and_stays_inside(isa: Isa, data_type: DataType) -> None:
    random = np.random.default_rng(5)
    kernels = blocks_to_run(data_type, isa)
    compiled = compiled_once(kernels, isa)
    for kernel, edge in product(kernels, Edge):
        for k in (4, 5, 8, 9) if kernel.staggers else (0, 1, 3, 4, 9):
            for gap_bytes in (0, data_type.width, 32, 64):
                for ahead_bytes in (0, 16) if kernel.streams else (0,):
                    _run(compiled, kernel, edge, k, gap_bytes, ahead_bytes, random)


def _run(
    compiled: Compiled,
    kernel: PanelBlock,
    edge: Edge,
    k: int,
    gap_bytes: int,
    ahead_bytes: int,
    random: np.random.Generator,
) -> None:
    """One call on operands at forbidden pages; C begins ``ahead_bytes`` later than its memory."""
    data_type, width = kernel.data_type, kernel.data_type.width
    run_rows = kernel.rows // kernel.runs
    accumulate, blocks = int(random.integers(2)), 3 if kernel.repeats else 1
    c_run = run_rows * width + gap_bytes
    c_n = c_run * kernel.runs + gap_bytes
    c_block = c_n * kernel.columns + gap_bytes
    if kernel.dense_columns:
        c_n = run_rows * width
        c_block = c_n * kernel.columns + (0 if kernel.joins else gap_bytes)
        c_run = c_block * blocks + gap_bytes
    b_n = width if kernel.adjacent_columns else 3 * width
    b_k = b_n * kernel.columns
    b_block = b_k * k + gap_bytes
    a_k = kernel.rows * width
    a_axes = ((k * (1 + kernel.turns), a_k), (kernel.rows, width))
    b_axes = ((blocks, b_block), (k, b_k), (kernel.columns, b_n))
    c_axes = (
        (blocks, c_block),
        (kernel.columns, c_n),
        (kernel.runs, c_run),
        (run_rows, width),
    )
    memory = []
    for axes, begin in ((a_axes, 0), (b_axes, 0), (c_axes, ahead_bytes)):
        size = begin + sum((extent - 1) * stride for extent, stride in axes) + width
        guarded = Guarded(max(size, width), edge)
        guarded.bytes[:] = 0xFF
        view = strided(guarded.bytes, data_type, begin, axes)
        view[...] = small_integers(random, view.shape, data_type)
        memory.append((guarded, view))
    (a, a_view), (b, b_view), (c, c_view) = memory
    if kernel.turns:
        a_view[k:] = _turned(kernel, a_view[:k])
    start = c_view.copy() if accumulate else np.zeros_like(c_view)
    sums = np.einsum("km,bkn->bnm", a_view[:k], b_view).reshape(c_view.shape)
    expected = c.bytes.copy()
    strided(expected, data_type, ahead_bytes, c_axes)[...] = start + sums
    arguments = [k, a_k, b_k, b_n, c_n, c_run, accumulate, 1 << 40, 5, 7]
    if kernel.turns:
        arguments.append(k * a_k)
    if kernel.spreads:
        arguments += [max(0, k - 1) * a_k, a_k // 2]
    if kernel.repeats:
        arguments += [blocks, b_block, c_block]
    compiled.call(kernel, arguments, [a.address, b.address, c.address + ahead_bytes])
    np.testing.assert_array_equal(c.bytes, expected, str((kernel, k, gap_bytes)))


def _turned(kernel: PanelBlock, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rows of all steps, taken round."""
    if kernel.runs == 1:
        return np.roll(rows, ARRAY_START_BYTES // kernel.data_type.width - kernel.lanes, axis=1)
    runs = rows.reshape(len(rows), kernel.runs, kernel.rows // kernel.runs)
    first = kernel.lanes // 4
    ends = np.concatenate([runs[:, :, 3 * first :], runs[:, :, :first]], axis=2)
    between = runs[:, :, first : 3 * first]
    halves = [one.reshape(len(rows), one.shape[1] * one.shape[2]) for one in (ends, between)]
    return np.concatenate(halves, axis=1)


@pytest.mark.parametrize("data_type", TYPES)
def test_no_vector_register_goes_to_the_stack(data_type: DataType) -> None:
    if Isa.AVX512 not in HERE:
        pytest.skip("needs AVX-512")
    widest = dict(block_shapes(Isa.AVX512, data_type, data_type))
    for vectors, columns in widest.items():
        for narrower in (1, 2):
            for flags in (
                "adjacent",
                "streams claims",
                "brings bringsb",
                "streams staggers",
                "brings repeats spreads",
            ):
                asks = "spreads" in flags
                if asks and vectors > 4:
                    continue
                most = asking_columns(vectors, narrower > 1) if asks else columns
                kernel = panel(
                    data_type,
                    Isa.AVX512,
                    vectors,
                    min(columns, most),
                    narrower=narrower,
                    flags=flags,
                )
                text = kernel_assembly(kernel, Isa.AVX512)
                spills = re.findall(r"[xyz]mm\d+.*\(%rsp\)|\(%rsp\).*[xyz]mm\d+", text)
                assert not spills, (kernel, spills[:3])


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("flags", ["", "adjacent", "adjacent repeats"])
def test_columns_in_a_row_stay_in_few_registers(data_type: DataType, flags: str) -> None:
    if Isa.AVX2 not in HERE:
        pytest.skip("needs AVX2")
    for vectors in VECTORS_IN_A_ROW:
        kernel = panel(data_type, Isa.AVX2, vectors, 12 // vectors, flags=f"dense staggers {flags}")
        text = kernel_assembly(kernel, Isa.AVX2)
        assert not re.findall(r"[xy]mm\d+.*\(%rsp\)|\(%rsp\).*[xy]mm\d+", text), kernel


@pytest.mark.skipif(Isa.AVX512 not in HERE, reason="needs AVX-512")
@pytest.mark.parametrize("data_type", TYPES)
def test_whole_lines_past_the_caches_are_not_claimed(data_type: DataType) -> None:
    """A line that is asked for only to be written past the caches is fetched for nothing."""
    kernel = panel(data_type, Isa.AVX512, 3, 4, flags="streams claims")
    text = emit_panel_body(kernel, Isa.AVX512).text()
    jump = re.search(r"br i1 (%\S+), label %begin, label %claim", text)
    assert jump is not None
    before, claims = text.split(jump.group(), 1)
    assert "prefetch" not in before
    assert "prefetch" in claims.split("begin:", 1)[0]
    assert f"br i1 {jump.group(1)}, label %whole" in claims
