"""What each cache fetches: tensors that stay, results that are written only, or past the caches."""

from __future__ import annotations

import pytest

from teir.ir.load import loads
from teir.ir.nodes import Program
from teir.search.traffic import Leaf, fetched_bytes, footprint, leaves_of, memory_bytes

M, N, K = 64, 4096, 32
OUT, A, B = 4 * M * N, 4 * M * K, 4 * N * K
LINE = 64


def product(first: str = "", hints: str = "") -> Program:
    """out[n, m] += in0[k, m] in1[n, k], a loop over blocks of n around the tile."""
    zero = "primitive zero = Zero(out; M=[m], N=[n_1])\n" if first else ""
    return loads(
        f"""teir 1 "product"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis n = {N // 64}: in1 {4 * K * 64}, out {4 * M * 64}
axis n_1 = 64: in1 {4 * K}, out {4 * M}
axis m = {M}: in0 4, out 4
axis k = {K}: in0 {4 * M}, in1 4
{zero}primitive gemm = Contraction FP32 (in0, in1 -> out; M=[m], N=[n_1], K=[k]){hints}
sequential loop over n
{first}  g: gemm
"""
    )


def only(program: Program) -> Leaf:
    (leaf,) = leaves_of(program)
    return leaf


def test_all_tensors_count_once() -> None:
    assert footprint([only(product())]) == OUT + A + B


def test_what_a_cache_holds_is_there_from_the_call_before() -> None:
    leaf, total = only(product()), OUT + A + B
    assert fetched_bytes(leaf, 2 * total, total) == 0
    assert memory_bytes(leaf, 2 * total, total) == 0


def test_an_operand_that_stays_is_fetched_once() -> None:
    leaf, total = only(product()), OUT + A + B
    assert fetched_bytes(leaf, 64 << 10, total) == 2 * OUT + A + B


def test_a_zero_before_it_is_left_to_the_kernel() -> None:
    leaf, total = only(product("  z: zero\n")), OUT + A + B
    assert leaf.primitive.name == "gemm"
    assert not leaf.reads_output
    assert fetched_bytes(leaf, 64 << 10, total) == OUT + A + B


def test_a_zero_outside_the_loop_is_a_pass_of_its_own() -> None:
    text = f"""teir 1 "twice"
tensor in0: FP32
tensor out: FP32
axis r = 8: in0 {4 * M}
axis m = {M}: in0 4, out 4
primitive zero = Zero(out; M=[m], N=[])
primitive copy = Copy(in0 -> out; M=[m], N=[])
sequential loop over r
  z: zero
sequential again over r
  c: copy
"""
    assert [leaf.primitive.name for leaf in leaves_of(loads(text))] == ["zero", "copy"]


@pytest.mark.parametrize("first", ["", "  z: zero\n"], ids=["added", "made"])
def test_lines_that_are_written_come_from_memory_before(first: str) -> None:
    leaf, total = only(product(first)), OUT + A + B
    assert memory_bytes(leaf, 64 << 10, total) == 2 * OUT + A + B


def test_what_goes_past_the_caches_is_written_once() -> None:
    leaf = only(product("  z: zero\n", ' with {"stream": true}'))
    total = OUT + A + B
    assert fetched_bytes(leaf, 64 << 10, total) == A + B
    assert memory_bytes(leaf, 64 << 10, total) == OUT + A + B
    assert memory_bytes(leaf, 2 * total, total) == OUT


def test_scratch_that_fits_stays() -> None:
    text = f"""teir 1 "packed"
tensor in0: FP32
tensor out: FP32
scratch packed: FP32
axis n = {N}: in0 {4 * M}, out {4 * M}
axis m = {M}: in0 4, out 4, packed 4
primitive copy = Copy(in0 -> packed; M=[m], N=[])
primitive back = Copy(packed -> out; M=[m], N=[])
sequential loop over n
  scratch packed: FP32
  c: copy
  b: back
"""
    text = text.replace("scratch packed: FP32\naxis", "axis", 1)
    copy, back = leaves_of(loads(text))
    total = footprint([copy, back])
    assert total == pytest.approx(2 * OUT, rel=0.01)
    assert fetched_bytes(copy, 32 << 10, total) == OUT
    assert fetched_bytes(back, 32 << 10, total) == OUT
    assert fetched_bytes(back, LINE, total) > OUT
