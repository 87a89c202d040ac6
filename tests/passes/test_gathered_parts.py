"""Which fibres are walked in parts, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from teir.arrays.levels import Format, Level
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.check import check
from teir.ir.coordinate_parts import coordinates_at_once
from teir.ir.nodes import Program
from teir.passes.facts import Facts
from teir.passes.gathered_parts import with_gathered_parts
from teir.passes.walking_programs import with_walking_passes
from teir.pipeline.executable import compile_program
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.moves import loopfuse
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of

FACTS = Facts(vector_bytes=64, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20, threads=1)
SCALED = "A[i,m] = B[i,j,k] * D[k,m] * C[j,m]"
RANKED = "A[i,l,m] = B[i,j,k] * D[k,m] * C[j,l]"
STORED = "A[i,j,m] = B[i,j,k] * D[k,m]"
MATRIX = "A[i,m] = B[i,k] * D[k,m]"
ROWS = 28_800


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
    if text == STORED:
        formats["A"] = Format(
            levels=(Level.DENSE, Level.COMPRESSED, Level.DENSE), mode_order=(0, 1, 2)
        )
    statement = statement_of(assignment, formats)
    graph = linear(statement, tuple(extents))
    if fused is not None:
        made = loopfuse(graph, fused, producer_in_left=True, path=())
        assert isinstance(made, IterationGraph)
        graph = made
    shares = "B" if text == STORED else None
    return program_of(
        graph,
        extents,
        data_type=data_type,
        index_type=DataType.I32,
        name="gather",
        shares=shares,
    )


def deep(columns: int, rows: int = ROWS) -> dict[str, int]:
    return {"i": 40, "j": 60, "k": rows, "m": columns}


def stored(fibres: int = 2000, length: int = 300) -> dict[str, int]:
    return {"B.crd1": fibres, "B.crd2": fibres * length}


def at_once(program: Program) -> int | None:
    found = [count for one in program.primitives if (count := coordinates_at_once(one))]
    return found[0] if found else None


@pytest.mark.parametrize(
    ("text", "columns", "data_type", "fused", "size"),
    [
        (SCALED, 16, DataType.FP64, 2, 7200),
        (SCALED, 32, DataType.FP64, 2, 3600),
        (SCALED, 64, DataType.FP64, 2, 1920),
        (SCALED, 128, DataType.FP64, 2, 994),
        (SCALED, 128, DataType.FP32, 2, 1920),
        (SCALED, 64, DataType.FP64, None, 1920),
        (STORED, 64, DataType.FP64, None, 1920),
    ],
)
def test_parts_fill_half_the_second_cache(
    text: str, columns: int, data_type: DataType, fused: int | None, size: int
) -> None:
    program = program_for(text, deep(columns), data_type, fused)
    after = with_gathered_parts(program, stored(), FACTS)
    assert at_once(after) == size
    check(after).raise_if_wrong()
    assert at_once(with_walking_passes(program, stored(), FACTS)) == size


@pytest.mark.parametrize(("products", "size"), [(8, 3600), (40, 7200), (128, None)])
def test_fewer_parts_where_much_is_done_with_the_sum_of_each(
    products: int, size: int | None
) -> None:
    extents = {"i": 40, "j": 60, "k": ROWS, "m": 32, "l": products}
    program = program_for(RANKED, extents, fused=2)
    assert at_once(with_gathered_parts(program, stored(4000, 120), FACTS)) == size


@pytest.mark.parametrize(
    "facts",
    [
        replace(FACTS, threads=3),
        replace(FACTS, vector_bytes=32),
        replace(FACTS, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20),
        replace(FACTS, l3_bytes=32 << 20),
    ],
)
def test_machines_without_parts(facts: Facts) -> None:
    """Threads, short vectors, a third cache that is near."""
    program = program_for(SCALED, deep(64), fused=2)
    assert with_gathered_parts(program, stored(), facts) is program


@pytest.mark.parametrize(("text", "fused", "size"), [(SCALED, 2, 1920), (STORED, None, None)])
def test_two_threads_have_parts_where_fibres_have_no_results(
    text: str, fused: int | None, size: int | None
) -> None:
    program = program_for(text, deep(64), fused=fused)
    after = with_gathered_parts(program, stored(4000, 150), replace(FACTS, threads=2))
    assert at_once(after) == size


@pytest.mark.parametrize(
    ("text", "columns", "rows", "fused", "fibres", "length"),
    [
        (SCALED, 64, ROWS, 2, 2000, 200),
        (SCALED, 64, 6000, 2, 2000, 300),
        (SCALED, 64, ROWS, 2, 50_000, 17),
        (STORED, 16, ROWS, None, 50_000, 20),
        (SCALED, 60, ROWS, 2, 2000, 300),
        (RANKED, 64, ROWS, 2, 2000, 300),
    ],
)
def test_fibres_without_parts(
    text: str, columns: int, rows: int, fused: int | None, fibres: int, length: int
) -> None:
    """Few gathers, a near operand, short fibres, rows of part lines, much to do for a fibre."""
    extents = deep(columns, rows)
    if text == RANKED:
        extents = {"i": 40, "j": 60, "k": rows, "m": columns, "l": 128}
    program = program_for(text, extents, fused=fused)
    assert with_gathered_parts(program, stored(fibres, length), FACTS) is program


def test_rows_of_a_matrix_gather_near_ones() -> None:
    program = program_for(MATRIX, {"i": 40, "k": ROWS, "m": 64})
    assert with_gathered_parts(program, {"B.crd1": 100 * ROWS}, FACTS) is program


@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_those_of_whole_fibres(threads: int) -> None:
    """Of integers, whose sums are exact in any order."""
    program = program_for(SCALED, {"i": 3, "j": 4, "k": ROWS, "m": 64}, fused=2)
    after = with_gathered_parts(program, stored(), FACTS)
    assert at_once(after) == 1920
    draw = np.random.default_rng(3)
    crd2 = [np.sort(draw.choice(ROWS, 50, replace=False)) for _ in range(3)]
    operands = {
        "B.pos1": np.array([0, 2, 2, 3], np.int32),
        "B.crd1": np.array([0, 3, 1], np.int32),
        "B.pos2": np.array([0, 50, 100, 150], np.int32),
        "B.crd2": np.concatenate(crd2).astype(np.int32),
        "B": draw.integers(-9, 9, 150).astype(np.float64),
        "C": draw.integers(-9, 9, (4, 64)).astype(np.float64),
        "D": draw.integers(-9, 9, (ROWS, 64)).astype(np.float64),
    }
    results = [np.full((3, 64), np.nan) for _ in range(2)]
    for one, result in zip((program, after), results, strict=True):
        compile_program(one, threads=threads).run({**operands, "A": result})
    np.testing.assert_array_equal(results[0], results[1])
