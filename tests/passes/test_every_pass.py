"""Every pass keeps the meaning of every case and of random programs, and changes some of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from passes.sample_programs import (
    Pass,
    assert_keeps_meaning,
    case_programs,
    drawn_programs,
    product_in_layout,
)
from teir.ir.check import check
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.passes.block_caches import block_caches
from teir.passes.draft import Draft
from teir.passes.drop_trivial_axes import drop_trivial_axes
from teir.passes.facts import Facts
from teir.passes.fuse_axes import fuse_axes
from teir.passes.fuse_remainders import fuse_remainders
from teir.passes.groups import work_of
from teir.passes.identify_primitives import identify_primitives
from teir.passes.lift_zero import lift_zero
from teir.passes.optimise import optimise
from teir.passes.order_axes import order_axes
from teir.passes.pack_operands import pack_operands
from teir.passes.parallelise import parallelise
from teir.passes.promote_batch import promote_batch
from teir.passes.split_axes import split_axes
from teir.soak.draws import choose, seeded

TINY = Facts(
    vector_bytes=16,
    l1_bytes=64,
    l2_bytes=128,
    l3_bytes=256,
    threads=2,
    threaded_work=16,
    reduction_block=8,
)
SMALL = replace(TINY, l2_bytes=4096, l3_bytes=1 << 16, reduction_block=3)
SHORT = replace(SMALL, max_kernel_size=4, min_kernel_size=2)
"""Machines so small that random programs need every cache and thread of them."""
LARGEST_CASE = 2_500
"""Elements and multiply-adds: the evaluator takes its time."""

PASSES: dict[str, Pass] = {
    "drop trivial axes": drop_trivial_axes,
    "fuse axes": fuse_axes,
    "split axes, exact and not": partial(split_axes, max_kernel_size=4),
    "split axes, both parts long": partial(split_axes, max_kernel_size=7, min_kernel_size=2),
    "identify primitives": identify_primitives,
    "lift zero": lift_zero,
    "order axes": partial(order_axes, facts=TINY),
    "order after splitting": lambda program: order_axes(split_axes(program, 2), TINY),
    "promote batch": lambda program: promote_batch(identify_primitives(program)),
    "parallelise": partial(parallelise, facts=TINY),
    "parallelise tiles": lambda program: parallelise(identify_primitives(program), TINY),
    "block caches": partial(block_caches, facts=TINY),
    "block tiles": lambda program: block_caches(identify_primitives(program), TINY),
    "pack operands": lambda program: pack_operands(
        block_caches(identify_primitives(program), SMALL), SMALL
    ),
    "all passes": lambda program: optimise(program, SMALL)[-1][1],
    "all passes, short kernels": lambda program: optimise(program, SHORT)[-1][1],
    "fuse remainders": lambda program: fuse_remainders(split_axes(program, 4)),
    "fuse remainders of tiles": lambda program: fuse_remainders(
        split_axes(identify_primitives(program), 3)
    ),
    "identify after splitting": lambda program: identify_primitives(split_axes(program, 4)),
}


@pytest.mark.parametrize("name", PASSES)
def test_random_programs(name: str) -> None:
    assert drawn_programs(PASSES[name], range(60)) > 3


@pytest.mark.parametrize("name", PASSES)
def test_cases(name: str) -> None:
    for number, program in enumerate(case_programs()):
        if work_of(Draft(program), program.roots) <= LARGEST_CASE:
            assert_keeps_meaning(PASSES[name], program, 4, number)
        else:
            assert check(PASSES[name](program)).ok


def test_packing_of_products() -> None:
    packed = []
    facts = replace(SMALL, l2_bytes=256, packed_elements=2, packed_readers=2, far_bytes=2)

    def apply(program: Program) -> Program:
        after = pack_operands(block_caches(identify_primitives(program), facts), facts)
        packed.append({item.output for item in after.primitives if "_packed" in item.output})
        return after

    for seed in range(22):
        draw = seeded(seed)
        extents = [draw(3, 22) for _ in range(3)]
        adjacent = choose(draw, "mk") + choose(draw, "nk") + choose(draw, "mn")
        program = parse_program(product_in_layout(*extents, adjacent))
        assert_keeps_meaning(apply, program, 3, seed)
    assert sum(bool(names) for names in packed) > 6
    assert any(len(names) > 1 for names in packed)
