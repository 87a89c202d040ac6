"""Which gathers are done in slabs, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from teir.arrays.levels import Format, Level
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.check import check
from teir.ir.nodes import IterationNode, Operation, Program
from teir.passes.facts import Facts
from teir.passes.gathered_slabs import with_gathered_slabs
from teir.passes.walking_programs import with_walking_passes
from teir.pipeline.executable import compile_for, compile_program
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.moves import loopfuse
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of

FACTS = Facts(vector_bytes=64, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20, threads=1)
SCALED = "A[i,m] = B[i,j,k] * D[k,m] * C[j,m]"
RANKED = "A[i,l,m] = B[i,j,k] * D[k,m] * C[j,l]"
SUMMED = "A[i,l] = B[i,j,k] * D[k,m] * E[l,m]"
MATRIX = "A[i,m] = B[i,k] * D[k,m]"
ROWS, COLUMNS = 3072, 128
OFTEN = {"B.crd1": 3000, "B.crd2": 20 * ROWS}


def program_for(
    text: str,
    extents: dict[str, int],
    data_type: DataType = DataType.FP64,
    fused: int | None = None,
) -> Program:
    """B is compressed below its first index; ``fused`` loops are shared by a temporary."""
    assignment = parse_index_notation(text)
    rank = len(assignment.inputs["B"].indices)
    levels = (Level.DENSE, *(Level.COMPRESSED,) * (rank - 1))
    formats = {"B": Format(levels=levels, mode_order=tuple(range(rank)))}
    statement = statement_of(assignment, formats)
    graph = linear(statement, tuple(extents))
    if fused is not None:
        made = loopfuse(graph, fused, producer_in_left=True, path=())
        assert isinstance(made, IterationGraph)
        graph = made
    return program_of(graph, extents, data_type=data_type, index_type=DataType.I32, name="gather")


def slabs(program: Program) -> tuple[int, str] | None:
    """How many slabs there are, and what they are copied from."""
    axes, primitives = program.axis_table(), program.primitive_table()
    copies = [
        (path, primitives[leaf.primitive])
        for path, leaf in program.invocations()
        if primitives[leaf.primitive].operation is Operation.COPY
    ]
    if not copies:
        return None
    (((loop,), copy),) = copies
    return axes[loop.axis].extent, copy.inputs[0]


def deep(rows: int = ROWS, columns: int = COLUMNS) -> dict[str, int]:
    return {"i": 40, "j": 60, "k": rows, "m": columns}


@pytest.mark.parametrize(
    ("rows", "columns", "data_type", "count"),
    [
        (ROWS, COLUMNS, DataType.FP64, 2),
        (ROWS, 256, DataType.FP32, 2),
        (28_800, 16, DataType.FP64, 2),
        (28_800, 24, DataType.FP64, 3),
        (28_800, 32, DataType.FP64, 4),
        (10_000, 64, DataType.FP64, 4),
    ],
)
def test_as_few_slabs_as_fit_the_second_cache(
    rows: int, columns: int, data_type: DataType, count: int
) -> None:
    program = program_for(SCALED, deep(rows, columns), data_type)
    after = with_gathered_slabs(program, {"B.crd1": 3000, "B.crd2": 20 * rows}, FACTS)
    assert slabs(after) == (count, "D")
    check(after).raise_if_wrong()


@pytest.mark.parametrize(
    ("text", "extents", "fused"),
    [
        (SCALED, deep(), 2),
        (RANKED, {"i": 4, "j": 60, "k": ROWS, "l": 9, "m": COLUMNS}, None),
        (RANKED, {"i": 4, "j": 60, "k": ROWS, "m": COLUMNS, "l": 9}, 2),
    ],
)
def test_schedules_that_form_columns_apart(
    text: str, extents: dict[str, int], fused: int | None
) -> None:
    after = with_gathered_slabs(program_for(text, extents, fused=fused), OFTEN, FACTS)
    assert slabs(after) == (2, "D")
    check(after).raise_if_wrong()


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, threads=2),
        replace(FACTS, vector_bytes=32),
        replace(FACTS, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20),
        replace(FACTS, l3_bytes=32 << 20),
        replace(FACTS, l2_bytes=3 << 20),
    ],
)
def test_machines_without_slabs(facts: Facts) -> None:
    """Threads, short vectors, a third cache that is near, operands that are."""
    program = program_for(SCALED, deep())
    assert with_gathered_slabs(program, OFTEN, facts) is program


@pytest.mark.parametrize(
    ("text", "extents", "fused", "gathers"),
    [
        (SCALED, deep(), None, 10 * ROWS),
        (SCALED, deep(40_000, 16), None, 20 * 40_000),
        (SCALED, deep(28_800, 40), None, 20 * 28_800),
        (SCALED, deep(ROWS, COLUMNS + 4), None, 20 * ROWS),
        (RANKED, {"i": 400, "j": 60, "k": ROWS, "l": 9, "m": COLUMNS}, None, 20 * ROWS),
        (SUMMED, {"i": 40, "j": 60, "k": ROWS, "m": COLUMNS, "l": 8}, 2, 20 * ROWS),
        (SUMMED, {"i": 40, "j": 60, "k": ROWS, "m": COLUMNS, "l": 8}, None, 20 * ROWS),
    ],
)
def test_programs_without_slabs(
    text: str, extents: dict[str, int], fused: int | None, gathers: int
) -> None:
    """Few gathers, many rows, many slabs, parts of lines, long results, sums along a row."""
    program = program_for(text, extents, fused=fused)
    stored = {"B.crd1": 3000, "B.crd2": gathers}
    assert with_gathered_slabs(program, stored, FACTS) is program


def test_rows_of_a_matrix_gather_near_ones() -> None:
    program = program_for(MATRIX, {"i": 40, "k": ROWS, "m": COLUMNS})
    assert with_gathered_slabs(program, {"B.crd1": 100 * ROWS}, FACTS) is program


def test_a_slab_is_copied_and_gathered_before_the_next_one() -> None:
    after = with_gathered_slabs(program_for(SCALED, deep()), OFTEN, FACTS)
    (loop,) = [one for one in after.roots if isinstance(one, IterationNode)]
    assert len(loop.children) == 2
    assert [one.name for one in after.scratch] == ["D_slab"]


def test_sparse_programs_go_through_the_pass() -> None:
    program = program_for(SCALED, deep())
    assert slabs(with_walking_passes(program, OFTEN, FACTS)) == (2, "D")
    assert slabs(with_walking_passes(program, {}, FACTS)) is None


@pytest.mark.parametrize("data_type", [DataType.FP64, DataType.FP32])
@pytest.mark.parametrize(
    ("text", "fused"), [(SCALED, None), (SCALED, 2), (RANKED, None), (RANKED, 2)]
)
def test_every_bit_is_kept(text: str, fused: int | None, data_type: DataType) -> None:
    """Of native code and of the evaluator, with rows and fibres that hold nothing."""
    columns = COLUMNS * 8 // data_type.width
    extents = {"i": 3, "j": 4, "k": ROWS, "l": 2, "m": columns}
    if text == SCALED:
        del extents["l"]
    program = program_for(text, extents, data_type, fused)
    after = with_gathered_slabs(program, OFTEN, FACTS)
    assert slabs(after) == (2, "D")
    draw, kind = np.random.default_rng(3), data_type.numpy_dtype()
    crd2 = np.sort(draw.choice(ROWS, 12, replace=False)).astype(np.int32)
    operands = {
        "B.pos1": np.array([0, 2, 2, 3], np.int32),
        "B.crd1": np.array([0, 3, 1], np.int32),
        "B.pos2": np.array([0, 7, 7, 12], np.int32),
        "B.crd2": np.concatenate([crd2[:7], crd2[7:]]),
        "B": draw.standard_normal(12).astype(kind),
        "C": draw.standard_normal((4, columns if text == SCALED else 2)).astype(kind),
        "D": draw.standard_normal((ROWS, columns)).astype(kind),
    }
    shape = (3, columns) if text == SCALED else (3, 2, columns)
    results = []
    for one in (program, after):
        reference = compile_for(one, backend="reference", threads=1)
        for run in (compile_program(one, threads=1), reference):
            results.append(np.full(shape, np.nan, kind))
            run.run({**operands, "A": results[-1]})
    for before, found in zip(results[:2], results[2:], strict=True):
        np.testing.assert_array_equal(found, before)
