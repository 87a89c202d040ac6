"""What the prediction holds for walked in parts is what the program of the schedule is."""

from __future__ import annotations

import pytest

from search.sparse.kernels import KERNELS
from teir.dtypes import DataType
from teir.ir.coordinate_parts import coordinates_at_once
from teir.passes.facts import Facts
from teir.passes.gathered_parts import with_gathered_parts
from teir.passes.part_sizes import PartCache, part_cache
from teir.search.sparse.fibre_parts import FibreParts, fibre_parts
from teir.search.sparse.graph import Branch, IterationGraph, Node
from teir.search.sparse.predicted import Problem
from teir.search.sparse.ranked import ranked
from teir.search.sparse.translate import program_of

FACTS = Facts(vector_bytes=64, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20, threads=1)
PARTS = part_cache(FACTS)
EXTENTS = {"i": 600, "j": 400, "k": 28_800}
LENGTHS = {"jpos": 16.5, "kpos": 57.3}
SHARES = {"K7": "B"}


def problem_for(kernel: str, extent: int, parts: PartCache | None = PARTS) -> Problem:
    """``kernel`` on long fibres; B is i, j, k or, for K8, i, k, l."""
    statement = KERNELS[kernel].statement
    levels = dict(zip(statement.inputs[0].indices, "ijk", strict=True))
    symbols = {index: float(extent) for index in statement.indices}
    symbols |= {index: float(EXTENTS[level]) for index, level in levels.items()}
    symbols |= {
        f"{index}pos": LENGTHS[f"{level}pos"]
        for index, level in levels.items()
        if f"{level}pos" in LENGTHS
    }
    return Problem(
        statement=statement,
        symbols=symbols,
        element_bytes=8,
        cache_bytes=FACTS.l3_bytes,
        parts=parts,
    )


def roots(node: Node) -> list[Node]:
    if isinstance(node, Branch) and not node.loops:
        return [*roots(node.producer), *roots(node.consumer)]
    return [node]


def parts_of(graph: IterationGraph, problem: Problem) -> list[FibreParts]:
    assert problem.parts is not None
    sizes = (problem.symbols, problem.element_bytes, problem.parts)
    found = (fibre_parts(problem.statement, root, *sizes) for root in roots(graph.root))
    return [one for one in found if one is not None]


@pytest.mark.parametrize("kernel", ["K5", "K6", "K7", "K8"])
@pytest.mark.parametrize("extent", [16, 32, 64])
def test_the_program_is_walked_in_as_many_parts(kernel: str, extent: int) -> None:
    """Of the first schedules, in each of which at most one nest is."""
    problem = problem_for(kernel, extent)
    fibres = round(600 * 16.5)
    stored = {"B.crd1": fibres, "B.crd2": round(fibres * 57.3)}
    extents = {index: int(problem.symbols[index]) for index in problem.statement.indices}
    for one in ranked(problem)[:6]:
        graph = one.candidate.graph
        program = program_of(
            graph,
            extents,
            data_type=DataType.FP64,
            index_type=DataType.I32,
            name="product",
            shares=SHARES.get(kernel),
        )
        after = with_gathered_parts(program, stored, FACTS)
        sizes = [size for each in after.primitives if (size := coordinates_at_once(each))]
        assert [part.walks for part in parts_of(graph, problem)] == [
            -(-EXTENTS["k"] // size) for size in sizes
        ], graph


@pytest.mark.parametrize("extent", [16, 32, 64, 128])
def test_dense_products_come_first_where_parts_make_their_rows_near(extent: int) -> None:
    """K7 with D first took 0.69, 0.69, 0.76 and 0.79 of the time without."""
    graph = str(ranked(problem_for("K7", extent))[0].candidate.graph)
    assert graph.startswith("< H1[k,m]; k, m, l: H1[k,m] += C[k,l] D[l,m]")


def test_machines_without_parts_choose_as_before() -> None:
    graph = str(ranked(problem_for("K7", 64, parts=None))[0].candidate.graph)
    assert graph.startswith("i, j' < T1[l]")
