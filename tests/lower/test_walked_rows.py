"""Rows inside kernels that walk fibres: every form means what the evaluator of kernels says."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import mmap
import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from teir.arrays.levels import Format, Level
from teir.backends.llvm.emit_kernel import emit_kernel
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.nodes import Program
from teir.lower.evaluate import evaluate_kernels
from teir.lower.explanation import count_calls
from teir.lower.lower import lower
from teir.lower.walked_kernels import Follows, WalkedDots, WalkedSampledSum, WalkedSum
from teir.pipeline.executable import compile_program, default_isa
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.moves import loopfuse
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of
from teir.target import Isa

Arrays = dict[str, np.ndarray]
WIDTHS = (1, 5, 16, 24, 64, 136)


def fibres(draw: np.random.Generator, rows: int, extent: int) -> list[list[int]]:
    """Sorted coordinates per row; runs of rows have the same, or nearly the same.

    Rows are short, or so long on average that equal ones are formed together.
    """
    made: list[list[int]] = []
    most = int(draw.choice((6, 60)))
    while len(made) < rows:
        size = int(draw.integers(0, min(extent, most) + 1))
        fibre = sorted(draw.choice(extent, size, replace=False).tolist())
        made += [fibre] * int(draw.integers(1, 8))
        if fibre:
            made.append([*fibre[:-1], (fibre[-1] + 1)] if fibre[-1] + 1 < extent else fibre)
    return made[:rows]


def index_arrays(lists: list[list[int]], dtype: np.dtype[np.generic]) -> tuple[np.ndarray, ...]:
    pos = np.cumsum([0, *map(len, lists)]).astype(dtype)
    return pos, np.array([one for each in lists for one in each], dtype)


def program_for(
    text: str, extents: dict[str, int], levels: dict[str, str], value: DataType, index: DataType
) -> Program:
    """The program of the loops in the order of ``extents``."""
    kinds = {"d": Level.DENSE, "s": Level.COMPRESSED}
    formats = {
        name: Format(levels=tuple(kinds[one] for one in word), mode_order=tuple(range(len(word))))
        for name, word in levels.items()
    }
    statement = statement_of(parse_index_notation(text), formats)
    return program_of(
        linear(statement, tuple(extents)),
        extents,
        data_type=value,
        index_type=index,
        name="rows",
        shares="B" if "A" in levels else None,
    )


def numbers(draw: np.random.Generator, shape: tuple[int, ...], value: DataType) -> np.ndarray:
    return draw.standard_normal(shape).astype(value.numpy_dtype())


def same_bits(program: Program, operands: Arrays, threads: int) -> Arrays:
    """The result of the table: the bits of one function, the numbers of the evaluator."""
    results = []
    executable = compile_program(program, threads=threads)
    for run in (executable, executable.specialised()) if threads == 2 else (executable,):
        results.append({name: array.copy() for name, array in operands.items()})
        run.run(results[-1])
    for found in results[1:]:
        np.testing.assert_array_equal(found["A"], results[0]["A"])
    meant = {name: array.copy() for name, array in operands.items()}
    evaluate_kernels(lower(program, default_isa()), meant, {})
    tolerance = 1e-12 if operands["A"].dtype == np.float64 else 1e-2
    ours, wanted = (one["A"].astype(np.float64) for one in (results[0], meant))
    np.testing.assert_allclose(ours, wanted, rtol=tolerance, atol=10 * tolerance)
    return results[0]


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    width=st.sampled_from(WIDTHS),
    rows=st.sampled_from((1, 3, 35)),
    value=st.sampled_from((DataType.FP64, DataType.FP32, DataType.BF16)),
    index=st.sampled_from((DataType.I32, DataType.I64)),
    threads=st.sampled_from((1, 2)),
)
def test_rows_of_a_dense_axis(
    seed: int, width: int, rows: int, value: DataType, index: DataType, threads: int
) -> None:
    draw = np.random.default_rng(seed)
    extent = int(draw.integers(1, 90))
    pos, crd = index_arrays(fibres(draw, rows, extent), index.numpy_dtype())
    extents = {"i": rows, "j": extent, "l": width}
    text = "A[i,l] = B[i,j] * C[j,l]"
    program = program_for(text, extents, {"B": "ds"}, value, index)
    operands = {
        "B.pos1": pos,
        "B.crd1": crd,
        "B": numbers(draw, (crd.size,), value),
        "C": numbers(draw, (extent, width), value),
        "A": np.full((rows, width), np.nan).astype(value.numpy_dtype()),
    }
    found = same_bits(program, operands, threads)["A"].astype(np.float64)
    b, c = (operands[name].astype(np.float64) for name in "BC")
    wanted = np.zeros((rows, width))
    for row in range(rows):
        for place in range(pos[row], pos[row + 1]):
            wanted[row] += b[place] * c[crd[place]]
    np.testing.assert_allclose(found, wanted, rtol=0.05, atol=0.2)


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    width=st.sampled_from(WIDTHS),
    index=st.sampled_from((DataType.I32, DataType.I64)),
    threads=st.sampled_from((1, 2)),
)
def test_rows_of_a_compressed_level(seed: int, width: int, index: DataType, threads: int) -> None:
    """Every position of the level above is a row of the output, which lies by position."""
    draw = np.random.default_rng(seed)
    outer = fibres(draw, 5, 9)
    inner = fibres(draw, sum(map(len, outer)), 30)
    pos1, crd1 = index_arrays(outer, index.numpy_dtype())
    pos2, crd2 = index_arrays(inner, index.numpy_dtype())
    extents = {"i": 5, "j": 9, "k": 30, "m": width}
    text = "A[i,j,m] = B[i,j,k] * C[k,m] * D[j,m]"
    program = program_for(text, extents, {"B": "dss", "A": "dsd"}, DataType.FP64, index)
    operands = {
        "B.pos1": pos1,
        "B.crd1": crd1,
        "B.pos2": pos2,
        "B.crd2": crd2,
        "B": draw.standard_normal(crd2.size),
        "C": draw.standard_normal((30, width)),
        "D": draw.standard_normal((9, width)),
        "A": np.full((crd1.size, width), np.nan),
    }
    found = same_bits(program, operands, threads)["A"]
    wanted = np.zeros((crd1.size, width))
    for fibre in range(crd1.size):
        for place in range(pos2[fibre], pos2[fibre + 1]):
            row = operands["B"][place] * operands["C"][crd2[place]]
            wanted[fibre] += row * operands["D"][crd1[fibre]]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    width=st.sampled_from(WIDTHS),
    rows=st.sampled_from((1, 3, 35)),
    value=st.sampled_from((DataType.FP64, DataType.FP32)),
    index=st.sampled_from((DataType.I32, DataType.I64)),
    threads=st.sampled_from((1, 2)),
)
def test_rows_of_dots(
    seed: int, width: int, rows: int, value: DataType, index: DataType, threads: int
) -> None:
    draw = np.random.default_rng(seed)
    extent = int(draw.integers(1, 90))
    pos, crd = index_arrays(fibres(draw, rows, extent), index.numpy_dtype())
    extents = {"i": rows, "j": extent, "k": width}
    text = "A[i,j] = B[i,j] * C[i,k] * D[j,k]"
    program = program_for(text, extents, {"B": "ds", "A": "ds"}, value, index)
    operands = {
        "B.pos1": pos,
        "B.crd1": crd,
        "B": numbers(draw, (crd.size,), value),
        "C": numbers(draw, (rows, width), value),
        "D": numbers(draw, (extent, width), value),
        "A": np.full(crd.size, np.nan, value.numpy_dtype()),
    }
    found = same_bits(program, operands, threads)["A"]
    row_of = np.repeat(np.arange(rows), np.diff(pos))
    wanted = operands["B"] * (operands["C"][row_of] * operands["D"][crd]).sum(1)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("empty", [False, True])
def test_rows_of_two_levels_that_gather_from_afar(empty: bool) -> None:
    """What is fetched ahead is never beyond the last stored element."""
    draw = np.random.default_rng(int(empty))
    rows, middle, extent, width = 40, 7, 30_000, 64
    outer = [[] if empty or row > 36 else one for row, one in enumerate(fibres(draw, rows, middle))]
    inner = fibres(draw, sum(map(len, outer)), 40)
    pos1, crd1 = index_arrays(outer, np.dtype(np.int32))
    pos2, crd2 = index_arrays([[749 * one for one in each] for each in inner], np.dtype(np.int32))
    extents = {"i": rows, "k": middle, "l": extent, "j": width}
    text = "A[i,j] = B[i,k,l] * C[l,j] * D[k,j]"
    program = program_for(text, extents, {"B": "dss"}, DataType.FP64, DataType.I32)
    calls = count_calls(lower(program, Isa.AVX512).roots)
    assert any(isinstance(one, WalkedSum) and one.ahead for one in calls)
    operands = {
        "B.pos1": pos1,
        "B.crd1": crd1,
        "B.pos2": pos2,
        "B.crd2": crd2,
        "B": draw.standard_normal(crd2.size),
        "C": draw.standard_normal((extent, width)),
        "D": draw.standard_normal((middle, width)),
        "A": np.full((rows, width), np.nan),
    }
    found = same_bits(program, operands, 1)["A"]
    row_of = np.repeat(np.arange(rows), np.diff(pos1))
    fibre_of = np.repeat(np.arange(crd1.size), np.diff(pos2))
    b, c, d = (operands[name] for name in "BCD")
    wanted = np.zeros((rows, width))
    np.add.at(wanted, row_of[fibre_of], b[:, None] * c[crd2] * d[crd1[fibre_of]])
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def sampled_program(
    extents: dict[str, int],
    scaled: bool,
    value: DataType = DataType.FP64,
    index: DataType = DataType.I32,
) -> Program:
    """Rows of E scaled with sampled dots of C and D, and with B where ``scaled``."""
    formats = {"B": Format(levels=(Level.DENSE, Level.COMPRESSED), mode_order=(0, 1))}
    text = "A[i,l] = B[i,j] * C[i,k] * D[j,k] * E[j,l]"
    statement = statement_of(parse_index_notation(text), formats)
    graph = loopfuse(linear(statement, ("i", "j", "k", "l")), 3, producer_in_left=True, path=())
    assert isinstance(graph, IterationGraph)
    program = program_of(graph, extents, data_type=value, index_type=index, name="runs")
    if scaled:
        return program
    primitives = tuple(
        replace(one, inputs=tuple(name for name in one.inputs if name != "B"))
        for one in program.primitives
    )
    return replace(program, primitives=primitives)


@settings(max_examples=16, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    widths=st.tuples(st.sampled_from((2, 5, 16, 24, 32)), st.sampled_from((2, 7, 16, 27, 32))),
    rows=st.sampled_from((1, 3, 35)),
    value=st.sampled_from((DataType.FP64, DataType.FP32)),
    index=st.sampled_from((DataType.I32, DataType.I64)),
    threads=st.sampled_from((1, 2)),
    scaled=st.booleans(),
)
def test_rows_scaled_with_sampled_dots(
    seed: int,
    widths: tuple[int, int],
    rows: int,
    value: DataType,
    index: DataType,
    threads: int,
    scaled: bool,
) -> None:
    draw = np.random.default_rng(seed)
    extent = int(draw.integers(1, 90))
    pos, crd = index_arrays(fibres(draw, rows, extent), index.numpy_dtype())
    extents = {"i": rows, "j": extent, "k": widths[0], "l": widths[1]}
    program = sampled_program(extents, scaled, value, index)
    kernels = {type(one) for one in count_calls(lower(program, Isa.AVX512).roots)}
    assert kernels == {WalkedSampledSum}
    shapes = {"C": (rows, widths[0]), "D": (extent, widths[0]), "E": (extent, widths[1])}
    operands = {"B.pos1": pos, "B.crd1": crd, "B": numbers(draw, (crd.size,), value)}
    operands |= {name: numbers(draw, shape, value) for name, shape in shapes.items()}
    operands["A"] = np.full((rows, widths[1]), np.nan, value.numpy_dtype())
    found = same_bits(program, operands, threads)["A"]
    row_of = np.repeat(np.arange(rows), np.diff(pos))
    b, c, d, e = (operands[name].astype(np.float64) for name in "BCDE")
    factors = (c[row_of] * d[crd]).sum(1) * (b if scaled else 1.0)
    wanted = np.zeros((rows, widths[1]))
    np.add.at(wanted, row_of, factors[:, None] * e[crd])
    np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize(("extent", "lines"), [(11_000, None), (12_000, 3), (16_000, 5)])
def test_sampled_rows_that_lie_far(extent: int, lines: int | None, empty: bool) -> None:
    """Near rows are not asked for, from 5 MiB on some of their lines are, from 7 MiB on all."""
    draw = np.random.default_rng(7)
    rows, width = 40, 29
    lists = [[] if empty or row > 36 else one for row, one in enumerate(fibres(draw, rows, 40))]
    pos, crd = index_arrays([[270 * one for one in each] for each in lists], np.dtype(np.int32))
    program = sampled_program({"i": rows, "j": extent, "k": width, "l": width}, True)
    calls = count_calls(lower(program, Isa.AVX512).roots)
    (kernel,) = (one for one in calls if isinstance(one, WalkedSampledSum))
    requests = emit_kernel(kernel, Isa.AVX512).count("call void @llvm.prefetch")
    assert requests == (0 if lines is None else 5 + 2 * 2 * lines)
    operands = {"B.pos1": pos, "B.crd1": crd, "B": draw.standard_normal(crd.size)}
    operands |= {name: draw.standard_normal((extent, width)) for name in "DE"}
    operands |= {"C": draw.standard_normal((rows, width)), "A": np.full((rows, width), np.nan)}
    found = same_bits(program, operands, 1)["A"]
    row_of = np.repeat(np.arange(rows), np.diff(pos))
    b, c, d, e = (operands[name] for name in "BCDE")
    wanted = np.zeros((rows, width))
    np.add.at(wanted, row_of, (b * (c[row_of] * d[crd]).sum(1))[:, None] * e[crd])
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("extent", "lines"), [(6_000, None), (7_000, 5), (12_000, 5)])
def test_sampled_rows_are_asked_for_sooner_where_requests_bring_them(
    extent: int, lines: int | None
) -> None:
    """From 3 MiB on, and every line."""
    program = sampled_program({"i": 40, "j": extent, "k": 29, "l": 29}, True)
    calls = count_calls(lower(program, Isa.AMX).roots)
    (kernel,) = (one for one in calls if isinstance(one, WalkedSampledSum))
    requests = emit_kernel(kernel, Isa.AMX).count("call void @llvm.prefetch")
    assert requests == (0 if lines is None else 5 + 2 * 2 * lines)


@pytest.mark.parametrize(("isa", "cache"), [(Isa.AVX512, 2), (Isa.AMX, 3)])
def test_far_rows_are_brought_where_requests_cost_least(isa: Isa, cache: int) -> None:
    """Into the second cache, or the first where each takes a place there anyway."""
    extents = {"i": 160, "j": 21_000, "k": 64}
    program = program_for(
        "A[i,k] = B[i,j] * C[j,k]", extents, {"B": "ds"}, DataType.FP64, DataType.I32
    )
    (kernel,) = count_calls(lower(program, isa).roots)
    assert isinstance(kernel, WalkedSum)
    requests = re.findall(r"call void @llvm.prefetch\S*\(.*\)", emit_kernel(kernel, isa))
    assert requests
    assert {f"i32 0, i32 {cache}" in one for one in requests} == {True}


def test_a_sampled_zero_has_the_sign_of_a_sum() -> None:
    """Products that are zeros with a minus, and such that become too small, add up to plus zero."""
    program = sampled_program({"i": 2, "j": 1, "k": 8, "l": 8}, False)
    operands = {
        "B.pos1": np.array([0, 1, 2], np.int32),
        "B.crd1": np.zeros(2, np.int32),
        "B": np.ones(2),
        "C": np.array([[-0.0] * 8, [-1e-200] * 8]),
        "D": np.full((1, 8), 1e-200),
        "E": np.ones((1, 8)),
        "A": np.full((2, 8), np.nan),
    }
    found = same_bits(program, operands, 1)["A"]
    assert not np.signbit(found).any()


def put_rare_numbers(draw: np.random.Generator, inputs: Arrays) -> None:
    """One element in a hundred becomes an infinity, no number, -0, or very small or large."""
    for array in inputs.values():
        rare = draw.random(array.shape) < 0.01
        array[rare] = draw.choice((np.inf, -np.inf, np.nan, -0.0, 1e-30, 1e30), array.shape)[rare]


def require_same_bits(found: list[np.ndarray]) -> None:
    """All results have the same bits, but for those of what is no number."""
    bits = [np.where(np.isnan(one), 0, one).tobytes() for one in found]
    assert len(set(bits)) == 1
    assert all(np.array_equal(np.isnan(one), np.isnan(found[0])) for one in found)


def placed(array: np.ndarray, place: int) -> np.ndarray:
    """A copy that begins ``place`` bytes into a cache line, between numbers that are none."""
    around = np.full(array.size + 32, np.nan, array.dtype)
    start = (64 + place - around.ctypes.data % 64) // array.itemsize
    copy = around[start : start + array.size].reshape(array.shape)
    copy[...] = array
    return copy


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    vectors=st.sampled_from((2, 3, 4, 8, 16)),
    rows=st.sampled_from((1, 3, 35)),
    value=st.sampled_from((DataType.FP64, DataType.FP32)),
    special=st.booleans(),
    samples=st.booleans(),
)
def test_where_gathered_rows_begin_changes_no_bit(
    seed: int, vectors: int, rows: int, value: DataType, special: bool, samples: bool
) -> None:
    """Rows that begin with a cache line are read in vectors, others in whole lines."""
    draw = np.random.default_rng(seed)
    width, extent = 64 // value.width * vectors, int(draw.integers(1, 90))
    pos, crd = index_arrays(fibres(draw, rows, extent), np.dtype(np.int32))
    text = "A[i,j] = B[i,j] * C[i,k] * D[j,k]" if samples else "A[i,k] = B[i,j] * D[j,k]"
    levels = {"B": "ds", "A": "ds"} if samples else {"B": "ds"}
    program = program_for(text, {"i": rows, "j": extent, "k": width}, levels, value, DataType.I32)
    shapes = {"B": (crd.size,), "D": (extent, width)}
    shapes |= {"C": (rows, width)} if samples else {}
    inputs = {name: numbers(draw, shape, value) for name, shape in shapes.items()}
    if special:
        put_rare_numbers(draw, inputs)
    shape = (crd.size,) if samples else (rows, width)
    found = []
    for place in (0, 16, 32, 48):
        operands = {"B.pos1": pos, "B.crd1": crd, **inputs, "D": placed(inputs["D"], place)}
        operands["A"] = np.full(shape, np.nan, value.numpy_dtype())
        compile_program(program, threads=1).run(operands)
        found.append(operands["A"])
    require_same_bits(found)
    if not special:
        meant = {"B.pos1": pos, "B.crd1": crd, **inputs, "A": np.zeros_like(found[0])}
        evaluate_kernels(lower(program, default_isa()), meant, {})
        np.testing.assert_allclose(found[0], meant["A"], rtol=1e-3, atol=1e-3)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    widths=st.tuples(st.sampled_from((16, 24, 32)), st.sampled_from((24, 32))),
    rows=st.sampled_from((1, 3, 35)),
    value=st.sampled_from((DataType.FP64, DataType.FP32)),
    scaled=st.booleans(),
    special=st.booleans(),
)
def test_where_sampled_rows_begin_changes_no_bit(
    seed: int, widths: tuple[int, int], rows: int, value: DataType, scaled: bool, special: bool
) -> None:
    """Rows are read in other pieces where they begin inside a cache line."""
    draw = np.random.default_rng(seed)
    k, m = (64 // (8 * value.width) * width for width in widths)
    extent = int(draw.integers(1, 90))
    pos, crd = index_arrays(fibres(draw, rows, extent), np.dtype(np.int32))
    program = sampled_program({"i": rows, "j": extent, "k": k, "l": m}, scaled, value)
    shapes = {"C": (rows, k), "D": (extent, k), "E": (extent, m), "B": (crd.size,)}
    inputs = {name: numbers(draw, shape, value) for name, shape in shapes.items()}
    if special:
        put_rare_numbers(draw, inputs)
    found = []
    for places in itertools.product((0, 16, 32, 48), repeat=2):
        operands = {"B.pos1": pos, "B.crd1": crd, "B": inputs["B"], "C": inputs["C"]}
        for name, place in zip("DE", places, strict=True):
            operands[name] = placed(inputs[name], place)
        operands["A"] = placed(np.full((rows, m), np.nan, value.numpy_dtype()), places[0])
        compile_program(program, threads=1).run(operands)
        found.append(operands["A"])
    require_same_bits(found)
    if not special:
        meant = {"B.pos1": pos, "B.crd1": crd, **inputs, "A": np.zeros_like(found[0])}
        evaluate_kernels(lower(program, default_isa()), meant, {})
        np.testing.assert_allclose(found[1], meant["A"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("place", [16, 32, 48])
@pytest.mark.parametrize("value", [DataType.FP64, DataType.FP32])
def test_nothing_around_sampled_rows_is_read_or_written(value: DataType, place: int) -> None:
    """Every element of an operand is used once; what lies before and behind it is not touched."""
    width = 64 // value.width * 4
    program = sampled_program({"i": 2, "j": 2, "k": width, "l": width}, True, value)
    ones = {name: np.ones((2, width), value.numpy_dtype()) for name in "CDE"}
    operands = {name: placed(array, place) for name, array in ones.items()}
    operands |= {"B.pos1": np.array([0, 1, 2], np.int32), "B.crd1": np.array([0, 1], np.int32)}
    operands |= {"B": np.ones(2, value.numpy_dtype()), "A": placed(0 * ones["C"], place)}
    compile_program(program, threads=1).run(operands)
    np.testing.assert_array_equal(operands["A"], np.full((2, width), width))
    around = operands["A"].base
    assert around is not None
    assert np.isnan(around).sum() == 32


def lengths(rows: int) -> list[int]:
    """Long, short and empty rows: those beyond the places of a run are walked by themselves."""
    return [(0, 3, 700, 3, 3, 40, 600, 511)[row % 8] for row in range(rows)]


@pytest.mark.parametrize(("rows", "width", "threads"), [(40, 72, 1), (9, 67, 2)])
def test_runs_of_whole_rows(rows: int, width: int, threads: int) -> None:
    """What is sampled waits for all rows of a run; then what it scales is added up."""
    draw = np.random.default_rng(rows)
    extent = 900
    lists = [sorted(draw.choice(extent, one, replace=False).tolist()) for one in lengths(rows)]
    pos, crd = index_arrays(lists, np.dtype(np.int32))
    program = sampled_program({"i": rows, "j": extent, "k": width, "l": width}, True)
    assert WalkedSampledSum not in map(type, count_calls(lower(program, Isa.AVX512).roots))
    operands = {"B.pos1": pos, "B.crd1": crd, "B": draw.standard_normal(crd.size)}
    operands |= {name: draw.standard_normal((extent, width)) for name in "DE"}
    operands |= {"C": draw.standard_normal((rows, width)), "A": np.full((rows, width), np.nan)}
    found = same_bits(program, operands, threads)["A"]
    row_of = np.repeat(np.arange(rows), np.diff(pos))
    b, c, d, e = (operands[name] for name in "BCDE")
    wanted = np.zeros((rows, width))
    np.add.at(wanted, row_of, (b * (c[row_of] * d[crd]).sum(1))[:, None] * e[crd])
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("width", "together"), [(64, 3), (1, 1)])
def test_one_call_takes_many_rows(width: int, together: int) -> None:
    text, extents = "A[i,l] = B[i,j] * C[j,l]", {"i": 640, "j": 9, "l": width}
    program = program_for(text, extents, {"B": "ds"}, DataType.FP64, DataType.I32)
    calls = count_calls(lower(program, Isa.AVX512).roots)
    (kernel,) = (one for one in calls if isinstance(one, WalkedSum))
    assert kernel.rows is not None
    assert kernel.rows.together == together
    assert calls[kernel] <= 40


@pytest.mark.parametrize("width", [16, 32])
def test_part_of_a_gathered_row_is_read_by_its_multiply_add(width: int) -> None:
    """The first and the last line of a row, for rows from zero and from the output."""
    text, extents = "A[i,l] = B[i,j] * C[j,l]", {"i": 640, "j": 9, "l": width}
    program = program_for(text, extents, {"B": "ds"}, DataType.FP64, DataType.I32)
    calls = count_calls(lower(program, Isa.AVX512).roots)
    (kernel,) = (one for one in calls if isinstance(one, WalkedSum))
    assert kernel.aligns == 1
    made = emit_kernel(kernel, Isa.AVX512)
    alone = made[made.index("rows_whole_from_zero_yes:") :]
    assert alone.count("vfmadd231pd") == 4
    # Rows that start from the output read it in parts once.
    assert alone.count("@llvm.masked.load") == 2
    # One address for all vectors of a row.
    assert alone.count('asm "", "=r,0"(ptr') == 4


@pytest.mark.parametrize("offset", [0, 16])
@pytest.mark.parametrize("equal", [(), (1,), (69,), (30, 31)])
def test_long_rows_with_few_equal_neighbours(offset: int, equal: tuple[int, ...]) -> None:
    """Rows formed one by one and together, where what they gather begins a line and inside one.

    ``equal`` rows hold the coordinates of the row before. An empty row stands first and one last.
    """
    rows, width, extent = 70, 32, 60
    draw = np.random.default_rng(4)
    lists = [sorted(draw.choice(extent, 20, replace=False).tolist()) for _ in range(rows)]
    for row in equal:
        lists[row] = lists[row - 1]
    pos, crd = index_arrays([[], *lists, []], np.dtype(np.int32))
    text, extents = "A[i,l] = B[i,j] * C[j,l]", {"i": rows + 2, "j": extent, "l": width}
    program = program_for(text, extents, {"B": "ds"}, DataType.FP64, DataType.I32)
    memory = np.empty(extent * width * 8 + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    gathered = memory[start : start + extent * width * 8].view(np.float64)
    gathered[...] = draw.standard_normal(gathered.size)
    operands = {
        "B.pos1": pos,
        "B.crd1": crd,
        "B": draw.standard_normal(crd.size),
        "C": gathered.reshape(extent, width),
        "A": np.full((rows + 2, width), np.nan),
    }
    compile_program(program, threads=1).run(operands)
    values = np.split(operands["B"], pos[1:-1])
    wanted = np.zeros((rows + 2, width))
    for row, fibre in enumerate([[], *lists, []]):
        wanted[row] = values[row] @ operands["C"][fibre]
    np.testing.assert_allclose(operands["A"], wanted, rtol=1e-12, atol=1e-12)


def test_rows_formed_by_themselves_between_groups_may_begin_a_line() -> None:
    """Then one vector less is read, none of them under a mask."""
    text, extents = "A[i,l] = B[i,j] * C[j,l]", {"i": 640, "j": 9, "l": 16}
    program = program_for(text, extents, {"B": "ds"}, DataType.FP64, DataType.I32)
    calls = count_calls(lower(program, Isa.AVX512).roots)
    (kernel,) = (one for one in calls if isinstance(one, WalkedSum))
    made = emit_kernel(kernel, Isa.AVX512)
    alone = made[made.index("whole_1_yes:") : made.index("inside_1_yes:")]
    assert "likely_rows_body:" in made
    assert "vfmadd231pd" not in alone
    assert alone.count("@llvm.fma.v8f64") == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs mprotect")
def test_no_bound_behind_the_last_row_is_read() -> None:
    """How long a fibre is is read one row before; behind the bounds lies a page nobody may read."""
    rows, width, extent = 70, 16, 20
    draw = np.random.default_rng(0)
    pos, crd = index_arrays(fibres(draw, rows, extent), np.dtype(np.int32))
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    own = np.frombuffer(pages, np.int32)
    bounds = own[mmap.PAGESIZE // 4 - pos.size : mmap.PAGESIZE // 4]
    bounds[...] = pos
    protect = ctypes.CDLL(None).mprotect
    beyond = ctypes.c_void_p(own.ctypes.data + mmap.PAGESIZE)
    assert not protect(beyond, ctypes.c_size_t(mmap.PAGESIZE), 0)
    text, extents = "A[i,l] = B[i,j] * C[j,l]", {"i": rows, "j": extent, "l": width}
    program = program_for(text, extents, {"B": "ds"}, DataType.FP64, DataType.I32)
    operands = {
        "B.pos1": bounds,
        "B.crd1": crd,
        "B": numbers(draw, (crd.size,), DataType.FP64),
        "C": numbers(draw, (extent, width), DataType.FP64),
        "A": np.full((rows, width), np.nan),
    }
    compile_program(program, threads=1).run(operands)
    wanted = np.zeros((rows, width))
    np.add.at(
        wanted,
        np.repeat(np.arange(rows), np.diff(pos)),
        operands["B"][:, None] * operands["C"][crd],
    )
    np.testing.assert_allclose(operands["A"], wanted, rtol=1e-12, atol=1e-12)
    assert not protect(beyond, ctypes.c_size_t(mmap.PAGESIZE), 3)


def test_sampled_dots_are_all_one_kernel() -> None:
    text, extents = "A[i,j] = B[i,j] * C[i,k] * D[j,k]", {"i": 640, "j": 9, "k": 16}
    levels = {"B": "ds", "A": "ds"}
    program = program_for(text, extents, levels, DataType.FP64, DataType.I32)
    (kernel,) = count_calls(lower(program, Isa.AVX512).roots)
    assert isinstance(kernel, WalkedDots)
    assert kernel.rows is not None


@pytest.mark.parametrize(("width", "is_formed"), [(8, False), (16, True)])
def test_dots_form_the_address_of_a_row_once(width: int, is_formed: bool) -> None:
    """Where its vectors are several."""
    text, extents = "A[i,j] = B[i,j] * C[i,k] * D[j,k]", {"i": 640, "j": 9, "k": width}
    program = program_for(text, extents, {"B": "ds", "A": "ds"}, DataType.FP64, DataType.I32)
    (kernel,) = count_calls(lower(program, Isa.AVX512).roots)
    assert isinstance(kernel, WalkedDots)
    assert ('asm "", "=r,0"(ptr' in emit_kernel(kernel, Isa.AVX512)) is is_formed
    assert 'asm "", "=r,0"(ptr' not in emit_kernel(kernel, Isa.NEON)


def _requests_of_fixed_rows(kernel: WalkedDots) -> int:
    """How many lines are asked for because the fixed row moves."""
    assert kernel.rows is not None
    still = dataclasses.replace(kernel.rows, inputs=(Follows.NOTHING,) * 2)
    kernels = (kernel, dataclasses.replace(kernel, rows=still))
    texts = [emit_kernel(one, Isa.AVX512) for one in kernels]
    moving, staying = (text.count("call void @llvm.prefetch") for text in texts)
    return moving - staying


@pytest.mark.parametrize(("extent", "is_far"), [(18_000, False), (21_000, True)])
def test_dots_ask_ahead_beyond_what_the_third_cache_holds(extent: int, is_far: bool) -> None:
    """A single gathered operand stays there up to 10 MiB, with a second one up to six."""
    extents = {"i": 160, "j": extent, "k": 64}
    text = "A[i,j] = B[i,j] * C[i,k] * D[j,k]"
    levels = {"B": "ds", "A": "ds"}
    alone = program_for(text, extents, levels, DataType.FP64, DataType.I32)
    both = sampled_program({**extents, "l": 64}, True)
    for program, expected in ((alone, is_far), (both, True)):
        calls = count_calls(lower(program, Isa.AVX512).roots)
        dots = [one for one in calls if isinstance(one, WalkedDots)]
        assert dots
        assert all((one.ahead is not None) is expected for one in dots)


@pytest.mark.parametrize(("extent", "is_asked"), [(6_000, False), (7_000, True)])
def test_dots_ask_sooner_where_requests_bring_them(extent: int, is_asked: bool) -> None:
    """From 3 MiB on, and into the first cache."""
    text, extents = "A[i,j] = B[i,j] * C[i,k] * D[j,k]", {"i": 160, "j": extent, "k": 64}
    program = program_for(text, extents, {"B": "ds", "A": "ds"}, DataType.FP64, DataType.I32)
    calls = count_calls(lower(program, Isa.AMX).roots)
    (kernel,) = (one for one in calls if isinstance(one, WalkedDots))
    requests = re.findall(r"@llvm.prefetch\S*\(.*\)", emit_kernel(kernel, Isa.AMX))
    assert (kernel.ahead is not None) is is_asked
    assert requests or not is_asked
    assert all("i32 0, i32 3" in one for one in requests)


@pytest.mark.parametrize("empty", [False, True])
def test_dots_that_gather_from_afar(empty: bool) -> None:
    draw = np.random.default_rng(5)
    rows, extent, width = 40, 30_000, 64
    lists = [[] if empty or row > 36 else one for row, one in enumerate(fibres(draw, rows, 40))]
    pos, crd = index_arrays([[749 * one for one in each] for each in lists], np.dtype(np.int64))
    text, extents = "A[i,j] = B[i,j] * C[i,k] * D[j,k]", {"i": rows, "j": extent, "k": width}
    program = program_for(text, extents, {"B": "ds", "A": "ds"}, DataType.FP64, DataType.I64)
    calls = count_calls(lower(program, Isa.AVX512).roots)
    (kernel,) = (one for one in calls if isinstance(one, WalkedDots))
    assert kernel.ahead
    assert _requests_of_fixed_rows(kernel) == (1 + 2) * 8 * width // 64
    near = dataclasses.replace(kernel, ahead=None)
    assert _requests_of_fixed_rows(near) == 2 * 8 * width // 64
    assert _requests_of_fixed_rows(dataclasses.replace(near, vectors=4)) == 0
    operands = {
        "B.pos1": pos,
        "B.crd1": crd,
        "B": draw.standard_normal(crd.size),
        "C": draw.standard_normal((rows, width)),
        "D": draw.standard_normal((extent, width)),
        "A": np.full(crd.size, np.nan),
    }
    found = same_bits(program, operands, 1)["A"]
    row_of = np.repeat(np.arange(rows), np.diff(pos))
    wanted = operands["B"] * (operands["C"][row_of] * operands["D"][crd]).sum(1)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
