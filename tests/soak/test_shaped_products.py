"""Programs of shapes that kernels of their own serve: accepted, varied, right as native code."""

from __future__ import annotations

from functools import cache
from typing import get_args

import pytest

from teir.ir.check import check
from teir.ir.parsing import parse_program
from teir.ir.printing import print_program
from teir.lower.calls import kernels_of
from teir.lower.kernels import DotRows, Kernel, LaneBlock, PanelBlock
from teir.lower.lower import lower
from teir.lower.tile_kernels import TileProduct
from teir.lower.walked_kernels import WalkedKernel
from teir.soak.differential import SHAPED_EVERY, WORK, compare_one
from teir.soak.draws import seeded
from teir.soak.parts import DrawnProgram
from teir.soak.shaped_products import draw_shaped
from teir.soak.translation import translate_one
from teir.target import Isa

SEEDS = range(450)


@cache
def drawn() -> tuple[DrawnProgram, ...]:
    return tuple(draw_shaped(seeded(seed), WORK) for seed in SEEDS)


def test_programs_are_accepted_and_print() -> None:
    for one in drawn()[::5]:
        assert check(one.program).ok
        assert parse_program(print_program(one.program).text) == one.program


def test_every_kernel_of_dense_programs_is_drawn() -> None:
    """A new kernel needs a shape that it serves."""
    reached: set[Kernel] = set()
    for one in drawn():
        for isa in (Isa.AVX512_ZEN5, Isa.AMX, Isa.AVX2):
            reached |= kernels_of(lower(one.program, isa).roots)
    dense = {kind for kind in get_args(Kernel) if kind not in get_args(WalkedKernel)}
    assert {type(one) for one in reached} == dense
    assert {one.one_loop for one in reached if isinstance(one, LaneBlock)} == {True, False}
    assert {one.keeps_rows for one in reached if isinstance(one, TileProduct)} == {True, False}
    assert {one.columns for one in reached if isinstance(one, DotRows)} == {1, 2}
    panels = [one for one in reached if isinstance(one, PanelBlock)]
    for flag in ("streams", "brings", "brings_b", "claims", "staggers"):
        assert {getattr(one, flag) for one in panels} == {True, False}, flag


@pytest.mark.parametrize("seed", range(SHAPED_EVERY - 1, 25 * SHAPED_EVERY, SHAPED_EVERY))
def test_native_code_is_the_evaluator(seed: int) -> None:
    assert compare_one(seed)["wrong"] == []


def test_passes_keep_the_meaning() -> None:
    assert [translate_one(seed)["wrong"] for seed in (7, 14, 28, 35, 49, 56)] == [[]] * 6
