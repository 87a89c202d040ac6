"""Operations and bytes a program states."""

from __future__ import annotations

from teir.ir.parsing import parse_program
from teir.lower.work import Work, program_work

PRODUCT = """teir 1 "product"
tensor in0: {type}
tensor in1: {type}
tensor out: {type}
axis m = 3: in0 {w}, out {w}
axis n = 5: in1 {w}, out {m}
axis k = 7: in0 {m}, in1 {n}
primitive zero = Zero(out; M=[m], N=[n])
primitive gemm = Contraction {type} (in0, in1 -> out; M=[m], N=[n], K=[])
sequential k over k
  z: zero if first(k)
  g: gemm
"""


def product(data_type: str, width: int) -> str:
    return PRODUCT.format(type=data_type, w=width, m=3 * width, n=5 * width)


def test_two_operations_a_product_and_distinct_bytes() -> None:
    work = program_work(parse_program(product("FP32", 4)))
    assert work == Work(flops=2 * 105, bytes_read=4 * (21 + 35), bytes_written=4 * 15)
    assert work.bytes_moved == 4 * (21 + 35 + 15)


def test_eight_operations_a_complex_product() -> None:
    assert program_work(parse_program(product("C64", 8))).flops == 8 * 105


def test_an_output_that_is_added_to_is_read_too() -> None:
    text = product("FP32", 4).replace("  z: zero if first(k)\n", "")
    assert program_work(parse_program(text)).bytes_read == 4 * (21 + 35 + 15)


def test_a_guard_lets_one_iteration_through() -> None:
    text = product("FP32", 4).replace("g: gemm", "g: gemm if last(k)")
    assert program_work(parse_program(text)).flops == 2 * 15


def test_element_wise_results_count_once_and_copies_not_at_all() -> None:
    text = """teir 1 "add"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
axis i = 6: in0 8, in1 8, out 8
primitive copy = Copy(in0 -> out; M=[i], N=[])
primitive add = Add(in0, in1 -> out; M=[i], N=[])
c: copy
a: add
"""
    assert program_work(parse_program(text)) == Work(flops=6, bytes_read=96, bytes_written=48)
