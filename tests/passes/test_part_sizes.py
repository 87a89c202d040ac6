"""How many coordinates of every fibre are walked at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from teir.passes.facts import Facts
from teir.passes.part_sizes import FarRows, PartCache, coordinates_of_part, part_cache

FACTS = Facts(vector_bytes=64, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20, threads=1)
ONE = PartCache(l2_bytes=2 << 20, threads=1)
FAR = FarRows(
    row_bytes=512,
    rows=28_800,
    gathers=568_000,
    fibres=9908,
    elements=568_000 * 64,
    formed=0,
    moved_bytes=0,
)


def test_a_part_fills_half_the_second_cache() -> None:
    size = coordinates_of_part(FAR, ONE)
    assert size == 1920
    assert size * FAR.row_bytes <= FACTS.l2_bytes / 2


@pytest.mark.parametrize(
    "far",
    [
        replace(FAR, rows=6000),
        replace(FAR, gathers=15 * FAR.rows),
        replace(FAR, fibres=40_000),
        replace(FAR, moved_bytes=20_000_000),
        replace(FAR, formed=FAR.elements),
    ],
)
def test_parts_that_do_not_pay(far: FarRows) -> None:
    """A near operand, few gathers, short fibres, results that move, much to form for each part."""
    assert coordinates_of_part(far, ONE) is None


def test_nearly_all_of_the_cache_where_much_is_formed_for_each_part() -> None:
    formed = FAR.elements / 8
    assert coordinates_of_part(replace(FAR, formed=formed), ONE) == 3600


@pytest.mark.parametrize(
    ("facts", "size"),
    [
        (FACTS, 2 << 20),
        (replace(FACTS, threads=2), 2 << 20),
        (replace(FACTS, threads=3), None),
        (replace(FACTS, vector_bytes=32), None),
        (replace(FACTS, l2_bytes=1 << 20), None),
        (replace(FACTS, l3_bytes=32 << 20), None),
    ],
)
def test_machines(facts: Facts, size: int | None) -> None:
    found = part_cache(facts)
    assert found == (None if size is None else PartCache(l2_bytes=size, threads=facts.threads))


@pytest.mark.parametrize(("moved_bytes", "has_parts"), [(300_000, True), (5_000_000, False)])
def test_threads_that_share_rows_move_few_results(moved_bytes: int, has_parts: bool) -> None:
    """The sums of rows, not those of fibres."""
    far = replace(FAR, moved_bytes=moved_bytes)
    assert coordinates_of_part(far, ONE) == 1920
    assert (coordinates_of_part(far, replace(ONE, threads=2)) is not None) is has_parts
