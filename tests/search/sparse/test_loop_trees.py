"""The loop trees of a space: counted without being listed, and found again by their numbers."""

from __future__ import annotations

import pytest
from tests.search.sparse.kernels import KERNELS

from teir.search.sparse.generation import generated, space_of, space_within
from teir.search.sparse.loop_trees import LARGEST_RANK, LoopTrees
from teir.search.sparse.shapes import Shapes
from teir.search.sparse.space import Identity

NAMES = ("K1", "K3", "K4", "K6", "K7", "K8")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("identity", Identity)
def test_as_many_trees_are_counted_as_are_listed(name: str, identity: Identity) -> None:
    space = space_of(KERNELS[name].statement, identity, LARGEST_RANK)
    for with_primes in (True, False):
        listed = list(LoopTrees(space, with_primes=with_primes).kept(pipelines=False))
        assert LoopTrees(space, with_primes=with_primes).count() == len(listed)


@pytest.mark.parametrize("name", NAMES)
def test_wanted_trees_are_found_where_all_are(name: str) -> None:
    space = space_of(KERNELS[name].statement, Identity.ACCESSES, LARGEST_RANK)
    trees = LoopTrees(space, with_primes=True)
    listed = list(trees.kept(pipelines=False))
    wanted = listed[:3] + listed[3::7]
    assert list(trees.kept_of({found.tree for found in wanted})) == wanted
    nests = [found for found in listed if found.split is None]
    assert {found.tree for found in nests} == trees.nests()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("identity", Identity)
def test_shapes_of_larger_temporaries_give_the_same_space(name: str, identity: Identity) -> None:
    statement = KERNELS[name].statement
    shapes = Shapes(statement)
    assert generated(shapes, identity) >= space_of(statement, identity, LARGEST_RANK).generated
    spaces = (
        space_within(shapes, identity, LARGEST_RANK),
        space_of(statement, identity, LARGEST_RANK),
    )
    assert spaces[0].generated == spaces[1].generated
    one, other = (
        [
            (trees.parts(found.tree)[0], found.loop_depth, found.memory_depth)
            for trees in (LoopTrees(space, with_primes=True),)
            for found in trees.kept(pipelines=True)
        ]
        for space in spaces
    )
    assert one == other
