"""One step of a register block along k: a column of A times a row of B."""

from __future__ import annotations

from teir.backends.llvm.emit_gemm_block import (
    WORD_BYTES,
    Accumulators,
    Block,
    without_subnormals,
)
from teir.backends.llvm.emit_gemm_factors import add_product_of_element
from teir.backends.llvm.emit_lanes import load, load_number
from teir.backends.llvm.emit_numbers import (
    round_factor,
    widen,
)
from teir.backends.llvm.emit_parts import add_product_of_parts
from teir.backends.llvm.emit_products import (
    Factor,
    Scale,
    add_product,
    as_factor,
    load_scale,
)
from teir.backends.llvm.emit_text import FunctionText, cache_of_next, prefetch, shift_pointer, splat


def emit_step(
    text: FunctionText, block: Block, a: str, b: tuple[str, ...], sums: Accumulators
) -> Accumulators:
    """The sums after one value of k."""
    kernel = block.kernel
    if kernel.brings:
        prefetch_of_a(text, block, a)
    if kernel.splits_numbers:
        return _step_in_parts(text, block, a, b, sums)
    return add_products(text, block, _load_factors(text, block, a), b, sums)


def _load_factors(text: FunctionText, block: Block, a: str) -> list[Factor]:
    """The vectors of A of one step."""
    in_type = block.kernel.in_type
    factors = []
    for lanes, offset in zip(block.a, block.a_offsets, strict=True):
        stored = load(text, lanes, shift_pointer(text, a, offset))
        numbers = widen(text, in_type, block.isa, stored, lanes.numbers)
        rounded = round_factor(text, in_type, numbers, lanes.numbers)
        factors.append(as_factor(text, block.arithmetic, without_subnormals(text, block, rounded)))
    return factors


def factors_of_steps(text: FunctionText, block: Block, a: str, steps: int) -> list[list[Factor]]:
    """The vectors of A of each of ``steps`` values of k."""
    factors = []
    for _ in range(steps):
        if block.kernel.brings:
            prefetch_of_a(text, block, a)
        factors.append(_load_factors(text, block, a))
        a = shift_pointer(text, a, block.a_k)
    return factors


def add_products(
    text: FunctionText,
    block: Block,
    factors: list[Factor],
    b: tuple[str, ...],
    sums: Accumulators,
) -> Accumulators:
    """The sums after the products of one step's vectors of A."""
    kernel, kind = block.kernel, block.arithmetic
    following = []
    for column, rows in enumerate(sums):
        place = column_of_b(text, block, b, column)
        if block.reads_factors and column % block.columns_per_base == 0:
            following.append(
                [
                    add_product_of_element(text, kind, factor.numbers, place, row)
                    for factor, row in zip(factors, rows, strict=True)
                ]
            )
            continue
        scale = _load_scale(text, block, place, column)
        if kernel.flushes:
            scale = Scale(without_subnormals(text, block, scale.real), None)
        following.append(
            [
                without_subnormals(text, block, add_product(text, kind, factor, scale, row))
                for factor, row in zip(factors, rows, strict=True)
            ]
        )
    return following


def _step_in_parts(
    text: FunctionText, block: Block, a: str, b: tuple[str, ...], sums: Accumulators
) -> Accumulators:
    kind = block.arithmetic
    factors = [
        load(text, lanes, shift_pointer(text, a, offset))
        for lanes, offset in zip(block.a, block.a_offsets, strict=True)
    ]
    following = []
    for column, held in enumerate(sums):
        scale = load_scale(text, kind, column_of_b(text, block, b, column))
        following.append(add_product_of_parts(text, kind, factors, scale, held))
    return following


def _load_scale(text: FunctionText, block: Block, place: str, column: int) -> Scale:
    """The element of B at ``place`` in every lane."""
    if block.words is None:
        return load_scale(text, block.arithmetic, place)
    data_type = block.kernel.in_type
    stored = load_number(text, data_type, place, 0)
    number = round_factor(text, data_type, widen(text, data_type, block.isa, stored, 1), 1)
    slot = shift_pointer(text, block.words, WORD_BYTES * column)
    text.effect(f"store volatile <1 x float> {number}, ptr {slot}, align {WORD_BYTES}")
    single = text.value(f"load float, ptr {slot}, align {WORD_BYTES}")
    return Scale(splat(text, "float", single, block.arithmetic.count), None)


def next_step(
    text: FunctionText, block: Block, a: str, b: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """Where A and B lie at the next value of k."""
    following = shift_pointer(text, a, block.a_k)
    return following, tuple(shift_pointer(text, base, block.b_k) for base in b)


def prefetch_of_a(text: FunctionText, block: Block, a: str) -> None:
    """Ask for the rows of this step in the next tile, also by the last one.

    Rows seldom begin with a line: the one they end in is asked for by no vector's first row.
    """
    kernel = block.kernel
    ahead = shift_pointer(text, a, block.arguments.read(text, "a_ahead"))
    last_row = (kernel.vectors * kernel.lanes - 1) * kernel.in_type.width
    for offset in (*block.a_offsets, last_row):
        prefetch(text, shift_pointer(text, ahead, offset), cache_of_next(block.isa))


def column_of_b(text: FunctionText, block: Block, b: tuple[str, ...], column: int) -> str:
    """Where the factor of a column is."""
    base, distance = divmod(column, block.columns_per_base)
    if distance == 0:
        return b[base]
    scale = distance & -distance
    multiple = block.b_multiples[distance // scale]
    if scale > 1:
        multiple = text.value(f"shl i64 {multiple}, {scale.bit_length() - 1}")
    return shift_pointer(text, b[base], multiple)
