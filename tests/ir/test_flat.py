"""The flat form becomes a tree: chain, guards, roles, bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teir.errors import TeirError
from teir.ir.load import loads
from teir.ir.nodes import Program
from teir.ir.printing import print_program

GEMM: dict[str, Any] = {
    "teir_flat": 1,
    "data_type": "FP32",
    "prim_first": "Zero",
    "prim_main": "GEMM",
    "prim_last": "ReLU",
    "dim_types": ["N", "M", "K", "M", "N", "K"],
    "exec_types": ["parallel", "seq", "seq", "prim", "prim", "prim"],
    "dim_sizes": [4, 3, 2, 8, 6, 16],
    "strides": [[0, 128, 384, 1, 0, 8], [192, 0, 16, 0, 32, 1], [144, 8, 0, 1, 24, 0]],
}
COPY: dict[str, Any] = {
    "teir_flat": 1,
    "data_type": "FP64",
    "prim_first": "None",
    "prim_main": "Copy",
    "prim_last": "None",
    "dim_types": ["C", "C", "C"],
    "exec_types": ["seq", "prim", "prim"],
    "dim_sizes": [4, 5, 6],
    "strides": [[30, 6, 1], [1, 4, 20]],
}


def load(document: dict[str, Any], **changes: object) -> Program:
    return loads(json.dumps(document | changes))


def codes(document: dict[str, Any], **changes: object) -> list[str]:
    with pytest.raises(TeirError) as caught:
        load(document, **changes)
    return [finding.code for finding in caught.value.findings]


def test_a_contraction_with_first_and_last() -> None:
    assert (
        print_program(load(GEMM)).text
        == """\
teir 1 "GEMM"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis n0 = 4: in1 768, out 576
axis m0 = 3: in0 512, out 32
axis k0 = 2: in0 1536, in1 64
axis m1 = 8: in0 4, out 4
axis n1 = 6: in1 128, out 96
axis k1 = 16: in0 32, in1 4
primitive zero = Zero FP32 (out; M=[m1], N=[n1])
primitive gemm = Contraction FP32 (in0, in1 -> out; M=[m1], N=[n1], K=[k1])
primitive relu = ReLU FP32 (out -> out; M=[m1], N=[n1])
parallel n0 over n0
  sequential m0 over m0
    sequential k0 over k0
      first: zero if first(k0)
      main: gemm
      last: relu if last(k0)
"""
    )


def test_the_row_of_a_copy_is_contiguous_on_its_input() -> None:
    (copy,) = load(COPY).primitives
    assert (copy.inputs, copy.m, copy.n, copy.k) == (("in0",), ("c2",), ("c1",), ())
    (copy,) = load(COPY, strides=[[30, 6, 2], [1, 4, 20]]).primitives
    assert (copy.m, copy.n) == (("c1",), ("c2",))


def test_a_relu_reads_its_input() -> None:
    (relu,) = load(COPY, prim_main="ReLU").primitives
    assert (relu.inputs, relu.output) == (("in0",), "out")


def test_every_axis_that_returns_to_the_tile_is_in_the_guard() -> None:
    program = load(
        GEMM,
        dim_types=["K", "M", "K", "M", "N", "K"],
        exec_types=["parallel", "seq", "seq", "prim", "prim", "prim"],
        strides=[[0, 128, 384, 1, 0, 8], [192, 0, 16, 0, 32, 1], [0, 8, 0, 1, 24, 0]],
    )
    guards = {leaf.name: [str(term) for term in leaf.guard] for _, leaf in program.invocations()}
    assert guards == {
        "first": ["first(k0)", "first(k1)"],
        "main": [],
        "last": ["last(k0)", "last(k1)"],
    }


def test_no_returning_axis_means_no_guard() -> None:
    program = load(
        GEMM,
        exec_types=["seq", "seq", "prim", "prim", "prim", "prim"],
        prim_main="BRGEMM",
    )
    assert all(leaf.guard == () for _, leaf in program.invocations())
    assert program.primitives[1].k == ("k0", "k1")


def test_without_a_primitive_axis_one_element_is_worked_on() -> None:
    program = load(GEMM, exec_types=["seq"] * 6)
    assert [primitive.axes for primitive in program.primitives] == [(), (), ()]
    assert load(COPY, exec_types=["seq"] * 3).primitives[0].axes == ()
    assert codes(GEMM, exec_types=["seq"] * 6, prim_main="BRGEMM") == ["TEIR223"]


def test_only_primitive_axes_make_a_root_of_the_invocations() -> None:
    program = load(COPY, exec_types=["prim"] * 3)
    assert [node.name for node in program.roots] == ["main"]


def test_null_is_none() -> None:
    assert load(COPY, prim_first=None, prim_last=None) == load(COPY)


def test_every_finding_comes_at_once() -> None:
    found = codes(GEMM, data_type="I32", prim_last="Zero", dim_sizes=[4, 3, 2, 8, 0])
    assert found == ["TEIR201", "TEIR204", "TEIR207", "TEIR209"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dim_sizes", [4, True, 6]),
        ("dim_sizes", [4, 5.0, 6]),
        ("dim_sizes", [4, "5", 6]),
        ("strides", [[30, 6, 1], 1]),
        ("dim_types", "CCC"),
        ("prim_main", 3),
        ("teir_flat", "1"),
    ],
)
def test_wrong_types(field: str, value: object) -> None:
    assert codes(COPY, **{field: value}) == ["TEIR140"]


def test_a_chain_that_is_too_long() -> None:
    many = 256
    assert codes(
        COPY,
        dim_types=["C"] * many,
        exec_types=["seq"] * many,
        dim_sizes=[1] * many,
        strides=[[0] * many, [0] * many],
    ) == ["TEIR110"]
