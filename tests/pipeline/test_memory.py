"""The smallest memory limit: what slicing needs least, of every set of indices that is cut."""

from __future__ import annotations

from itertools import chain, combinations
from time import process_time

import numpy as np
import pytest
from msgspec.structs import replace

import teir
from search.planned import USUAL, of_shapes, shapes_of
from teir.lower.lower import lower
from teir.pipeline.memory import program_within, scratch_bytes
from teir.search.slicing import sliceable
from teir.search.tree import TreeOptions, TreeProgram, contraction_program
from teir.target import Isa

PATHS = {2: ((0, 1),), 3: ((0, 1), (0, 1)), 4: ((0, 1), (0, 1), (0, 1))}
DRAWN = (
    "abc,cde,efa->bdf",
    "ab,bc,cd->da",
    "abc,bd,ce,af->def",
    "bfg,fa,dec->fd",
    "acg,afe,bdc,cb->ge",
    "deg,ea,da,ec->cge",
    "ij,kl,jk->il",
)


def scratch(tree: TreeProgram) -> int:
    return scratch_bytes(lower(tree.program, Isa.AVX512), 1)


@pytest.mark.parametrize("text", DRAWN)
def test_no_set_of_single_indices_needs_less_than_what_is_named(text: str) -> None:
    draw = np.random.default_rng(len(text))
    extents = {index: int(draw.choice((6, 9, 12))) for index in "abcdefgijkl"}
    contraction = of_shapes(text, shapes_of(text, extents))
    path, options = PATHS[text.count(",") + 1], TreeOptions()
    with pytest.raises(teir.TeirError) as caught:
        program_within(contraction, path, USUAL, options, -1, scratch)
    (finding,) = caught.value.findings
    named = int(finding.expected.split()[2].replace(",", ""))
    indices = sliceable(contraction)
    sets = chain.from_iterable(combinations(indices, count) for count in range(len(indices) + 1))
    for cut in sets:
        sliced = replace(options, slices=dict.fromkeys(cut, 1))
        assert named <= scratch(contraction_program(contraction, path, USUAL, sliced)), cut
    assert scratch(program_within(contraction, path, USUAL, options, named, scratch)) <= named


@pytest.mark.parametrize(("operands", "extent"), [(14, 3), (40, 2)])
def test_large_trees_are_refused_soon_with_a_limit_that_does(operands: int, extent: int) -> None:
    terms = ",".join(f"[{number},{number + 1}]" for number in range(operands))
    text, shapes = f"{terms}->[0,{operands}]", [(extent, extent)] * operands
    before = process_time()
    with pytest.raises(teir.TeirError) as caught:
        teir.plan(text, *shapes, threads=1, memory_limit=4 * extent**2)
    assert process_time() - before < 30
    (finding,) = caught.value.findings
    named = int(finding.expected.split()[2].replace(",", ""))
    assert teir.plan(text, *shapes, threads=1, memory_limit=named).memory_bytes <= named
    with pytest.raises(teir.TeirError, match=f"{named:,}"):
        teir.plan(text, *shapes, threads=1, memory_limit=named - 1)


def test_programs_of_a_round_are_few_where_blocks_leave_remainders() -> None:
    """Every index that leaves one doubles the steps of the program."""
    built = 0

    def counted(tree: TreeProgram) -> int:
        nonlocal built
        built += len(tree.steps)
        return scratch(tree)

    text = ",".join(f"{one}{two}" for one, two in zip("abcdefghij", "bcdefghijk", strict=True))
    extents = dict.fromkeys("abcdefghijk", 7)
    contraction = of_shapes(f"{text}->ak", shapes_of(text, extents))
    path = ((0, 1),) * 9
    with pytest.raises(teir.TeirError):
        program_within(contraction, path, USUAL, TreeOptions(), -1, counted)
    assert built < 24 * 3 * 1000
