"""Einsum trees and memory limits through the public functions."""

from __future__ import annotations

import re

import numpy as np
import pytest

import teir

FIRST = "[[8,4],[7,3,8]->[7,3,4]],[[[2,6,7],[1,5,6]->[1,2,5,7]],[0,5]->[0,1,2,7]]->[0,1,2,3,4]"
THIRD = (
    "[[2,7,3],[3,8,4]->[2,7,8,4]],[[4,9,0],[[0,5,1],[1,6,2]->[0,5,6,2]]->[4,9,5,6,2]]->[5,6,7,8,9]"
)


def drawn(text: str, extents: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    """Small whole numbers for every leaf of a tree over numbered indices."""
    generator = np.random.default_rng(5)
    leaves = re.findall(r"(?<!->)\[([0-9,]+)\]", text)
    shapes = [[extents[int(index)] for index in leaf.split(",")] for leaf in leaves]
    return [generator.integers(-2, 3, shape).astype(dtype) for shape in shapes]


def expected(text: str, operands: list[np.ndarray]) -> np.ndarray:
    leaves = re.findall(r"(?<!->)\[([0-9,]+)\]", text)
    output = re.findall(r"->\[([0-9,]+)\]", text)[-1]
    arguments: list[object] = []
    for operand, leaf in zip(operands, leaves, strict=True):
        arguments += [operand, [int(index) for index in leaf.split(",")]]
    return np.einsum(*arguments, [int(index) for index in output.split(",")], optimize=True)


@pytest.mark.parametrize(
    ("text", "extents"),
    [(FIRST, (10, 9, 13, 8, 3, 7, 31, 5, 3)), (THIRD, (8, 9, 8, 7, 8, 5, 5, 5, 5, 5))],
)
@pytest.mark.parametrize("optimize", ["auto", False, "greedy"])
def test_einsum_takes_a_tree(text: str, extents: tuple[int, ...], optimize: object) -> None:
    operands = drawn(text, extents)
    result = teir.einsum(text, *operands, optimize=optimize)
    np.testing.assert_array_equal(result, expected(text, operands))
    np.testing.assert_array_equal(teir.einsum(text, *operands), result)


def test_plan_follows_the_tree() -> None:
    plan = teir.plan("[i,k],[[k,l],[l,j]->[j,k]]->[j,i]", (3, 4), (4, 5), (5, 6), optimize=False)
    assert plan.steps[0].text == "in1[k l], in2[l j] -> part[j k]"


def test_a_tree_of_integers_is_left_to_numpy() -> None:
    operands = drawn(FIRST, (3, 4, 5, 2, 3, 4, 5, 2, 3), "int64")
    result = teir.einsum(FIRST, *operands)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, expected(FIRST, operands))


def test_findings_point_into_the_tree() -> None:
    with pytest.raises(teir.TeirError, match="column 8") as caught:
        teir.einsum("[i,k],[k,j]->[i,j]", np.ones((2, 3)), np.ones((4, 5)))
    assert caught.value.findings[0].code == "TEIR608"


CHAIN = "[[i,k],[k,l]->[i,l]],[l,j]->[i,j]"
SHAPES = ((600, 20), (20, 500), (500, 7))


def test_explain_prints_the_memory() -> None:
    # Nothing is left of i and l, so that the steps share no loop and the product is stored whole.
    plan = teir.plan("[[i,k],[k,l]->[i,l]],[i,l]->[]", *SHAPES[:2], (600, 500))
    assert plan.memory_bytes >= 600 * 500 * 8
    assert f"memory: {plan.memory_bytes:,} bytes at most" in plan.explain()


def test_a_limit_that_is_kept_anyway_changes_nothing() -> None:
    plan = teir.plan(CHAIN, *SHAPES)
    same = teir.plan(CHAIN, *SHAPES, memory_limit=plan.memory_bytes + 600 * 7 * 8)
    assert same.program == plan.program


@pytest.mark.parametrize("share", [2, 10])
def test_a_limit_is_met_by_slicing(share: int) -> None:
    whole = teir.plan(CHAIN, *SHAPES, threads=1)
    result = 600 * 7 * 8
    limit = whole.memory_bytes // share + result
    plan = teir.plan(CHAIN, *SHAPES, memory_limit=limit, threads=1)
    assert plan.memory_bytes + result <= limit
    assert "sliced: i in blocks of" in plan.explain()
    generator = np.random.default_rng(2)
    operands = [generator.integers(-2, 3, shape).astype(np.float64) for shape in SHAPES]
    np.testing.assert_array_equal(plan(*operands), np.linalg.multi_dot(operands))


def test_a_limit_that_cannot_be_met_is_refused_with_the_smallest_that_can() -> None:
    with pytest.raises(teir.TeirError) as caught:
        teir.plan(CHAIN, *SHAPES, memory_limit=10, threads=1)
    (finding,) = caught.value.findings
    assert finding.code == "TEIR643"
    smallest = int(re.search(r"[0-9,]+", finding.expected).group().replace(",", ""))
    plan = teir.plan(CHAIN, *SHAPES, memory_limit=smallest, threads=1)
    assert 10 < plan.memory_bytes + 600 * 7 * 8 <= smallest
    with pytest.raises(teir.TeirError, match=f"{smallest:,}"):
        teir.plan(CHAIN, *SHAPES, memory_limit=smallest - 1, threads=1)


@pytest.mark.parametrize("limit", [-1, 1.5, True, "1GB", np.ones(2, np.int64)])
def test_a_limit_is_a_number_of_bytes(limit: object) -> None:
    with pytest.raises(teir.TeirError, match="TEIR643"):
        teir.einsum("ij->ji", np.ones((2, 3)), memory_limit=limit)


def test_a_contraction_without_scratch_needs_its_result_only() -> None:
    a = np.ones((2, 3))
    np.testing.assert_array_equal(teir.einsum("ij->ji", a, memory_limit=48), a.T)
    with pytest.raises(teir.TeirError, match="48 bytes"):
        teir.einsum("ij->ji", a, memory_limit=47)


def test_a_result_that_is_given_is_not_counted() -> None:
    a, out = np.ones((2, 3)), np.zeros((3, 2))
    assert teir.einsum("ij->ji", a, memory_limit=0, out=out) is out
    np.testing.assert_array_equal(out, a.T)


@pytest.mark.parametrize("extent", [0, 3])
def test_the_limit_holds_for_results_that_numpy_computes_or_that_are_zero(extent: int) -> None:
    a = np.ones((4, extent), np.int64 if extent else np.float64)
    assert teir.einsum("ij->i", a, memory_limit=32).tolist() == [extent] * 4
    with pytest.raises(teir.TeirError, match="32 bytes"):
        teir.einsum("ij->i", a, memory_limit=31)


def test_copies_of_operands_count() -> None:
    ints = np.ones((40, 50), np.int64)
    with pytest.raises(teir.TeirError, match="32,000"):
        teir.einsum("ij->ji", ints, dtype="float64", memory_limit=31_999)
