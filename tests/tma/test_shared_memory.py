"""Shared-memory layouts, swizzles and bank conflicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from teir.tma.banks import Wavefronts, matrix_wavefronts, sectors, wavefronts
from teir.tma.case_form import transfer_of
from teir.tma.check import check
from teir.tma.inference import Inferred
from teir.tma.shared_memory import allocation_of, check_capacity, check_shared
from teir.tma.swizzle import atom_bytes, swizzled


def inferred(**fields: Any) -> Inferred:
    case = {"id": "case", "dtype": "f64", "parallel": {}, "schedule": [], **fields}
    found = check(transfer_of(case, "$")).inferred
    assert found is not None
    return found


TILE = {
    "shape": [16, 10],
    "schedule": [["split", 1, 4], ["split", 0, 4], ["reorder", {"1": 2}]],
    "parallel": {"2": "Bulk", "3": "Bulk"},
}


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ([], None),
        ([["split", -1, 2], ["merge", 2]], None),
        ([["merge", 2], ["split", 2, 8], ["split", 2, 1]], None),
        ([["split", -1, 3], ["merge", 2]], "TEIR930"),
        ([["split", -1, 2], ["reorder", {"-1": -2}], ["merge", 2]], "TEIR930"),
        ([["reorder", {"2": 3}]], "TEIR930"),
        ([["swizzle", 2, 3]], "TEIR930"),
        ([["reorder", {"0": 1}]], None),
        ([["merge", 0, 2]], "TEIR930"),
    ],
)
def test_what_may_happen_inside_a_tile(extra: list[Any], code: str | None) -> None:
    """Figure 15: any divisible view that keeps the order of a tile."""
    found = inferred(**TILE, smem_allocation=[*TILE["schedule"], *extra])
    assert [one.finding.code for one in check_shared(found)] == ([] if code is None else [code])


def test_whole_tiles_and_alignment() -> None:
    rows = {
        "shape": [15, 12],
        "schedule": [["split", 0, 4]],
        "parallel": {"1": "Bulk", "2": "Bulk"},
    }
    ragged = inferred(**rows, smem_allocation=[["merge", 0], ["split", 0, 8]])
    assert [one.finding.code for one in check_shared(ragged)] == ["TEIR931"]
    small = inferred(
        shape=[16, 10],
        schedule=[["split", 0, 4]],
        parallel={"1": "Bulk", "2": "Bulk"},
        smem_allocation=[],
    )
    assert [one.finding.code for one in check_shared(small)] == ["TEIR932"]


def test_capacity_counts_stages() -> None:
    found = inferred(
        shape=[64, 64], parallel={"0": "Bulk", "1": "Bulk"}, smem_allocation="loop", dtype="f32"
    )
    assert allocation_of(found).size_bytes == 16384
    assert check_capacity(found, 14) == ()
    assert [one.finding.code for one in check_capacity(found, 15)] == ["TEIR933"]


@pytest.mark.parametrize("mode", [0, 32, 64, 128])
def test_swizzle_permutes_units_within_rows(mode: int) -> None:
    addresses = np.arange(4096)
    moved = swizzled(addresses, mode)
    assert sorted(moved.tolist()) == addresses.tolist()
    assert np.array_equal(swizzled(moved, mode), addresses)
    assert np.array_equal(moved // 128, addresses // 128)
    assert np.array_equal(moved % 16, addresses % 16)
    period = atom_bytes(mode)
    assert np.array_equal(moved[period:] - period, moved[:-period])
    assert swizzled(1000, mode) == moved[1000]


@pytest.mark.parametrize(("mode", "low", "high"), [(32, 1, 7), (64, 2, 7), (128, 3, 7)])
def test_swizzle_by_address_bits(mode: int, low: int, high: int) -> None:
    """Bits 4 and up take the XOR of as many bits from 7 up."""
    mask = (1 << low) - 1
    for address in range(0, 4096, 16):
        expected = address ^ ((address >> high & mask) << 4)
        assert swizzled(address, mode) == expected


@pytest.mark.parametrize("mode", [32, 64, 128])
def test_columns_of_units_are_free_of_conflicts(mode: int) -> None:
    """32 rows of one 16-byte column, rows as wide as the swizzle."""
    rows = np.arange(32) * mode
    assert wavefronts(swizzled(rows, mode), 16) == Wavefronts(got=4, ideal=4)


def test_columns_without_a_swizzle_collide() -> None:
    assert wavefronts(np.arange(32) * 128, 16) == Wavefronts(got=32, ideal=4)
    assert wavefronts(np.arange(32) * 128, 4) == Wavefronts(got=32, ideal=1)


@pytest.mark.parametrize("mode", [32, 64, 128])
def test_columns_of_words_collide_four_times(mode: int) -> None:
    access = wavefronts(swizzled(np.arange(32) * mode, mode), 4)
    assert access == Wavefronts(got=4, ideal=1)
    assert access.conflicts == 3


def test_rows_are_free_and_shared_words_count_once() -> None:
    assert wavefronts(np.arange(32) * 4, 4) == Wavefronts(got=1, ideal=1)
    assert wavefronts(np.zeros(32, dtype=np.int64), 4) == Wavefronts(got=1, ideal=1)
    assert wavefronts(np.arange(32) * 8, 8) == Wavefronts(got=2, ideal=2)
    assert wavefronts(np.arange(32) * 2, 2) == Wavefronts(got=1, ideal=1)
    assert matrix_wavefronts(np.arange(8) * 144) == Wavefronts(got=1, ideal=1)
    assert matrix_wavefronts(np.arange(8) * 128) == Wavefronts(got=8, ideal=1)


def test_lanes_of_different_phases_do_not_meet() -> None:
    """Eight lanes at 16 bytes, sixteen at 8: each phase collides in banks of its own."""
    lane = np.arange(32)
    by_sixteen = lane % 8 * 128 + lane // 8 * 16
    assert wavefronts(by_sixteen, 16) == Wavefronts(got=32, ideal=4)
    assert wavefronts(lane % 16 * 128 + lane // 16 * 8, 8) == Wavefronts(got=32, ideal=2)
    assert wavefronts(np.zeros(32, dtype=np.int64), 16) == Wavefronts(got=4, ideal=4)


def test_sectors_of_global_accesses() -> None:
    assert sectors(np.arange(32) * 4, 4) == Wavefronts(got=4, ideal=4)
    assert sectors(np.arange(32) * 128, 4) == Wavefronts(got=32, ideal=4)
