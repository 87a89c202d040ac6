"""Tiles of short sums: who carries the lanes, which blocks one call forms, what is loaded ahead."""

from __future__ import annotations

import numpy as np
import pytest

import teir
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.explanation import count_calls
from teir.lower.kernels import GemmBlock, PanelBlock
from teir.lower.lower import lower
from teir.target import Isa

PLAIN = (22, 20, 2)
"""Rows, columns and products; rows end six lanes behind a vector."""


def tile(size: tuple[int, int, int], adds: bool, apart: int = 0) -> Program:
    """out[n, m] (+)= sum over k of in0[k, m] in1[n, k] in FP64; ``apart``: between columns."""
    m, n, k = size
    zero = "" if adds else "do_zero: zero\n"
    return parse_program(f"""teir 1 "tile"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
axis m = {m}: in0 8, out 8
axis n = {n}: in1 {8 * k}, out {8 * (m + apart)}
axis k = {k}: in0 {8 * m}, in1 8
primitive zero = Zero(out; M=[m], N=[n])
primitive product = Contraction(in0, in1 -> out; M=[m], N=[n], K=[k])
{zero}do_product: product
""")


def blocks(program: Program, isa: Isa = Isa.AVX512) -> list[GemmBlock]:
    kernels = count_calls(lower(program, isa).roots)
    return [one for one in kernels if isinstance(one, GemmBlock)]


def assert_means_it(program: Program, apart: int = 0) -> None:
    """Native code gives the evaluator's bits, and leaves alone what lies between columns."""
    m, n, k = (axis.extent for axis in program.axes)
    draw = np.random.default_rng(5)
    sizes = {"in0": k * m, "in1": n * k, "out": (n - 1) * (m + apart) + m}
    start = {name: draw.integers(-3, 4, size).astype(np.float64) for name, size in sizes.items()}
    expected, found = ({name: one.copy() for name, one in start.items()} for _ in range(2))
    evaluate(program, expected)
    for form in (teir.Form.TABLE, teir.Form.SPECIALISED):
        found["out"][...] = start["out"]
        executable = teir.compile(program, threads=1)
        (executable if form is teir.Form.TABLE else executable.specialised()).run(found)
        np.testing.assert_array_equal(found["out"], expected["out"])


@pytest.mark.parametrize(
    ("size", "adds", "apart", "ahead"),
    [
        (PLAIN, True, 0, True),
        (PLAIN, True, 1, True),
        (PLAIN, True, 8, False),
        (PLAIN, False, 0, False),
        ((24, 20, 2), True, 0, False),
    ],
    ids=["dense", "a little apart", "apart", "from zero", "whole vectors"],
)
def test_results_are_loaded_ahead_where_a_mask_would_hold_them_up(
    size: tuple[int, int, int], adds: bool, apart: int, ahead: bool
) -> None:
    program = tile(size, adds, apart)
    assert any(one.loads_ahead for one in blocks(program)) == ahead
    assert_means_it(program, apart)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33])
@pytest.mark.parametrize("products", [1, 3, 6, 40])
def test_sums_start_from_what_is_there(rows: int, products: int) -> None:
    assert_means_it(tile((rows, 41, products), adds=True))


@pytest.mark.parametrize("rows", [3, 4, 8])
def test_adjacent_results_carry_the_lanes_of_single_products(rows: int) -> None:
    found = blocks(tile((rows, 64, 1), adds=True))
    assert found
    assert all(one.vectors == 1 and one.depth == 1 for one in found)
    assert_means_it(tile((rows, 64, 1), adds=True))


@pytest.mark.parametrize(("products", "is_one"), [(16, True), (128, True), (129, False)])
def test_one_call_forms_all_columns_of_short_sums(products: int, is_one: bool) -> None:
    assert any(one.repeats for one in blocks(tile((32, 40, products), adds=True))) == is_one


@pytest.mark.parametrize(
    ("size", "adds", "isa", "is_block"),
    [
        ((36, 40, 3), True, Isa.AVX512, True),
        ((36, 40, 3), False, Isa.AVX512, True),
        ((36, 40, 2), False, Isa.AVX512, False),
        ((36, 40, 7), True, Isa.AVX512, False),
        ((28, 40, 3), True, Isa.AVX512, False),
        ((38, 40, 3), True, Isa.AVX2, False),
    ],
    ids=["short", "from zero", "written alone", "longer", "few rows", "no masks"],
)
def test_short_sums_of_many_rows_are_made_in_register_blocks(
    size: tuple[int, int, int], adds: bool, isa: Isa, is_block: bool
) -> None:
    program = tile(size, adds)
    assert bool(blocks(program, isa)) == is_block
    kernels = count_calls(lower(program, isa).roots)
    assert any(isinstance(one, PanelBlock) for one in kernels) != is_block
    assert_means_it(program)
