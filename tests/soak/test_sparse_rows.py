"""Products by rows: right, and what they are drawn for is reached."""

from __future__ import annotations

from typing import Any, get_args

import pytest

import teir
from teir.ir.nodes import Program
from teir.lower.calls import kernels_of
from teir.lower.kernels import Kernel
from teir.lower.lower import lower
from teir.lower.walked_kernels import FibreParts, WalkedKernel
from teir.soak.sparse_products import ROWS_EVERY, compare_product, pair_count
from teir.soak.sparse_rows import draw_rows
from teir.target import Isa

FIRST = pair_count()


@pytest.mark.parametrize("number", range(FIRST, FIRST + 40 * ROWS_EVERY, ROWS_EVERY))
def test_products_by_rows(number: int) -> None:
    assert compare_product(number)["wrong"] == []


def test_one_pass_and_every_walk_are_reached() -> None:
    """But parts of fibres: only what a cache does not hold is walked in them."""
    reached: set[type[Kernel]] = set()
    texts = set()
    for number in range(FIRST, FIRST + 120 * ROWS_EVERY, ROWS_EVERY):
        drawn = draw_rows(number)
        plan: Any = teir.plan(str(drawn.assignment), *drawn.given, out_levels=drawn.out_levels)
        programs: tuple[Program, ...] = plan.programs
        for program in programs:
            reached |= {type(one) for one in kernels_of(lower(program, Isa.AVX512).roots)}
        if plan.is_at_once:
            texts.add(str(drawn.assignment))
    assert reached >= set(get_args(WalkedKernel)) - {FibreParts}
    assert len(texts) == 9


def test_a_number_is_one_product() -> None:
    assert draw_rows(15).text == draw_rows(15).text
    assert draw_rows(15).text != draw_rows(20).text
