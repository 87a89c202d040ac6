"""Threads, caches, batches and packing by example."""

from __future__ import annotations

from dataclasses import replace

import pytest

from passes.sample_programs import assert_keeps_meaning, product
from teir.ir.check import check
from teir.ir.nodes import IterationNode, Operation, Policy, Program
from teir.ir.parsing import parse_program
from teir.passes.block_caches import block_caches
from teir.passes.facts import Facts
from teir.passes.identify_primitives import identify_primitives
from teir.passes.pack_operands import pack_operands
from teir.passes.parallelise import parallelise, shared_block
from teir.passes.promote_batch import promote_batch

ONE = Facts(vector_bytes=64, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20, threads=1)
FOUR = replace(ONE, threads=4)


def tile(m: int, n: int, k: int, data_type: str = "FP32") -> Program:
    return identify_primitives(parse_program(product(m, n, k, data_type=data_type)))


def parallel_extents(program: Program) -> list[int]:
    extents = {axis.name: axis.extent for axis in program.axes}
    return [
        extents[node.axis]
        for node in program.nodes()
        if isinstance(node, IterationNode) and node.policy is Policy.PARALLEL
    ]


def test_one_thread_changes_nothing() -> None:
    program = tile(800, 800, 800)
    assert parallelise(program, ONE) is program


def test_a_square_product_becomes_a_square_grid() -> None:
    program = parallelise(tile(1600, 1600, 1600), FOUR)
    along, across = parallel_extents(program)
    assert along % 2 == across % 2 == 0
    assert check(program).ok


def test_little_work_stays_on_one_thread() -> None:
    program = tile(16, 16, 16)
    assert parallelise(program, FOUR) is program


def test_a_long_sum_is_shared_by_slices() -> None:
    program = parallelise(tile(4, 5, 100_001), FOUR)
    assert parallel_extents(program) == [4]
    (slices,) = program.scratch
    added = [item for item in program.primitives if item.inputs == (slices.name,)]
    assert [item.operation for item in added] == [Operation.CONTRACTION]
    assert check(program).ok
    small = replace(FOUR, threaded_work=1)
    assert_keeps_meaning(lambda known: parallelise(known, small), tile(2, 3, 2050), 3, 1)


def test_what_cannot_be_cut_stays_the_same_object() -> None:
    program = tile(1, 2, 3)
    assert parallelise(program, replace(ONE, threads=7, threaded_work=1)) is program
    text = (
        'teir 1 "turn"\ntensor in0: FP32\ntensor out: FP32\n'
        "axis a = 4: in0 4, out 16\naxis b = 4: in0 16, out 4\n"
        "primitive c = Copy(in0 -> out; M=[a, b], N=[])\nc: c\n"
    )
    copy = parse_program(text)
    assert block_caches(copy, replace(ONE, l1_bytes=64)) is copy


@pytest.mark.parametrize(
    ("extent", "threads", "granule", "block"),
    [(1600, 2, 16, 400), (1009, 2, 1, 126), (7, 4, 16, 1), (24, 2, 12, 12)],
)
def test_every_thread_gets_the_same(extent: int, threads: int, granule: int, block: int) -> None:
    assert shared_block(extent, threads, granule) == block


def test_small_products_stay_whole() -> None:
    program = tile(64, 64, 64)
    assert block_caches(program, ONE) is program
    assert pack_operands(program, ONE) is program


def test_sums_into_narrow_outputs_stay_whole() -> None:
    text = product(64, 64, 4096, finish=False).replace("tensor out: FP32", "tensor out: BF16")
    text = text.replace("tensor in0: FP32", "tensor in0: BF16").replace("in1: FP32", "in1: BF16")
    text = text.replace(" FP32 (", " BF16 (")
    for wide, narrow in (("in0 256", "in0 128"), ("in1 16384", "in1 8192"), ("out 256", "out 128")):
        text = text.replace(wide, narrow)
    text = text.replace("in0 4", "in0 2").replace("in1 4", "in1 2").replace("out 4", "out 2")
    program = block_caches(identify_primitives(parse_program(text)), ONE)
    sums = [axis.extent for axis in program.axes if "out" not in axis.strides]
    assert sums == [4096]


@pytest.mark.parametrize("data_type", ["FP32", "FP64"])
def test_rows_that_lie_far_apart_are_packed_once(data_type: str) -> None:
    program = pack_operands(block_caches(tile(1600, 1601, 1600, data_type), ONE), ONE)
    copies = [item for item in program.primitives if item.operation is Operation.COPY]
    assert {item.inputs for item in copies} == {("in0",)}
    row_blocks = {item.m for item in copies}
    assert len(row_blocks) == len(copies)
    assert check(program).ok


def test_a_batch_of_small_products_becomes_one() -> None:
    text = (
        'teir 1 "batch"\ntensor in0: FP32\ntensor in1: FP32\ntensor out: FP32\n'
        "axis b = 50: in0 64, in1 64, out 64\naxis m = 4: in0 4, out 4\n"
        "axis n = 4: in1 16, out 16\naxis k = 4: in0 16, in1 4\n"
        "primitive zero = Zero(out; M=[m], N=[n])\n"
        "primitive gemm = Contraction(in0, in1 -> out; M=[m], N=[n], K=[k])\n"
        "sequential b over b\n  z: zero\n  g: gemm\n"
    )
    program = parse_program(text)
    after = promote_batch(program)
    gemm = next(item for item in after.primitives if item.operation is Operation.CONTRACTION)
    assert gemm.c == ("b",)
    assert not any(isinstance(node, IterationNode) for node in after.nodes())
    assert assert_keeps_meaning(promote_batch, program, 3, 1)
    large = parse_program(text.replace("axis k = 4", "axis k = 4000"))
    assert promote_batch(large) is large


MET = """teir 1 "elements met twice"
tensor out: FP32
axis b = 3
axis i = 1024: out {i}
axis j = 1024: out {j}
primitive touch = {primitive}
{nodes}
"""


@pytest.mark.parametrize("nodes", ["do: touch", "sequential n over b\n  do: touch"])
@pytest.mark.parametrize(
    "primitive", ["Zero(out; M=[i], N=[j])", "ReLU(out -> out; M=[i], N=[j])"], ids=["zero", "relu"]
)
@pytest.mark.parametrize(
    ("i", "j", "is_shared"), [(4, 4, False), (4, 4092, False), (4, 4096, True)]
)
def test_leaves_are_shared_where_no_element_is_met_twice(
    nodes: str, primitive: str, i: int, j: int, is_shared: bool
) -> None:
    program = parse_program(MET.format(primitive=primitive, nodes=nodes, i=i, j=j))
    assert check(program).ok
    after = parallelise(program, FOUR)
    assert check(after).ok
    assert bool(parallel_extents(after)) == is_shared


def test_a_leaf_behind_slices_is_shared() -> None:
    text = product(4, 5, 100_001) + "copied: copy\n"
    tail = (
        "axis all = 1048576: out 0, far 4, near 4\n"
        "primitive copy = Copy(near -> far; M=[all], N=[])\n"
    )
    lines = text.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith("axis"))
    lines[at:at] = ["tensor near: FP32\n", "tensor far: FP32\n"]
    at = next(n for n, line in enumerate(lines) if line.startswith("primitive"))
    program = identify_primitives(parse_program("".join(lines[:at]) + tail + "".join(lines[at:])))
    after = parallelise(program, FOUR)
    assert check(after).ok
    assert after.scratch
    assert len(parallel_extents(after)) == 2
