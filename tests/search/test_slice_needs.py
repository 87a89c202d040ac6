"""The estimated needs of slices beside those of their programs."""

from __future__ import annotations

from search.planned import USUAL, of_shapes, shapes_of
from teir.lower.lower import lower
from teir.pipeline.memory import scratch_bytes
from teir.search.slice_needs import slice_needs
from teir.search.tree import TreeOptions, contraction_program
from teir.target import Isa

EXTENTS = {"a": 6, "b": 9, "c": 12, "d": 6, "e": 9}
PATH = ((0, 1), (0, 1))


def test_intermediates_shrink_with_slices_and_summed_indices_cost_a_result() -> None:
    contraction = of_shapes("ab,bc,cd->da", shapes_of("ab,bc,cd->da", EXTENTS))
    needs = slice_needs(contraction, PATH, None)
    assert needs.bytes_within({}) == 4 * 6 * 12
    assert needs.bytes_within({"c": 1}) == 4 * 6 + 4 * 6 * 6
    assert needs.bytes_within({"a": 2}) == 4 * 2 * 12
    assert needs.bytes_within({"a": 2, "c": 1}) == 4 * 2 + 4 * 2 * 6


def test_estimates_follow_what_programs_need() -> None:
    text = "ab,bc,cd,de->ae"
    contraction = of_shapes(text, shapes_of(text, EXTENTS))
    path = ((0, 1), (0, 1), (0, 1))
    needs = slice_needs(contraction, path, None)
    for slices in ({}, {"a": 1}, {"a": 2, "e": 3}, {"c": 1}, {"a": 1, "d": 1}):
        tree = contraction_program(contraction, path, USUAL, TreeOptions(slices=slices))
        need = scratch_bytes(lower(tree.program, Isa.AVX512), 1)
        assert abs(needs.bytes_within(slices) - need) <= need // 2 + 64, slices
