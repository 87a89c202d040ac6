"""The smallest memory limit: what slicing needs least, of every set of indices that is cut."""

from __future__ import annotations

from itertools import chain, combinations

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
