"""Register blocks whose rows stay in the first cache while the columns pass."""

from __future__ import annotations

import pytest

from teir.dtypes import DataType
from teir.lower.blocking import BlockedTile, choose_blocking
from teir.lower.panel_lines import PanelWalk
from teir.target import Isa


def _heights(side: int, step_bytes: int, isa: Isa = Isa.AMX) -> list[int]:
    kind = DataType.FP64
    tile = BlockedTile(
        rows=side, columns=side, depth=side, in_type=kind, out_type=kind, a_step_bytes=step_bytes
    )
    return [cut.size for cut in choose_blocking(tile, isa).rows]


def test_rows_that_fill_their_sets_are_met_in_lower_panels() -> None:
    """120 steps of 960 bytes: 6 lines of each take 11 of 12 ways, 4 take 8."""
    assert _heights(120, 0) == [5]
    assert _heights(120, 960) == [3]


def test_rows_that_stay_are_met_in_high_panels() -> None:
    assert _heights(80, 640) == _heights(80, 0) == [5]


def test_no_other_processor_counts_ways() -> None:
    assert _heights(120, 960, Isa.AVX512) == _heights(120, 0, Isa.AVX512)


@pytest.mark.parametrize(("step_bytes", "again"), [(1024, True), (1088, False)])
def test_steps_in_few_sets_bring_a_panel_again(step_bytes: int, again: bool) -> None:
    """96 steps 16 lines apart meet in a quarter of the sets; 17 lines apart in all of them."""
    walk = PanelWalk(96, step_bytes, 8)
    more = walk.cost([(3, 1)], [(4, 12)]) - 2 * walk.cost([(3, 1)], [(4, 6)])
    assert (more > 0) is again


def test_rows_without_gaps_share_no_lines() -> None:
    """Packed panels: no vector crosses into a line of another step."""
    packed, apart = (PanelWalk(96, step, 8).cost([(4, 1)], [(6, 20)]) for step in (256, 768))
    assert packed < apart
