"""Sums over fibres counted up to zero: where that is known to be right, and what they ask for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from teir.arrays.levels import Format, Level
from teir.backends.llvm.compile_ir import runs_here
from teir.backends.llvm.emit_kernel import emit_kernel
from teir.backends.llvm.kernel_words import kernel_words
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Bytes, Program
from teir.lower.explanation import count_calls
from teir.lower.lower import lower
from teir.lower.walked_kernels import WalkedSum
from teir.pipeline.executable import compile_program
from teir.search.sparse.graph import linear
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of
from teir.target import Isa

ROWS, COLUMNS = 70, 90


def program_for(width: int, value: DataType, apart: int = 1) -> Program:
    """A[i,l] = B[i,j] * C[j,l]; the stored elements of B lie ``apart`` elements apart."""
    sparse = Format(levels=(Level.DENSE, Level.COMPRESSED), mode_order=(0, 1))
    statement = statement_of(parse_index_notation("A[i,l] = B[i,j] * C[j,l]"), {"B": sparse})
    extents = {"i": ROWS, "j": COLUMNS, "l": width}
    graph = linear(statement, ("i", "j", "l"))
    program = program_of(
        graph, extents, data_type=value, index_type=DataType.I32, name="sums", shares=None
    )
    axes = tuple(
        structs.replace(axis, strides=Bytes({**axis.strides, "B": axis.strides["B"] * apart}))
        if axis.segments
        else axis
        for axis in program.axes
    )
    return structs.replace(program, axes=axes)


def kernel_of(program: Program, isa: Isa) -> WalkedSum:
    calls = count_calls(lower(program, isa).roots)
    (kernel,) = (one for one in calls if isinstance(one, WalkedSum))
    return kernel


@pytest.mark.parametrize("value", [DataType.FP64, DataType.FP32, DataType.BF16])
@pytest.mark.parametrize("width", [8, 40, 72, 128])
@pytest.mark.parametrize("apart", [1, 3])
def test_sums_have_the_bits_of_the_evaluator(value: DataType, width: int, apart: int) -> None:
    """Empty fibres, single elements, long ones, and elements apart."""
    program, draw = program_for(width, value, apart), np.random.default_rng(width)
    sizes = [0, 1, 0, 0, 2, *draw.integers(0, COLUMNS, ROWS - 6).tolist(), 0]
    crd = [np.sort(draw.choice(COLUMNS, size, replace=False)) for size in sizes]
    dtype = value.numpy_dtype()
    known = {
        "B.pos1": np.cumsum([0, *sizes]).astype(np.int32),
        "B.crd1": np.concatenate(crd).astype(np.int32),
        "B": draw.integers(-3, 4, sum(sizes) * apart).astype(dtype),
        "C": draw.integers(-3, 4, (COLUMNS, width)).astype(dtype),
        "A": np.ones((ROWS, width), dtype),
    }
    meant = {name: array.copy() for name, array in known.items()}
    evaluate(program, meant)
    for isa in filter(runs_here, Isa):
        known["A"][...] = 1
        compile_program(program, isa=isa, threads=1).run(known)
        np.testing.assert_array_equal(known["A"], meant["A"], err_msg=str(isa))


def test_elements_apart_are_not_counted_to_zero() -> None:
    near, apart = (kernel_of(program_for(40, DataType.FP64, one), Isa.AVX512) for one in (1, 3))
    assert near.adjacent == (True, True)
    assert apart.adjacent == (False, True)
    assert "_apart_sa" in kernel_words(apart)
    assert "fibre_out:" not in emit_kernel(apart, Isa.AVX512)
    alone = emit_kernel(near, Isa.AVX512)
    assert "fibre_whole_from_zero_out:" in alone
    assert ", %step0\n" not in alone[alone.index("rows_whole_from_zero_yes:") :]
    assert "fibre_whole_from_zero_out:" not in emit_kernel(replace(near, ahead=16), Isa.AVX512)


@pytest.mark.parametrize(
    ("isa", "width", "is_asked"),
    [(Isa.AMX, 128, True), (Isa.AMX, 64, False), (Isa.AVX512, 128, False)],
)
def test_lines_of_long_results_are_asked_for_one_by_one(
    isa: Isa, width: int, is_asked: bool
) -> None:
    made = emit_kernel(kernel_of(program_for(width, DataType.FP64), isa), isa)
    assert ("llvm.prefetch" in made) is is_asked


def test_rows_that_are_only_likely_equal_are_compared() -> None:
    made = emit_kernel(kernel_of(program_for(40, DataType.FP64), Isa.AVX512), Isa.AVX512)
    look = made[made.index("likely_rows_body:") : made.index("likely_rows_done:")]
    assert "compare_first1_body:" in look
    assert "@llvm.smin.i64(i64 %rows, i64 64)" in made
