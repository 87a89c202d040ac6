"""Index arrays seen before: the short check says what the slow one says, and reads nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from teir.arrays.sparse_checks import level_findings
from teir.arrays.sparse_storage import Compressed
from teir.backends.llvm.compile_ir import runs_here
from teir.backends.llvm.index_seen import still_level
from teir.dtypes import DataType
from teir.soak.operands import Image
from teir.soak.pages import on_guarded_pages
from teir.target import Isa

Array = np.ndarray[Any, np.dtype[Any]]
ISAS = [isa for isa in Isa if runs_here(isa)]


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def drawn(random: np.random.Generator, dtype: type) -> tuple[Array, Array, int, int]:
    """A right level: bounds, coordinates, fibres, extent."""
    fibres, extent = int(random.integers(1, 40)), int(random.integers(1, 70))
    mask = random.random((fibres, extent)) < random.choice([0, 0.1, 0.5, 1])
    pos: Array = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(dtype)
    return pos, np.nonzero(mask)[1].astype(dtype), fibres, extent


def starts_of(pos: Array, stored: int) -> Array:
    """A bit for every pair of neighbouring coordinates."""
    return np.packbits(np.isin(np.arange(1, stored), pos[:-1]), bitorder="little")


def changed(
    random: np.random.Generator, pos: Array, crd: Array, extent: int
) -> tuple[Array, Array]:
    """Copies with up to two entries changed, most of them by little."""
    pos, crd = pos.copy(), crd.copy()
    for _ in range(random.integers(0, 3)):
        place = random.integers(0, max(1, crd.size))
        match int(random.integers(0, 5)):
            case 0:
                pos[random.integers(0, pos.size)] += random.integers(-1, 2)
            case 1 if crd.size:
                crd[place] += random.integers(-1, 2)
            case 2 if crd.size:
                crd[place] = random.choice([extent - 1, extent, -1, np.iinfo(crd.dtype).min])
            case 3 if crd.size:
                crd[place] = crd[place - 1]
    return pos, crd


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_it_agrees_with_the_slow_check_where_bounds_are_those_seen(isa: Isa, dtype: type) -> None:
    random = np.random.default_rng(11)
    still = still_level(isa, np.dtype(dtype).itemsize)
    counts = {(same, verdict): 0 for same in (True, False) for verdict in (0, 1)}
    for _ in range(800):
        seen, crd, fibres, extent = drawn(random, dtype)
        starts = starts_of(seen, crd.size)
        pos, crd = changed(random, seen, crd, extent)
        at = (address(pos), address(seen), fibres + 1, address(crd), crd.size)
        verdict = still(*at, address(starts), extent)
        is_same = np.array_equal(pos, seen)
        findings = level_findings("x", 0, Compressed(pos=pos, crd=crd), fibres, extent)
        assert verdict == (bool(findings) or not is_same)
        counts[is_same, verdict] += 1
    assert min(counts[True, 0], counts[True, 1], counts[False, 1]) > 80


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("at_end", [False, True])
def test_it_reads_nothing_beyond_the_arrays(isa: Isa, at_end: bool) -> None:
    still = still_level(isa, 4)
    for count in (1, 2, 8, 9, 15, 16, 17, 18, 31, 33, 34, 64, 65, 100):
        pos = np.array([0, count // 2, *[count] * count], np.int32)
        crd = np.concatenate([np.arange(count // 2), np.arange(count - count // 2)])
        arrays = {"pos": pos, "seen": pos, "crd": crd.astype(np.int32)}
        arrays["starts"] = starts_of(pos, count)
        images = {
            name: Image(data_type=DataType.I32, content=array.view(np.uint8), base=0)
            for name, array in arrays.items()
        }
        placed = on_guarded_pages(images, at_end=at_end)
        own = {name: address(image.content) for name, image in placed.items()}
        begin = (own["pos"], own["seen"], pos.size, own["crd"], count)
        assert still(*begin, own["starts"], count) == 0
        assert still(*begin, own["starts"], 0) == 1


def test_a_level_that_stores_nothing() -> None:
    pos, other = np.zeros(4, np.int32), np.ones(4, np.int32)
    crd, starts = np.zeros(0, np.int32), np.zeros(0, np.uint8)
    still = still_level(ISAS[0], 4)
    at = (address(crd), 0, address(starts), 5)
    assert still(address(pos), address(pos), 4, *at) == 0
    assert still(address(pos), address(other), 4, *at) == 1
