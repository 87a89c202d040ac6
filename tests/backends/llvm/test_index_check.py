"""The compiled check of index arrays says what the slow one says, and reads nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from teir.arrays.sparse_checks import level_findings
from teir.arrays.sparse_storage import Compressed
from teir.backends.llvm.compile_ir import runs_here
from teir.backends.llvm.index_check import index_check
from teir.dtypes import DataType
from teir.soak.operands import Image
from teir.soak.pages import on_guarded_pages
from teir.target import Isa

Array = np.ndarray[Any, np.dtype[Any]]
ISAS = [isa for isa in Isa if runs_here(isa)]


def address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def guarded(array: Array, at_end: bool) -> tuple[int, object]:
    """The array against an inaccessible page."""
    content = array.view(np.uint8).reshape(-1)
    image = Image(data_type=DataType.I32, content=content, base=0)
    images = on_guarded_pages({"x": image}, at_end=at_end)
    return address(images["x"].content), images


def drawn_level(random: np.random.Generator, dtype: type) -> tuple[Array, Array, int, int]:
    fibres, extent = int(random.integers(1, 40)), int(random.integers(1, 70))
    mask = random.random((fibres, extent)) < random.choice([0, 0.1, 0.5, 1])
    pos = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(dtype)
    crd = np.nonzero(mask)[1].astype(dtype)
    for _ in range(random.integers(0, 3)):
        place = random.integers(0, max(1, crd.size))
        match int(random.integers(0, 5)):
            case 0:
                pos[random.integers(0, fibres + 1)] = random.integers(-3, crd.size + 3)
            case 1 if crd.size:
                crd[place] = random.integers(-2, extent + 2)
            case 2 if crd.size:
                crd[place] = random.choice([np.iinfo(dtype).min, np.iinfo(dtype).max])
            case 3 if crd.size:
                crd[place] = crd[place - 1]
    return pos, crd, fibres, extent


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_it_agrees_with_the_slow_check_on_right_and_wrong_levels(isa: Isa, dtype: type) -> None:
    random = np.random.default_rng(5)
    check = index_check(isa, np.dtype(dtype).itemsize)
    verdicts = {0: 0, 1: 0}
    for _ in range(800):
        pos, crd, fibres, extent = drawn_level(random, dtype)
        findings = level_findings("x", 0, Compressed(pos=pos, crd=crd), fibres, extent)
        verdict = check(address(pos), fibres, address(crd), crd.size, extent)
        assert verdict == bool(findings)
        verdicts[verdict] += 1
    assert min(verdicts.values()) > 100


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("at_end", [False, True])
def test_it_reads_nothing_beyond_the_arrays(isa: Isa, at_end: bool) -> None:
    check = index_check(isa, 4)
    for count in (1, 2, 15, 16, 17, 31, 33, 64, 100):
        pos = np.array([0, count // 2, count], np.int32)
        crd = np.concatenate([np.arange(count // 2), np.arange(count - count // 2)])
        pos_address, keep_pos = guarded(pos, at_end)
        crd_address, keep_crd = guarded(crd.astype(np.int32), at_end)
        assert check(pos_address, 2, crd_address, count, count) == 0
        assert keep_pos is not keep_crd


def test_extents_beyond_int32_bound_nothing() -> None:
    pos, crd = np.array([0, 2], np.int32), np.array([0, 2**31 - 1], np.int32)
    assert index_check(ISAS[0], 4)(address(pos), 1, address(crd), 2, 2**40) == 0
    assert index_check(ISAS[0], 4)(address(pos), 1, address(crd), 2, 2**31 - 1) == 1
