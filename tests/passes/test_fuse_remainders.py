"""Remainder branches: fused where they are the rest of an axis, and only there."""

from __future__ import annotations

from textwrap import dedent

import pytest

from passes.sample_programs import assert_keeps_meaning, product
from teir.ir.nodes import IterationNode, Program
from teir.ir.parsing import parse_program
from teir.passes.fuse_remainders import fuse_remainders
from teir.passes.identify_primitives import identify_primitives
from teir.passes.split_axes import split_axes


def extents(program: Program) -> list[int]:
    return sorted(axis.extent for axis in program.axes)


def leaves(program: Program) -> int:
    return sum(1 for _ in program.invocations())


TILED = """
teir 1 "blocks and a rest"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis mb = 3: in0 224, out 192
axis mi = 8: in0 28, out 24
axis mr = 5: in0 28 + 672, out 24 + 576
axis n = 6: in1 28, out 4
axis kb = 2: in0 12, in1 12
axis ki = 3: in0 4, in1 4
axis kr = 1: in0 4 + 24, in1 4 + 24
primitive zero = Zero (out; M=[mi], N=[n])
primitive gemm = Contraction (in0, in1 -> out; M=[mi], N=[n], K=[ki])
primitive gemm_k = Contraction (in0, in1 -> out; M=[mi], N=[n], K=[kr])
primitive zero_m = Zero (out; M=[mr], N=[n])
primitive gemm_m = Contraction (in0, in1 -> out; M=[mr], N=[n], K=[ki])
primitive gemm_mk = Contraction (in0, in1 -> out; M=[mr], N=[n], K=[kr])
parallel m over mb
  sequential k over kb
    zero: zero if first(kb)
    gemm: gemm
  gemm_k: gemm_k
sequential k_1 over kb
  zero_m: zero_m if first(kb)
  gemm_m: gemm_m
gemm_mk: gemm_mk
"""


def test_tiles_with_remainders_of_two_axes_become_one_tile() -> None:
    program = parse_program(dedent(TILED).lstrip())
    after = fuse_remainders(program)
    assert extents(after) == [6, 7, 29]
    assert not any(isinstance(node, IterationNode) for node in after.nodes())
    assert leaves(after) == 2
    assert fuse_remainders(after) is after
    assert assert_keeps_meaning(fuse_remainders, program, 3, 1)


@pytest.mark.parametrize("sizes", [(11, 13, 7), (9, 8, 5), (21, 3, 10)])
@pytest.mark.parametrize("as_tiles", [False, True])
def test_what_split_axes_cut_is_whole_again(sizes: tuple[int, int, int], as_tiles: bool) -> None:
    program = parse_program(product(*sizes))
    if as_tiles:
        program = identify_primitives(program)
    cut = split_axes(program, 4)
    after = fuse_remainders(cut)
    assert leaves(after) < leaves(cut)
    assert assert_keeps_meaning(fuse_remainders, cut, 3, sum(sizes))
    if as_tiles:
        assert leaves(after) == leaves(program)


WRONG = {
    "a gap between the ranges": ("24 + 576", "24 + 600"),
    "another stride": ("in0 28 + 672", "in0 32 + 672"),
    "another operation": ("zero_m = Zero", "zero_m = ReLU"),
}


@pytest.mark.parametrize(("old", "new"), WRONG.values(), ids=WRONG)
def test_other_branches_stay(old: str, new: str) -> None:
    text = dedent(TILED).lstrip().replace(old, new)
    if "ReLU" in new:
        text = text.replace("ReLU (out;", "ReLU (out -> out;")
    assert 5 in extents(fuse_remainders(parse_program(text)))


def test_sums_in_another_order_stay() -> None:
    """Two axes of K: a remainder of the inner one runs after all of the outer one."""
    text = """
    teir 1 "two sums"
    tensor in0: FP32
    tensor out: FP32
    axis a = 4: in0 28
    axis kb = 2: in0 12
    axis ki = 3: in0 4
    axis kr = 1: in0 4 + 24
    primitive gemm = Contraction (in0 -> out; M=[], N=[], K=[ki])
    primitive rest = Contraction (in0 -> out; M=[], N=[], K=[kr])
    sequential k over kb
      sequential a over a
        gemm: gemm
    sequential a_1 over a
      rest: rest
    """
    program = parse_program(dedent(text).lstrip())
    assert fuse_remainders(program) is program
