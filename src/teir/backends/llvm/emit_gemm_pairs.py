"""Steps of a register block two at a time, by products of pairs (see `emit_pairs`).

Where the factors of a column are adjacent and few rows meet each, bringing them takes as long as
the products: four pairs are then brought by one load, turned in their halves and stored at once.
"""

from __future__ import annotations

from teir.backends.llvm.emit_gemm_block import Accumulators, Block
from teir.backends.llvm.emit_gemm_steps import column_of_b, next_step
from teir.backends.llvm.emit_pairs import (
    PAIRS_BROUGHT,
    PairRows,
    add_pair,
    brings_pairs,
    load_adjacent_scale,
    load_pair_factors,
    load_pair_scale,
    load_single_scale,
    store_turned_pairs,
    stored_pair,
)
from teir.backends.llvm.emit_text import FunctionText


def pair_steps(block: Block) -> int:
    """How many steps are taken at once."""
    return 2 * PAIRS_BROUGHT if brings_pairs(block.kernel) else 2


def emit_pairs(
    text: FunctionText,
    block: Block,
    pairs: PairRows,
    place: tuple[str, tuple[str, ...]],
    steps: int,
    sums: Accumulators,
) -> Accumulators:
    """So many steps of k, two in one; the last alone if odd."""
    if steps == 2 * PAIRS_BROUGHT:
        return _emit_brought(text, block, pairs, place, sums)
    return _emit_pair(text, block, pairs, place, steps == 2, sums)


def _emit_brought(
    text: FunctionText,
    block: Block,
    pairs: PairRows,
    place: tuple[str, tuple[str, ...]],
    sums: Accumulators,
) -> Accumulators:
    """As many pairs as are brought at once."""
    a, b = place
    factors = []
    for _ in range(PAIRS_BROUGHT):
        second, _ = next_step(text, block, a, b)
        factors.append(load_pair_factors(text, pairs, a, second))
        a, _ = next_step(text, block, second, b)
    for column in range(block.kernel.columns):
        store_turned_pairs(text, pairs, column, column_of_b(text, block, b, column))
    for number, (factor,) in enumerate(factors):
        scales = (stored_pair(text, pairs, column, number) for column in range(len(sums)))
        sums = [
            [add_pair(text, factor, scale, total, pairs.rows)]
            for scale, (total,) in zip(scales, sums, strict=True)
        ]
    return sums


def _emit_pair(
    text: FunctionText,
    block: Block,
    pairs: PairRows,
    place: tuple[str, tuple[str, ...]],
    is_whole: bool,
    sums: Accumulators,
) -> Accumulators:
    """Two steps of k in one; where it is not whole, a single one."""
    a, b = place
    next_a, next_b = next_step(text, block, a, b)
    factors = load_pair_factors(text, pairs, a, next_a if is_whole else None)
    following = []
    for column, rows in enumerate(sums):
        first = column_of_b(text, block, b, column)
        if not is_whole:
            scale = load_single_scale(text, pairs.slots, column, first, pairs.rows)
        elif block.kernel.b_adjacent:
            scale = load_adjacent_scale(text, pairs.slots, column, first, pairs.rows)
        else:
            second = column_of_b(text, block, next_b, column)
            scale = load_pair_scale(text, pairs.slots, column, first, second, pairs.rows)
        following.append(
            [
                add_pair(text, factor, scale, row, pairs.rows)
                for factor, row in zip(factors, rows, strict=True)
            ]
        )
    return following
