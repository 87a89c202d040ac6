"""Index arrays that are none: a finding, or the result that their meaning has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.errors import TeirError

Array = np.ndarray[Any, np.dtype[Any]]
Level = tuple[Array, Array]

SHAPE = (4, 5, 6)
FINDINGS = {"TEIR670", "TEIR671", "TEIR672", "TEIR673", "TEIR674", "TEIR675", "TEIR676"}


def levels_of(array: teir.Sparse) -> dict[int, Level]:
    return {
        place: (level.pos.copy(), level.crd.copy())
        for place, level in enumerate(array.stored)
        if level is not None
    }


def spoilt(random: np.random.Generator, level: Level, extent: int) -> Level:
    """One thing changed, or none."""
    pos, crd = level
    place = random.integers(max(crd.size, 1))
    fibre = random.integers(pos.size)
    kind = random.integers(14)
    if kind < 6 and crd.size:
        limits = np.iinfo(crd.dtype)
        crd[place] = (-1, extent, limits.max, limits.min, crd[0], random.integers(extent))[kind]
    elif kind == 6:
        pos[fibre] += random.integers(-3, 4)
    elif kind == 7:
        pos[fibre] = random.choice([-1, np.iinfo(pos.dtype).max, np.iinfo(pos.dtype).min])
    elif kind == 8:
        pos = pos[:-1]
    elif kind == 9:
        pos = np.append(pos, pos[-1:])
    elif kind == 10:
        crd = crd[:-1]
    elif kind == 11:
        random.shuffle(crd)
    elif kind == 12:
        pos = pos[::-1].copy()[::-1]
        crd = np.repeat(crd, 2)[::2]
    types = [np.int32, np.int64, np.uint32, np.int16, np.float64]
    if random.random() < 0.2:
        pos = pos.astype(random.choice(np.array(types, object)))
    if random.random() < 0.2:
        crd = crd.astype(random.choice(np.array(types, object)))
    return pos, crd


def meaning(levels: str, stored: dict[int, Level], values: Array) -> Array | None:
    """Every element by the definition of levels, one at a time; None for what is no array."""
    result = np.zeros(SHAPE)
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for place, letter in enumerate(levels):
        below: list[tuple[tuple[int, ...], int]] = []
        for coords, position in found:
            if letter == "d":
                extent = SHAPE[place]
                below += [((*coords, n), position * extent + n) for n in range(extent)]
                continue
            pos, crd = stored[place]
            begin, end = int(pos[position]), int(pos[position + 1])
            own = [int(one) for one in crd[begin:end]]
            if not 0 <= begin <= end <= crd.size or own != sorted(set(own)):
                return None
            below += [((*coords, one), begin + n) for n, one in enumerate(own)]
        found = below
    for coords, position in found:
        if not all(0 <= one < extent for one, extent in zip(coords, SHAPE, strict=True)):
            return None
        result[coords] = values[position]
    return result


def outcome(call: Any) -> tuple[Any, set[str]]:
    """The result, or the codes of the findings."""
    try:
        return call(), set()
    except TeirError as error:
        return None, {one.code for one in error.findings}


def product(good: teir.Sparse, stored: dict[int, Level], other: Array, frozen: bool) -> Any:
    letters = str(good.format)
    made = teir.Sparse.from_levels(SHAPE, letters, stored, good.values, frozen=frozen)
    return einsum(made, other, None)


def einsum(made: teir.Sparse, other: Array, wish: str | None) -> Any:
    found = teir.einsum("ijk,kl->ijl", made, other, out_levels=wish)
    return found.to_dense() if isinstance(found, teir.Sparse) else found


@pytest.mark.parametrize("levels", ["dss", "sss", "dsd", "sds", "dds", "ssd"])
@pytest.mark.parametrize("frozen", [False, True])
def test_spoilt_index_arrays(levels: str, frozen: bool) -> None:
    random = np.random.default_rng(len(levels) + 2 * frozen)
    dense = random.integers(1, 5, SHAPE) * (random.random(SHAPE) < 0.3)
    coords = np.nonzero(dense)
    good = teir.Sparse.from_coo(coords, dense[coords], SHAPE, levels)
    other = np.arange(12.0).reshape(6, 2)
    outcomes = set()
    for _ in range(120):
        stored = levels_of(good)
        place = int(random.choice(list(stored)))
        stored[place] = spoilt(random, stored[place], SHAPE[place])
        found, codes = outcome(lambda s=stored: product(good, s, other, frozen))
        if codes:
            assert codes <= FINDINGS
            outcomes.add("refused")
            continue
        expected = meaning(levels, stored, good.values)
        assert expected is not None
        np.testing.assert_array_equal(found, expected @ other)
        outcomes.add("taken")
    assert outcomes == {"refused", "taken"}


@pytest.mark.parametrize("levels", ["dss", "dsd"])
def test_index_arrays_spoilt_after_they_were_taken(levels: str) -> None:
    """Memory that others can write is looked at again: in the same plan, and by its calls."""
    random = np.random.default_rng(8)
    dense = random.integers(1, 5, SHAPE) * (random.random(SHAPE) < 0.3)
    coords = np.nonzero(dense)
    good = teir.Sparse.from_coo(coords, dense[coords], SHAPE, levels)
    other = np.arange(12.0).reshape(6, 2)
    for _ in range(60):
        stored = levels_of(good)
        made = teir.Sparse.from_levels(SHAPE, levels, stored, good.values)
        for wish in (None, levels):
            einsum(made, other, wish)
        place = int(random.choice(list(stored)))
        pos, crd = spoilt(random, levels_of(good)[place], SHAPE[place])
        if pos.size != stored[place][0].size or crd.size != stored[place][1].size:
            continue
        if pos.dtype.kind != "i" or crd.dtype.kind != "i":
            continue
        stored[place][0][:], stored[place][1][:] = pos, crd
        expected = meaning(levels, stored, good.values)
        for wish in (None, levels):
            found, codes = outcome(lambda m=made, w=wish: einsum(m, other, w))
            assert codes <= FINDINGS
            if not codes:
                assert expected is not None
                np.testing.assert_array_equal(found, expected @ other)
