"""The domain algebra: inverses, holes, and when two schedules are one."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teir.errors import TeirError
from teir.tma.derive import apply_verbs
from teir.tma.domain import backward, forward, inputs_of, makes_holes, outputs_of
from teir.tma.evaluate import Item, item_at, loop_extents
from teir.tma.nodes import Flatten, Merge, Reorder, Resize, Split, Swizzle, Verb

EXTENT = st.one_of(st.integers(min_value=1, max_value=40), st.sampled_from((2, 4, 8)))
FACTOR = st.integers(min_value=1, max_value=9)


def split(axis: int, factor: int, outer: bool = False) -> Split:
    return Split(axis=axis, factor=factor, outer=outer)


def items(shape: tuple[int, ...], schedule: tuple[Verb, ...]) -> list[Item]:
    """The items of all loop positions, in row-major order."""
    loops = loop_extents(shape, schedule)
    return [item_at(shape, schedule, at) for at in itertools.product(*map(range, loops))]


@settings(deadline=None)
@given(extent=EXTENT, n=FACTOR, m=FACTOR)
def test_split_split(extent: int, n: int, m: int) -> None:
    """Split by n, then the outer by m, equals split by m n, then the inner by n: always."""
    outer_again = (split(0, n), split(0, m))
    inner_again = (split(0, m * n), split(1, n))
    assert loop_extents((extent,), outer_again) == loop_extents((extent,), inner_again)
    left, right = items((extent,), outer_again), items((extent,), inner_again)
    assert [one.index for one in left] == [one.index for one in right]
    assert {one.index for one in left if one.valid} == {(i,) for i in range(extent)}


@settings(deadline=None, max_examples=40)
@given(outer=EXTENT, inner=EXTENT)
def test_merge_split(outer: int, inner: int) -> None:
    """Merge, then split by the inner extent: the identity."""
    schedule = (Merge(outer=0, inner=1), split(0, inner))
    assert loop_extents((outer, inner), schedule) == (outer, inner)
    found = items((outer, inner), schedule)
    assert [one.index for one in found] == list(itertools.product(range(outer), range(inner)))
    assert all(one.valid for one in found)


@settings(deadline=None, max_examples=40)
@given(outer=EXTENT, inner=EXTENT, factor=FACTOR)
def test_merge_then_split_equals_split_then_merge_iff_it_divides(
    outer: int, inner: int, factor: int
) -> None:
    merge_first = (Merge(outer=0, inner=1), split(0, factor))
    split_first = (split(1, factor), Merge(outer=0, inner=1))
    shape = (outer, inner)
    first, second = (
        [one.index if one.valid else None for one in items(shape, schedule)]
        for schedule in (merge_first, split_first)
    )
    assert (first == second) == (inner % factor == 0 or outer == 1)


@settings(deadline=None, max_examples=40)
@given(shape=st.lists(EXTENT, min_size=1, max_size=3).map(tuple), seed=st.integers(0, 2**32))
def test_every_valid_item_is_reached_once(shape: tuple[int, ...], seed: int) -> None:
    generator = random.Random(seed)
    schedule = drawn_verbs(generator, shape)
    if np.prod(loop_extents(shape, schedule)) > 4_000:
        return
    valid = [one.index for one in items(shape, schedule) if one.valid]
    assert sorted(valid) == list(itertools.product(*map(range, shape)))


def drawn_verbs(generator: random.Random, shape: tuple[int, ...]) -> tuple[Verb, ...]:
    verbs: list[Verb] = []
    for _ in range(generator.randint(1, 4)):
        loops = loop_extents(shape, tuple(verbs))
        axis = generator.randrange(len(loops))
        kind = generator.randrange(5)
        alike = [
            (x, y)
            for x, y in itertools.permutations(range(len(loops)), 2)
            if loops[x] == loops[y] > 1 and loops[x].bit_count() == 1
        ]
        if alike and generator.random() < 0.5:
            x, y = generator.choice(alike)
            verbs.append(Swizzle(x=x, y=y))
        elif kind == 0:
            verbs.append(split(axis, generator.randint(1, 6), generator.random() < 0.5))
        elif kind == 1 and len(loops) > 1:
            outer, inner = generator.sample(range(len(loops)), 2)
            verbs.append(Merge(outer=outer, inner=inner))
        elif kind == 2 and len(loops) > 1:
            old, new = generator.sample(range(len(loops)), 2)
            verbs.append(Reorder(moves=((old, new - len(loops)),)))
        elif kind == 3:
            verbs.append(
                Resize(axis=axis, left=generator.randint(0, 3), right=generator.randint(0, 3))
            )
        else:
            verbs.append(Flatten(first=0, last=axis))
    return tuple(verbs)


@settings(deadline=None)
@given(shape=st.lists(EXTENT, min_size=1, max_size=3).map(tuple), seed=st.integers(0, 2**32))
def test_expressions_mean_what_the_evaluator_means(shape: tuple[int, ...], seed: int) -> None:
    """Deriving domains and walking expressions backwards gives the evaluator's items."""
    generator = random.Random(seed)
    schedule = drawn_verbs(generator, shape)
    logical, loops, expressions = apply_verbs(shape, schedule)
    assert tuple(one.extent for one in loops) == loop_extents(shape, schedule)
    for _ in range(5):
        position = tuple(generator.randrange(one.extent) for one in loops)
        values = dict(zip(loops, position, strict=True))
        for expression in reversed(expressions):
            at = tuple(values[one] for one in outputs_of(expression))
            values.update(zip(inputs_of(expression), backward(expression, at), strict=True))
        item = item_at(shape, schedule, position)
        assert tuple(values[one] for one in logical) == item.index
        assert all(0 <= index < one.extent for one, index in values.items()) == item.valid


@settings(deadline=None)
@given(shape=st.lists(EXTENT, min_size=1, max_size=3).map(tuple), seed=st.integers(0, 2**32))
def test_backward_undoes_forward(shape: tuple[int, ...], seed: int) -> None:
    schedule = drawn_verbs(random.Random(seed), shape)
    for expression in apply_verbs(shape, schedule)[2]:
        inputs = inputs_of(expression)
        for at in itertools.islice(itertools.product(*(range(one.extent) for one in inputs)), 50):
            outputs = forward(expression, at)
            pairs = zip(outputs, outputs_of(expression), strict=True)
            assert all(0 <= index < one.extent for index, one in pairs)
            assert backward(expression, outputs) == at


@settings(deadline=None)
@given(source=EXTENT, factor=FACTOR)
def test_holes_of_a_split_are_its_padding(source: int, factor: int) -> None:
    _, loops, expressions = apply_verbs((source,), (split(0, factor),))
    positions = loops[0].extent * loops[1].extent
    found = items((source,), (split(0, factor),))
    assert sum(not one.valid for one in found) == positions - source
    assert makes_holes(expressions[0]) == (positions > source)


@pytest.mark.parametrize("extent", [1, 2, 8, 32])
def test_swizzle_is_a_bijection_and_its_own_inverse(extent: int) -> None:
    once, twice = (Swizzle(x=0, y=1),), (Swizzle(x=0, y=1), Swizzle(x=0, y=1))
    shape = (extent, extent)
    assert [one.index for one in items(shape, once)] == [
        (x, x ^ y) for x, y in itertools.product(range(extent), repeat=2)
    ]
    assert [one.index for one in items(shape, twice)] == list(
        itertools.product(range(extent), repeat=2)
    )


def test_one_hole_makes_others() -> None:
    """15 seen as 6 x 3: position (5, 2) is out, and so are parts of rows split again."""
    valid = [one.valid for one in items((15,), (split(0, 3), split(0, 2)))]
    assert len(valid) == 18
    assert valid.count(True) == 15


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        (split(3, 2), "TEIR901"),
        (Merge(outer=0, inner=0), "TEIR901"),
        (Reorder(moves=((0, 1), (0, 2))), "TEIR901"),
        (split(0, 0), "TEIR902"),
        (Resize(axis=0, left=-6, right=0), "TEIR902"),
        (Swizzle(x=0, y=1), "TEIR903"),
        (Swizzle(x=0, y=2), "TEIR903"),
    ],
)
def test_verbs_that_cannot_be_applied(verb: Verb, code: str) -> None:
    with pytest.raises(TeirError) as raised:
        apply_verbs((6, 4, 6), (verb,))
    assert [finding.code for finding in raised.value.findings] == [code]
