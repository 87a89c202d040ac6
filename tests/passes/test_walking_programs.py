"""Dense products in programs of sparse products are blocked and packed as in dense programs."""

from __future__ import annotations

import numpy as np
import pytest

from teir.arrays.levels import Format, Level
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.check import check
from teir.ir.nodes import Operation, Program
from teir.passes.block_caches import block_caches
from teir.passes.facts import Facts
from teir.passes.walking_programs import with_walking_passes
from teir.pipeline.executable import compile_program
from teir.search.sparse.ranked import Problem, ranked
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of

TURNED = "A[i,l] = B[i,j] * C[k,j] * D[k,l]"
TTMC = "A[l,m,n] = B[i,j,k] * C[i,l] * D[j,m] * E[k,n]"
CACHES = {"l1_bytes": 32 << 10, "l2_bytes": 1 << 20, "l3_bytes": 32 << 20}


def facts_for(threads: int) -> Facts:
    return Facts(vector_bytes=64, threads=threads, threaded_work=1 << 15, **CACHES)


def program_for(text: str, extents: dict[str, int], fibres: dict[str, float]) -> Program:
    """The program of the schedule ranked first; B is compressed below its first index."""
    assignment = parse_index_notation(text)
    rank = len(assignment.inputs["B"].indices)
    levels = (Level.DENSE, *[Level.COMPRESSED] * (rank - 1))
    formats = {"B": Format(levels=levels, mode_order=tuple(range(rank)))}
    statement = statement_of(assignment, formats)
    symbols = {index: float(extent) for index, extent in extents.items()} | fibres
    problem = Problem(
        statement=statement, symbols=symbols, element_bytes=8, cache_bytes=CACHES["l3_bytes"]
    )
    return program_of(
        ranked(problem)[0].candidate.graph,
        extents,
        data_type=DataType.FP64,
        index_type=DataType.I32,
        name="product",
        shares=None,
    )


def packed(program: Program) -> set[str]:
    """What Copies read."""
    primitives = program.primitive_table()
    leaves = [primitives[one.primitive] for _, one in program.invocations()]
    return {one.inputs[0] for one in leaves if one.operation is Operation.COPY}


@pytest.mark.parametrize("threads", [1, 2])
def test_operands_of_a_dense_product_are_packed(threads: int) -> None:
    extents = {"i": 2048, "j": 2048, "k": 256, "l": 256}
    program = program_for(TURNED, extents, {"jpos": 5.0})
    assert not packed(program)
    after = with_walking_passes(program, {}, facts_for(threads))
    assert packed(after) == {"C", "D"}
    check(after).raise_if_wrong()

    draw = np.random.default_rng(1)
    stored = np.sort(draw.choice(extents["i"] * extents["j"], 5 * extents["i"], replace=False))
    rows, columns = np.divmod(stored, extents["j"])
    b = np.zeros((extents["i"], extents["j"]))
    b[rows, columns] = draw.integers(-4, 5, stored.size)
    c, d = (draw.integers(-4, 5, (256, extent)).astype(np.float64) for extent in (2048, 256))
    operands = {
        "B": b[rows, columns],
        "B.pos1": np.searchsorted(rows, np.arange(extents["i"] + 1)).astype(np.int32),
        "B.crd1": columns.astype(np.int32),
        "C": c,
        "D": d,
        "A": np.full((extents["i"], extents["l"]), np.nan),
    }
    compile_program(after, threads=threads).run(operands)
    np.testing.assert_array_equal(operands["A"], b @ (c.T @ d))


def test_products_beside_loops_over_fibres_are_not_cut() -> None:
    extents = {"i": 600, "j": 400, "k": 28_800, "l": 128, "m": 128, "n": 128}
    program = program_for(TTMC, extents, {"jpos": 30.0, "kpos": 30.0})
    assert block_caches(program, facts_for(1)) is program
