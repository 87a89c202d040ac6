"""Products of many factors, scheduled in parts."""

from __future__ import annotations

from itertools import pairwise
from time import process_time

import numpy as np
import pytest

import teir
from teir.arrays.levels import dense_format, parse_format
from teir.expr.index_notation import Access
from teir.pipeline.sparse_plan import SparsePlan
from teir.search.sparse.graph import Branch, branches
from teir.search.sparse.predicted import Problem
from teir.search.sparse.ranked import ranked
from teir.search.sparse.statement import Statement

PRODUCTS = [
    "ij,ik,jk,jl,lm->im",
    "ij,jk,kl,lm,mn->in",
    "ij,ik,jk,jl,lm,mn->in",
    "ij,jk,kl,lm,mn,no,op->ip",
    "ij,ia,ja,jb,ic,jc,bd->id",
    "ij,i,j,a,b,ab->ia",
    "ij,jk,kl,lm,mi->",
    "ij,ik,jk,jl,lm->m",
    "ij,jk,ik,il,lm->mi",
]


@pytest.mark.parametrize("text", PRODUCTS)
def test_they_are_products_like_others(text: str) -> None:
    random = np.random.default_rng(len(text))
    terms, _ = text.split("->")
    extents = {index: int(random.integers(2, 7)) for index in terms if index != ","}
    dense = [
        random.integers(-2, 3, [extents[index] for index in term]).astype(float)
        for term in terms.split(",")
    ]
    dense[0] *= random.random(dense[0].shape) < 0.4
    sparse = teir.Sparse.from_coo(
        np.nonzero(dense[0]), dense[0][np.nonzero(dense[0])], dense[0].shape
    )
    plan = teir.plan(text, sparse, *dense[1:])
    assert isinstance(plan, SparsePlan)
    assert "native code" in plan.explain()
    np.testing.assert_array_equal(plan(sparse, *dense[1:]), np.einsum(text, *dense))


def problem(text: str) -> Problem:
    terms, output = text.split("->")
    inputs = terms.split(",")
    statement = Statement(
        output=Access(tensor="A", indices=tuple(output)),
        inputs=tuple(
            Access(tensor=f"B{number}", indices=tuple(term)) for number, term in enumerate(inputs)
        ),
        formats=(
            dense_format(len(output)),
            parse_format("ds"),
            *(dense_format(len(term)) for term in inputs[1:]),
        ),
    )
    symbols = dict.fromkeys(statement.indices, 64.0) | {"i": 5000.0, "j": 5000.0, "jpos": 60.0}
    return Problem(statement=statement, symbols=symbols, element_bytes=8, cache_bytes=32e6)


def test_a_small_matrix_is_applied_row_by_row_to_what_is_stored_before() -> None:
    best = ranked(problem("ij,ik,jk,jl,lm->im"))[0].candidate.graph
    assert isinstance(best.root, Branch)
    assert best.root.loops == ("i",)
    assert best.root.temporary.indices == ("l",)
    assert best.root.producer.loops == ("j",)


def test_rows_that_a_result_sums_over_are_stored_first() -> None:
    for one in ranked(problem("ij,ik,jk,jl,lm->m")):
        root = one.candidate.graph.root
        assert isinstance(root, Branch)
        assert root.loops == () or root.temporary.indices == ()


@pytest.mark.parametrize("text", PRODUCTS[:4])
def test_temporaries_have_names_of_their_own(text: str) -> None:
    for one in ranked(problem(text)):
        graph = one.candidate.graph
        names = [branch.temporary.tensor for branch in branches(graph.root)]
        assert len({*names, *(a.tensor for a in graph.statement.accesses)}) == len(names) + len(
            graph.statement.accesses
        )


def test_a_chain_of_twenty_looks_at_pairs_only() -> None:
    names = [chr(ord("a") + place) for place in range(21)]
    text = ",".join(map("".join, pairwise(names))) + "->" + names[0] + names[-1]
    matrix = np.eye(3)[[1, 2, 0]]
    operands = [teir.Sparse.from_coo(np.nonzero(matrix), np.ones(3), (3, 3)), *[matrix] * 19]
    started = process_time()
    np.testing.assert_array_equal(teir.einsum(text, *operands), np.linalg.matrix_power(matrix, 20))
    assert process_time() - started < 20
