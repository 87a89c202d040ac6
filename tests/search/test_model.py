"""The model: bounds no program beats, and the order it puts programs in."""

from __future__ import annotations

from dataclasses import replace as as_changed

import pytest
from msgspec.structs import replace

from search.planned import USUAL, planned
from teir.dtypes import DataType
from teir.ir.load import loads
from teir.ir.nodes import Program
from teir.ir.printing import print_program
from teir.lower.work import program_work
from teir.search.machine import Speeds, assumed_speeds
from teir.search.model import predict

SPEEDS = Speeds(
    fp32_flops_per_second=100e9,
    fp64_flops_per_second=50e9,
    l2_bytes_per_second=100e9,
    l3_bytes_per_second=80e9,
    memory_bytes_per_second=20e9,
    l3_bytes=32 << 20,
)


def product(m: int, n: int, k: int, data_type: str = "FP32", unit: str = "m") -> Program:
    """out[n, m] += in0[k, m] in1[n, k], or with ``unit`` k, in0[m, k]."""
    width = DataType[data_type].width
    a_m, a_k = (width, width * m) if unit == "m" else (width * k, width)
    return loads(
        f"""teir 1 "product"
tensor in0: {data_type}
tensor in1: {data_type}
tensor out: {data_type}
axis m = {m}: in0 {a_m}, out {width}
axis n = {n}: in1 {width * k}, out {width * m}
axis k = {k}: in0 {a_k}, in1 {width}
primitive gemm = Contraction {data_type} (in0, in1 -> out; M=[m], N=[n], K=[k])
g: gemm
"""
    )


def copy(rows: int, columns: int, turned: bool) -> Program:
    """out = in0, or its transpose."""
    strides = (4 * rows, 4) if turned else (4, 4 * columns)
    return loads(
        f"""teir 1 "copy"
tensor in0: FP32
tensor out: FP32
axis m = {columns}: in0 {strides[0]}, out 4
axis n = {rows}: in0 {strides[1]}, out {4 * columns}
primitive copy = Copy(in0 -> out; M=[m], N=[n])
c: copy
"""
    )


@pytest.mark.parametrize("shape", [(16, 16, 16), (64, 48, 256), (1000, 7, 3), (5, 5, 5)])
@pytest.mark.parametrize("data_type", ["FP32", "FP64"])
def test_no_product_beats_the_peak(shape: tuple[int, int, int], data_type: str) -> None:
    program = product(*shape, data_type=data_type)
    expected = predict(program, USUAL, SPEEDS)
    peak = SPEEDS.flops_per_second(DataType[data_type])
    assert expected.arithmetic_seconds >= program_work(program).flops / peak * 0.999
    assert expected.seconds >= expected.arithmetic_seconds


def test_a_large_product_is_bound_by_arithmetic_and_near_its_peak() -> None:
    program = product(1024, 1024, 1024)
    expected = predict(program, USUAL, SPEEDS)
    assert expected.bound_by == "arithmetic"
    assert expected.seconds < 1.5 * program_work(program).flops / SPEEDS.fp32_flops_per_second


def test_a_large_copy_is_bound_by_memory() -> None:
    size = 4 * 4096 * 4096
    expected = predict(copy(4096, 4096, turned=False), USUAL, SPEEDS)
    assert expected.bound_by == "memory"
    assert 3 * size <= expected.memory_bytes <= 3.3 * size
    assert expected.seconds >= 3 * size / SPEEDS.memory_bytes_per_second


def test_small_operands_are_left_in_the_caches_by_the_call_before() -> None:
    expected = predict(product(64, 64, 64), USUAL, SPEEDS)
    assert expected.memory_bytes == 0
    assert expected.bound_by == "arithmetic"


def test_what_is_slower_is_expected_to_be() -> None:
    def seconds(program: Program) -> float:
        return predict(program, USUAL, SPEEDS).seconds

    assert seconds(product(64, 64, 64)) < seconds(product(64, 64, 128))
    assert seconds(product(64, 64, 64)) < seconds(product(64, 64, 64, unit="k"))
    assert seconds(product(64, 64, 64)) < seconds(product(65, 64, 64))
    assert seconds(product(64, 64, 64)) < seconds(product(64, 64, 64, data_type="FP64"))
    assert seconds(product(512, 1, 512)) > seconds(product(512, 8, 512)) / 8
    assert seconds(copy(300, 300, turned=False)) < seconds(copy(300, 300, turned=True))


def test_a_loop_that_walks_an_operand_again_fetches_it_again() -> None:
    text = """teir 1 "again"
tensor in0: FP32
tensor out: FP32
axis r = {repeats}: out 4096
axis m = {extent}: in0 4, out 4
axis j = 1024: in0 {stride}
primitive sum = Contraction FP32 (in0 -> out; M=[m], N=[], K=[j])
sequential loop over r
  s: sum
"""
    large, small = (
        predict(
            loads(text.format(repeats=8, extent=extent, stride=4 * extent)), USUAL, SPEEDS
        ).memory_bytes
        for extent in (16384, 16)
    )
    assert large > 8 * 1024 * 16384 * 4
    assert small < 2 * (1024 * 16 * 4 + 8 * 4096)


def test_threads_share_parallel_loops_only() -> None:
    text = """teir 1 "shared"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis p = 16: in1 65536, out 65536
axis m = 64: in0 4, out 4
axis n = 64: in1 256, out 256
axis k = 64: in0 256, in1 4
primitive gemm = Contraction FP32 (in0, in1 -> out; M=[m], N=[n], K=[k])
{policy} loop over p
  g: gemm
"""
    four = replace(USUAL, threads=4)
    alone, shared = (
        predict(loads(text.format(policy=policy)), four, SPEEDS).arithmetic_seconds
        for policy in ("sequential", "parallel")
    )
    assert shared == pytest.approx(alone / 4)


def test_assumed_speeds_follow_the_width_of_the_vectors() -> None:
    wide, narrow = assumed_speeds(64, 1 << 25), assumed_speeds(32, 1 << 25)
    assert wide.fp32_flops_per_second == 2 * narrow.fp32_flops_per_second
    assert wide.fp32_flops_per_second == 2 * wide.fp64_flops_per_second
    assert wide.flops_per_second(DataType.BF16) == wide.fp32_flops_per_second
    assert wide.flops_per_second(DataType.C128) == wide.fp64_flops_per_second


def test_tile_registers_have_a_peak_of_their_own() -> None:
    text = print_program(product(256, 256, 512, "BF16")).text
    program = loads(text.replace("K=[k])", 'K=[k]) with {"subnormals": "zero"}'))
    tiles, speeds = replace(USUAL, has_tiles=True), as_changed(SPEEDS, tile_flops_per_second=2e12)
    usual = predict(program, USUAL, speeds)
    assert usual == predict(program, USUAL, SPEEDS)
    assert predict(program, tiles, SPEEDS) == usual
    by_tiles = predict(program, tiles, speeds)
    assert by_tiles.arithmetic_seconds == 2 * 256 * 256 * 512 / 2e12
    assert by_tiles.memory_seconds == usual.memory_seconds
    plain = product(256, 256, 512, "BF16")
    assert predict(plain, tiles, speeds) == predict(plain, USUAL, SPEEDS)


@pytest.mark.parametrize("inner", [1, 2, 4])
def test_sites_are_one_call_bound_by_what_they_move(inner: int) -> None:
    extents = {"a": 2, "b": 2, "c": 1 << 18, "d": inner}
    program = planned("ab,cbd->cad", extents, USUAL).program
    found = predict(program, USUAL, assumed_speeds(64, 32 << 20))
    assert found.call_seconds < 1e-7
    assert found.arithmetic_seconds < found.seconds
