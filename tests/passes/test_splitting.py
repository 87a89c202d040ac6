"""Splitting, fusing, lifting and ordering by example."""

from __future__ import annotations

import pytest

from passes.sample_programs import assert_keeps_meaning, product
from teir.ir.nodes import IterationNode, Operation, Program
from teir.ir.parsing import parse_program
from teir.ir.printing import print_program
from teir.passes.facts import Facts
from teir.passes.fuse_axes import fuse_axes
from teir.passes.identify_primitives import identify_primitives
from teir.passes.lift_zero import lift_zero
from teir.passes.order_axes import order_axes
from teir.passes.split_axes import split_axes

FACTS = Facts(vector_bytes=64, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20, threads=1)


def loops(program: Program) -> list[int]:
    extents = {axis.name: axis.extent for axis in program.axes}
    return [extents[node.axis] for node in program.nodes() if isinstance(node, IterationNode)]


def tiles(program: Program, operation: Operation) -> list[list[list[int]]]:
    extents = {axis.name: axis.extent for axis in program.axes}
    return [
        [[extents[name] for name in names] for _, names in primitive.role_axes()]
        for primitive in program.primitives
        if primitive.operation is operation
    ]


@pytest.mark.parametrize(
    ("largest", "smallest", "extents"),
    [(32, 16, [50, 32]), (1024, 16, [20, 80]), (1024, 1, [2, 800]), (32, 1, [5, 10, 32])],
)
def test_1600_rows_split_as_the_document_says(
    largest: int, smallest: int, extents: list[int]
) -> None:
    program = parse_program(product(1600, 1, 1, order="m", finish=False).replace(*UNUSED))
    assert loops(split_axes(program, largest, smallest)) == extents


@pytest.mark.parametrize("axis", ["m", "n", "k"])
@pytest.mark.parametrize("smallest", [1, 2, 3])
def test_loops_over_blocks_are_split_as_far_as_they_divide(axis: str, smallest: int) -> None:
    """And once: what is split as far as it goes stays as it is."""
    extents = {"m": 2, "n": 3, "k": 1} | {axis: 48}
    program = parse_program(product(*extents.values()))
    once = split_axes(program, 4, smallest)
    walked = [extent for extent in loops(once) if extent > 4]
    assert not any(
        extent % part == 0 for extent in walked for part in range(smallest, 5) if part > 1
    )
    assert split_axes(once, 4, smallest) is once or walked
    assert assert_keeps_meaning(lambda known: split_axes(known, 4, smallest), program, 3, 1)


def test_tiles_are_split_into_loops_that_are_split_again() -> None:
    tiled = identify_primitives(parse_program(product(96, 2, 3)))
    after = split_axes(tiled, 4)
    assert max(loops(after)) <= 4
    assert assert_keeps_meaning(lambda known: split_axes(known, 4), tiled, 3, 1)


@pytest.mark.parametrize(("extent", "walked"), [(12, [3, 3]), (11, [3, 2])])
def test_the_inner_sum_of_a_batch_reduction_is_split_inside_the_outer_one(
    extent: int, walked: list[int]
) -> None:
    text = (
        'teir 1 "sum"\ntensor in0: FP32\ntensor in1: FP32\ntensor out: FP32\n'
        "axis m = 4: in0 4, out 4\naxis n = 3: in1 4, out 16\n"
        f"axis b = 3: in0 640, in1 640\naxis k = {extent}: in0 16, in1 12\n"
        "primitive c = Contraction FP32 (in0, in1 -> out; M=[m], N=[n], K=[b, k])\nc: c\n"
    )
    program = parse_program(text)
    after = split_axes(program, 4)
    found = tiles(after, Operation.CONTRACTION)
    assert all(len(k) == 1 and k[0] <= 4 for _, _, _, k in found)
    assert loops(after) == walked
    assert assert_keeps_meaning(lambda known: split_axes(known, 4), program, 4, 1)


UNUSED = ("axis n = 1: in1 4, out 6400\naxis k = 1: in0 6400, in1 4\n", "")


def test_a_prime_extent_splits_into_blocks_and_a_branch() -> None:
    program = parse_program(product(1009, 3, 2, order="mnk"))
    after = split_axes(program, 32, 16)
    assert loops(after) == [31, 32, 3, 2, 17, 3, 2]
    rest = next(axis for axis in after.axes if axis.extent == 17)
    assert rest.offsets["in0"] == rest.offsets["out"] == 31 * 32 * 4


@pytest.mark.parametrize(
    ("extent", "largest", "smallest", "walked"),
    [(34, 32, 16, [18, 16]), (33, 24, 8, [24, 9]), (34, 32, 1, [17, 2]), (33, 32, 20, [32, 1])],
)
def test_branches_are_not_shorter_than_the_minimum_where_that_is_possible(
    extent: int, largest: int, smallest: int, walked: list[int]
) -> None:
    program = parse_program(product(extent, 1, 1, order="m", finish=False).replace(*UNUSED))
    assert loops(split_axes(program, largest, smallest)) == walked
    assert assert_keeps_meaning(lambda known: split_axes(known, largest, smallest), program, 3, 1)


@pytest.mark.parametrize("adjacent", ["k", "m"])
@pytest.mark.parametrize(("extent", "walked"), [(3, [2, 1]), (5, [2, 2, 1])])
def test_short_primes_do_not_collapse(adjacent: str, extent: int, walked: list[int]) -> None:
    extents = {"m": 1, "n": 1, "k": 1} | {adjacent: extent}
    program = parse_program(product(*extents.values(), order=adjacent, finish=False))
    assert loops(split_axes(program, 2)) == walked


def test_blocks_of_one_index_are_made_once() -> None:
    once = split_axes(parse_program(product(5, 3, 2)), 1)
    assert loops(once) == [5, 1, 3, 1, 2, 1]
    assert split_axes(once, 1) is once


def test_a_split_sum_keeps_first_and_last_in_their_branches() -> None:
    program = parse_program(product(3, 2, 11))
    after = split_axes(program, 4)
    leaves = [node.name.split("_")[0] for _, node in after.invocations()]
    assert leaves == ["zero", "product", "product", "relu"]
    assert assert_keeps_meaning(lambda known: split_axes(known, 4), program, 3, 1)


def test_split_tiles_of_primes_keep_large_tiles() -> None:
    program = parse_program(product(1009, 1009, 1009))
    after = identify_primitives(split_axes(program, 128))
    smallest = min(m[0] * n[0] for _, m, n, _ in tiles(after, Operation.CONTRACTION))
    assert max(m[0] for _, m, n, _ in tiles(after, Operation.CONTRACTION)) == 128
    assert smallest > 1


def test_a_minimum_limits_fusion_to_short_axes() -> None:
    text = "\n".join(
        [
            'teir 1 "copy"',
            "tensor in0: FP32",
            "tensor out: FP32",
            "axis x = 64: in0 100, out 100",
            "axis y = 25: in0 4, out 4",
            "primitive copy_scalar = Copy(in0 -> out; M=[], N=[])",
            "sequential x over x",
            "  sequential y over y",
            "    copy: copy_scalar",
            "",
        ]
    )
    program = parse_program(text)
    assert fuse_axes(program, 16) is program
    assert loops(fuse_axes(program, 26)) == [1600]
    guarded = parse_program(text.replace("copy: copy_scalar", "copy: copy_scalar if first(y)"))
    assert fuse_axes(guarded) is guarded


@pytest.mark.parametrize("order", ["mnk", "knm", "nkm"])
def test_a_scalar_product_becomes_one_tile(order: str) -> None:
    program = identify_primitives(parse_program(product(5, 6, 7, order)))
    assert loops(program) == []
    assert tiles(program, Operation.CONTRACTION) == [[[], [5], [6], [7]]]
    assert all(not node.guard for _, node in program.invocations())


def test_split_sums_become_a_batch_reduction() -> None:
    program = identify_primitives(split_axes(parse_program(product(8, 8, 64)), 8))
    assert tiles(program, Operation.CONTRACTION) == [[[], [8], [8], [8, 8]]]


def test_a_transposing_copy_takes_both_adjacent_axes() -> None:
    text = (
        'teir 1 "turn"\ntensor in0: FP32\ntensor out: FP32\n'
        "axis a = 3: in0 80, out 80\naxis b = 4: in0 20, out 4\naxis c = 5: in0 4, out 16\n"
        "primitive copy_scalar = Copy(in0 -> out; M=[], N=[])\n"
        "sequential b over b\n  sequential c over c\n    sequential a over a\n"
        "      copy: copy_scalar\n"
    )
    program = identify_primitives(parse_program(text))
    assert tiles(program, Operation.COPY) == [[[], [5], [4], []]]
    assert loops(program) == [3]


def test_zero_and_relu_leave_the_sum() -> None:
    program = parse_program(product(4, 5, 6))
    after = lift_zero(program)
    last = print_program(after).text.splitlines()[-5:]
    assert [line.strip() for line in last] == [
        "sequential n over n",
        "zero: zero_scalar",
        "sequential k over k",
        "product: product_scalar",
        "relu: relu_scalar",
    ]


def test_tiles_are_visited_along_a_curve() -> None:
    program = identify_primitives(split_axes(parse_program(product(1600, 1600, 1600)), 200, 8))
    assert loops(program) == [10, 8]
    assert loops(order_axes(program, FACTS)) == [2, 2, 4, 5]


def test_sums_go_inside() -> None:
    program = order_axes(parse_program(product(9, 8, 7, "kmn")), FACTS)
    assert loops(program) == [8, 9, 7]


def test_axes_whose_product_no_program_may_have_stay_apart() -> None:
    text = """
teir 1 "x"
tensor out: FP32
axis m = 4294967296
axis k = 4294967296
primitive z = Zero(out; M=[], N=[])
sequential m over m
  sequential k over k
    c: z
"""
    program = parse_program(text)
    assert fuse_axes(program) is program
