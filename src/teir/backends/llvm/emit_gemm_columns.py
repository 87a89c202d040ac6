"""Several steps of a block one vector high, a few columns of B after the others.

A block one vector high reads an element of B for every multiply-add. Reached by base and index, as
the columns of `emit_gemm_steps` are, it costs an Intel processor one micro-operation more, and the
blocks a third of their speed. Here the elements of a column are adjacent (``b_adjacent``), so every
column has a pointer of its own for as long as it is formed, and steps are constant distances:

    vectors of A of four steps
    columns 0 1: step 0, step 1, step 2, step 3; both pointers on by two columns
    columns 2 3: step 0, ...

An output element's chain takes the steps in order, as in any other block.
"""

from __future__ import annotations

from teir.backends.llvm.emit_gemm_block import Accumulators, Block
from teir.backends.llvm.emit_opaque import opaque
from teir.backends.llvm.emit_products import Factor, add_product, load_scale
from teir.backends.llvm.emit_text import FunctionText, shift_pointer
from teir.dtypes import DataType
from teir.lower.kernels import GemmBlock

STEPS_OF_COLUMNS = 4
"""More would hide the steps between columns no better, and take registers from the columns."""
_COLUMNS_AT_ONCE = 2
"""Chains of as many steps as are done at once would leave the multiply-adds of one column waiting;
every column more takes a register of addresses."""


def walks_columns(kernel: GemmBlock) -> bool:
    """True for blocks whose columns of B are reached one after the other."""
    is_plain = kernel.in_type in (DataType.FP32, DataType.FP64)
    return is_plain and kernel.b_adjacent and kernel.vectors == 1


def emit_column_steps(
    text: FunctionText, block: Block, steps: list[list[Factor]], b: str, sums: Accumulators
) -> Accumulators:
    """The sums after as many values of k, from ``b`` on, as there are ``steps`` of A."""
    factors = [one for (one,) in steps]
    b_n = block.b_multiples[1]
    places = [b]
    for _ in range(1, min(_COLUMNS_AT_ONCE, len(sums))):
        places.append(opaque(text, "ptr", shift_pointer(text, places[-1], b_n)))
    distance = opaque(text, "i64", text.value(f"mul i64 {b_n}, {len(places)}"))
    following: Accumulators = []
    for first in range(0, len(sums), len(places)):
        if first:
            moved = [shift_pointer(text, place, distance) for place in places]
            places = [opaque(text, "ptr", place) for place in moved]
        chosen = [row for (row,) in sums[first : first + len(places)]]
        following += [[row] for row in _add_steps(text, block, factors, places, chosen)]
    return following


def _add_steps(
    text: FunctionText, block: Block, factors: list[Factor], places: list[str], sums: list[str]
) -> list[str]:
    """The sums of the columns at ``places`` after all steps; the last places may have none."""
    width, kind = block.kernel.in_type.width, block.arithmetic
    for step, factor in enumerate(factors):
        scales = [
            load_scale(text, kind, shift_pointer(text, place, step * width))
            for place in places[: len(sums)]
        ]
        sums = [
            add_product(text, kind, factor, scale, row)
            for scale, row in zip(scales, sums, strict=True)
        ]
    return sums
