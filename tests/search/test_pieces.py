"""Steps that threads share as a whole, piece by piece."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import (
    FAR,
    USUAL,
    assert_alike,
    assert_means_it,
    planned,
    shares_loops,
    step_of,
)
from teir.dtypes import DataType
from teir.ir.nodes import IterationNode, Node, Operation, Policy, Program
from teir.search.machine import Machine
from teir.search.pieces import Pieces, pieces_of

PIECES = {
    "dae,ecdb->bace": {"a": 32, "b": 21, "c": 10, "d": 52, "e": 5},
    "acd,bcd->abd": {"a": 19, "b": 266, "c": 30, "d": 27},
    "adce,ebcd->abde": {"a": 5, "b": 96, "c": 5, "d": 3, "e": 3},
    "dba,cd->cab": {"a": 102, "b": 117, "c": 8, "d": 62},
    "aed,cdbe->bace": {"a": 27, "b": 2, "c": 35, "d": 41, "e": 7},
    "gbcfae,gdfe->cabdg": {"a": 9, "b": 3, "c": 8, "d": 15, "e": 3, "f": 2, "g": 6},
    "adc,cbd->ba": {"a": 47, "b": 7, "c": 55, "d": 32},
    "aedc,bced->bae": {"a": 12, "b": 40, "c": 1, "d": 3, "e": 92},
}
"""By what one thread would do: copies around a product, lanes along a batch, a tile of results."""


def sharing(threads: int) -> Machine:
    return replace(USUAL, threads=threads, threaded_work=64)


def pieces_for(text: str, extents: dict[str, int], threads: int = 2) -> Pieces | None:
    return pieces_of(step_of(text, extents), sharing(threads))


def products_alone(program: Program) -> tuple[int, int]:
    """Products in loops that threads share, and all others."""
    primitives = program.primitive_table()
    found = [0, 0]

    def count(node: Node, is_shared: bool) -> None:
        if isinstance(node, IterationNode):
            for child in node.children:
                count(child, is_shared or node.policy is Policy.PARALLEL)
        elif primitives[node.primitive].operation is Operation.CONTRACTION:
            found[not is_shared] += 1

    for root in program.roots:
        count(root, False)
    return found[0], found[1]


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("text", PIECES)
def test_pieces_mean_what_numpy_computes(text: str, threads: int) -> None:
    assert shares_loops(planned(text, PIECES[text], sharing(threads)).program)
    assert_means_it(text, PIECES[text], sharing(threads), 3)


@pytest.mark.parametrize("text", [text for text in PIECES if text != "adc,cbd->ba"])
def test_pieces_have_the_bits_of_the_whole(text: str) -> None:
    """Not where two rows remain of a few, which are summed as dots."""
    programs = [
        planned(text, PIECES[text], sharing(threads), DataType.FP64).program
        for threads in (1, 2, 3)
    ]
    assert_alike(programs, text, PIECES[text], 4)


@pytest.mark.parametrize("text", PIECES)
def test_no_whole_product_is_left_to_one_thread(text: str) -> None:
    shared, left = products_alone(planned(text, PIECES[text], sharing(2)).program)
    assert shared >= left


def test_one_thread_and_little_work_stay_whole() -> None:
    text = "acd,bcd->abd"
    step = step_of(text, PIECES[text])
    assert pieces_of(step, replace(sharing(2), threads=1)) is None
    assert pieces_of(step, replace(sharing(2), threaded_work=1 << 24)) is None


def test_an_axis_is_cut_whose_pieces_meet_seldom_in_the_result() -> None:
    """Along `e` two pieces without a rest would meet every 384 bytes."""
    extents = {"a": 9, "b": 3, "c": 3, "d": 5, "e": 192, "f": 3, "g": 4}
    pieces = pieces_for("gfed,acfbg->dfcagbe", extents)
    assert pieces is not None
    assert (pieces.axis.label, pieces.size) == ("d", 1)


def test_short_axes_are_cut_into_single_indices() -> None:
    pieces = pieces_for("ebx,exc->ebc", {"e": 5, "b": 60, "c": 60, "x": 40})
    assert pieces is not None
    assert (pieces.axis.label, pieces.size) == ("e", 1)


def test_a_large_operand_is_not_copied_by_every_piece() -> None:
    """Along `b` all of the first operand would be read by both."""
    pieces = pieces_for("ak,kb->ab", {"a": 640, "b": 8, "k": 600})
    assert pieces is not None
    assert pieces.axis.label == "a"


def test_results_of_one_index_are_not_cut() -> None:
    assert pieces_for("k,k->", {"k": 4000}) is None


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        ("abec,ed->dcba", {"a": 6, "b": 45, "c": 47, "d": 8, "e": 119}),
        ("adb,cd->bca", {"a": 8, "b": 421, "c": 3, "d": 101}),
    ],
    ids=["of every line", "of few lines"],
)
def test_a_part_of_few_lines_remains(text: str, extents: dict[str, int]) -> None:
    """Three c would remain of the first, 24 bytes of rows of 376; borders between b cost less."""
    program = planned(text, extents, replace(FAR, threads=2), DataType.FP64).program
    shared = [
        node.axis
        for node in program.nodes()
        if isinstance(node, IterationNode) and node.policy is Policy.PARALLEL
    ]
    assert shared == ["b"]
