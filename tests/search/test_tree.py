"""Trees: layouts by cost over the whole tree, order of the steps, slices."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from search.planned import USUAL, of_shapes
from strategies.contractions import Drawn, draw
from teir.dtypes import DataType
from teir.expr.tree_parsing import parse_nested
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.printing import print_program
from teir.lower.slots import assign_slots
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.search.contraction import Contraction
from teir.search.fused_steps import FusedSteps
from teir.search.machine import Machine
from teir.search.slicing import sliceable
from teir.search.tree import TreeOptions, TreeProgram, contraction_program

TINY = Machine(vector_bytes=16, l1_bytes=256, l2_bytes=1024, threads=3, threaded_work=1)

TREES = {
    "first": (
        "[[8,4],[7,3,8]->[7,3,4]],[[[2,6,7],[1,5,6]->[1,2,5,7]],[0,5]->[0,1,2,7]]->[0,1,2,3,4]",
        (100, 72, 128, 128, 3, 71, 305, 32, 3),
    ),
    "second": (
        "[[[[3,6,8,9]->[8,6,9,3]],[[2,5,7,9]->[7,5,2,9]]->[7,8,5,6,2,3]],[0,4,5,6]"
        "->[0,4,7,8,2,3]],[1,4,7,8]->[0,1,2,3]",
        (60, 60, 20, 20, 8, 8, 8, 8, 8, 8),
    ),
    "first, optimised": (
        "[[7,3,8],[8,4]->[7,3,4]],[[0,5],[[5,1,6],[6,2,7]->[5,1,2,7]]->[0,1,2,7]]->[0,1,2,3,4]",
        (100, 72, 128, 128, 3, 71, 305, 32, 3),
    ),
    "second, optimised": (
        "[1,4,7,8],[[0,4,5,6],[[2,5,7,9],[3,6,8,9]->[2,5,7,3,6,8]]->[0,4,2,7,3,8]]->[0,1,2,3]",
        (60, 60, 20, 20, 8, 8, 8, 8, 8, 8),
    ),
    "third": (
        "[[2,7,3],[3,8,4]->[2,7,8,4]],[[4,9,0],[[0,5,1],[1,6,2]->[0,5,6,2]]->[4,9,5,6,2]]"
        "->[5,6,7,8,9]",
        (40, 40, 40, 40, 40, 25, 25, 25, 25, 25),
    ),
}


def stated(
    name: str, shrink: int = 1, extents: tuple[int, ...] | None = None
) -> tuple[Contraction, tuple[tuple[int, ...], ...], TreeOptions]:
    """The contraction of a tree on float32 operands, its path, and how it was written."""
    text, usual = TREES[name]
    extents = usual if extents is None else extents
    nested = parse_nested(text)
    assert nested.nesting is not None
    shapes = [tuple(-(-extents[int(i)] // shrink) for i in term.symbols) for term in nested.inputs]
    operands = tuple(contiguous(DataType.FP32, shape) for shape in shapes)
    contraction = state_problem(nested, operands, None, None).contraction
    assert contraction is not None
    return contraction, nested.nesting.path, TreeOptions(results=nested.nesting.results)


def scratch(tree: TreeProgram) -> int:
    return assign_slots(tree.program).run_scratch_bytes


@pytest.mark.parametrize("name", TREES)
def test_the_chosen_layouts_cost_no_more_than_the_written_ones(name: str) -> None:
    contraction, path, options = stated(name)
    tree = contraction_program(contraction, path, USUAL, options)
    assert tree.cycles is not None
    assert tree.written_cycles is not None
    assert 0 < tree.cycles <= tree.written_cycles
    assert check(tree.program).ok


def test_an_intermediate_takes_the_order_its_reader_wants() -> None:
    """The written order [2,5,7,3,6,8] would be packed again and again."""
    contraction, path, options = stated("second, optimised")
    chosen = contraction_program(contraction, path, USUAL, options)
    written = contraction_program(contraction, path, USUAL, replace(options, rearrange=False))
    assert written.steps[0].text.endswith("[2 5 7 3 6 8]")
    assert not any(step.text.endswith("[2 5 7 3 6 8]") for step in chosen.steps)
    assert chosen.cycles is not None
    assert chosen.written_cycles is not None
    assert 2 * chosen.cycles < chosen.written_cycles


def test_a_permutation_is_inserted_where_it_pays() -> None:
    contraction, path, options = stated("third", shrink=2)
    chosen = contraction_program(contraction, path, USUAL, options)
    written = contraction_program(contraction, path, USUAL, replace(options, rearrange=False))
    assert len(written.steps) == 4
    assert len(chosen.steps) > 4


def test_columns_that_come_in_short_runs_are_laid_one_after_the_other() -> None:
    """Runs of 160 bytes, those of each column together in the chosen order; not runs of 200."""
    contraction, path, options = stated("third")
    chosen = contraction_program(contraction, path, USUAL, options)
    written = contraction_program(contraction, path, USUAL, replace(options, rearrange=False))
    assert written.steps[-1].parts[1].order == ("4", "9", "5", "6", "2")
    *_, product, copy = chosen.steps
    assert chosen.fused == FusedSteps((("5", 1), ("6", 1)))
    assert product.parts[1].order in {("9", *last) for last in (("2", "4"), ("4", "2"))}
    assert len(copy.parts) == 1


def test_a_product_that_turns_needs_no_other_layout() -> None:
    contraction, path, options = stated("third", extents=(50,) * 5 + (20,) * 5)
    chosen = contraction_program(contraction, path, USUAL, options)
    written = contraction_program(contraction, path, USUAL, replace(options, rearrange=False))
    assert chosen.program == written.program


def test_intermediates_share_the_arena() -> None:
    contraction, path, options = stated("first", shrink=8)
    tree = contraction_program(contraction, path, USUAL, replace(options, rearrange=False))
    sizes = {"1257": 9 * 16 * 9 * 4, "0127": 13 * 9 * 16 * 4, "734": 4 * 16}
    both = 4 * (sizes["1257"] + sizes["0127"])
    assert both <= scratch(tree) < both + 4 * sizes["734"] + 20_000


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("rearrange", [True, False])
def test_trees_mean_what_numpy_says(name: str, rearrange: bool, monkeypatch) -> None:
    monkeypatch.setattr("teir.search.arrange._WORTH", 1)
    contraction, path, options = stated(name, shrink=20)
    options = replace(options, rearrange=rearrange)
    for machine in (USUAL, TINY):
        tree = contraction_program(contraction, path, machine, options)
        assert check(tree.program).ok
        draw_numbers = np.random.default_rng(3)
        arrays, terms = [], []
        for factor in contraction.inputs:
            shape = [contraction.extents[index] for index in factor.strides]
            arrays.append(draw_numbers.integers(-2, 3, shape).astype(np.float32))
            terms.append([int(index) for index in factor.strides])
        shape = [contraction.extents[index] for index in contraction.output.strides]
        out = np.full(shape, 7, np.float32)
        evaluate(tree.program, {f"in{n}": one for n, one in enumerate(arrays)} | {"out": out})
        pairs = [item for pair in zip(arrays, terms, strict=True) for item in pair]
        result = [int(index) for index in contraction.output.strides]
        np.testing.assert_array_equal(out, np.einsum(*pairs, result, optimize=True))


def sliced(drawn: Drawn, seed: int) -> TreeProgram:
    indices = list(drawn.contraction.output.strides)
    slices = {}
    for place, index in enumerate(indices[:2]):
        slices[index] = 1 + (seed + place) % drawn.contraction.extents[index]
    options = TreeOptions(slices=slices)
    return contraction_program(drawn.contraction, drawn.path, USUAL, options)


@pytest.mark.parametrize("operands", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_slices_change_no_result(seed: int, operands: int) -> None:
    drawn = draw(700 * operands + seed, DataType.FP32, operands, size=4000)
    tree = sliced(drawn, seed)
    report = check(tree.program)
    assert report.ok, print_program(tree.program).text + "\n".join(map(str, report.findings))
    drawn.out[...] = 7
    evaluate(tree.program, drawn.memory)
    np.testing.assert_array_equal(drawn.out, drawn.expected, err_msg=drawn.text)


@pytest.mark.parametrize("operands", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_slices_of_summed_indices_change_no_result(seed: int, operands: int) -> None:
    """Whole numbers: the slices are summed apart and then added."""
    drawn = draw(900 * operands + seed, DataType.FP32, operands, size=4000)
    contraction = drawn.contraction
    kept = contraction.output.order
    summed = [index for index in sliceable(contraction) if index not in kept]
    chosen = [*summed[:1], *kept[:1]]
    slices = {
        index: 1 + (seed + place) % contraction.extents[index]
        for place, index in enumerate(chosen if seed % 2 else chosen[::-1])
    }
    tree = contraction_program(contraction, drawn.path, USUAL, TreeOptions(slices=slices))
    report = check(tree.program)
    assert report.ok, print_program(tree.program).text + "\n".join(map(str, report.findings))
    drawn.out[...] = 7
    evaluate(tree.program, drawn.memory)
    np.testing.assert_array_equal(drawn.out, drawn.expected, err_msg=drawn.text)


def test_sums_into_narrow_outputs_are_not_sliced() -> None:
    wide = draw(3, DataType.FP32, 3, size=4000).contraction
    assert set(sliceable(wide)) > set(wide.output.order)
    narrow = draw(3, DataType.BF16, 3, size=4000).contraction
    assert sliceable(narrow) == narrow.output.order


def test_a_summed_index_makes_intermediates_smaller() -> None:
    """xkp,pkm,mkz->xz: no index of the small output makes the parts small, the summed k does."""
    contraction = of_shapes("xkp,pkm,mkz->xz", ((4, 30, 20), (20, 30, 40), (40, 30, 4)))
    path = ((0, 1), (0, 1))
    whole = contraction_program(contraction, path, USUAL)
    parts = contraction_program(contraction, path, USUAL, TreeOptions(slices={"k": 2}))
    assert 10 * scratch(parts) < scratch(whole)


def test_slices_make_intermediates_smaller() -> None:
    contraction, path, options = stated("first", shrink=4)
    whole = contraction_program(contraction, path, USUAL, options)
    parts = contraction_program(contraction, path, USUAL, replace(options, slices={"1": 3}))
    assert 4 * scratch(parts) < scratch(whole)
    assert check(parts.program).ok
