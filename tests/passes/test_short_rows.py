"""Programs run as they are written, but for short rows of large operands on some machines."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

import pytest
from msgspec.structs import replace as changed

from passes.sample_programs import product
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.nodes import Bytes, Operation, Program
from teir.ir.parsing import parse_program
from teir.passes.facts import Facts
from teir.passes.optimise import optimise
from teir.passes.pack_operands import pack_operands
from teir.passes.short_rows import with_short_rows_packed

SERVER = Facts(vector_bytes=64, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20, threads=1)
NEAR = replace(SERVER, l3_bytes=64 << 20)

PAGES_APART = """teir 1 "blocked product"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
axis m = 16: in0 256, out 8192
axis n = 8: in1 262144, out 131072
axis mp = 32: in0 8, out 8
axis np = 32: in1 8192, out 256
axis k = 1024: in0 4096, in1 8
primitive g = Contraction FP64 (in0, in1 -> out; M=[mp], N=[np], K=[k])
sequential m over m
  sequential n over n
    main: g
"""


def example(name: str) -> Program:
    path = files("teir").joinpath("examples", f"backend-{name}.teir")
    return parse_program(path.read_text(encoding="utf-8"))


def with_whole_columns(program: Program) -> Program:
    """The program on columns of in1 whose reductions follow one another."""
    steps = {"k": 128, "np": 1024}
    axes = [
        changed(axis, strides=Bytes({**axis.strides, "in1": steps[axis.name]}))
        if axis.name in steps
        else axis
        for axis in program.axes
    ]
    return changed(program, axes=tuple(axes))


def of_pairs(program: Program) -> Program:
    """The program on inputs of BF16, elements as far apart as they were."""
    tensors = [
        changed(one, data_type=DataType.BF16) if one.name != "out" else one
        for one in program.tensors
    ]
    primitives = [
        changed(one, data_type=DataType.BF16) if one.operation is Operation.CONTRACTION else one
        for one in program.primitives
    ]
    return changed(program, tensors=tuple(tensors), primitives=tuple(primitives))


@pytest.mark.parametrize("name", ["1-gemm", "2-brgemm", "3-zero-brgemm-relu"])
def test_only_the_operand_of_the_lanes_is_copied_and_loops_stay(name: str) -> None:
    """Where columns lie in long pieces; blocked ones are in the tests of `near_rows`."""
    program = with_whole_columns(example(name))
    made = with_short_rows_packed(program, SERVER)
    assert check(made).ok
    inputs = [one.inputs for one in made.primitives if one.operation is Operation.CONTRACTION]
    assert inputs == [("in0_packed", "in1")]
    assert [node.name for node in made.nodes() if node.name != "do_copy"] == [
        node.name for node in program.nodes()
    ]


@pytest.mark.parametrize(
    ("program", "facts"),
    [
        (example("1-gemm"), NEAR),
        (of_pairs(example("1-gemm")), SERVER),
        (optimise(parse_program(product(96, 96, 96)), NEAR)[3][1], SERVER),
    ],
    ids=["near", "pairs", "small"],
)
def test_others_stay_the_same_object(program: Program, facts: Facts) -> None:
    assert check(program).ok
    assert with_short_rows_packed(program, facts) is program


@pytest.mark.parametrize("name", ["1-gemm", "2-brgemm", "3-zero-brgemm-relu"])
def test_blocked_columns_are_copied_too(name: str) -> None:
    made = with_short_rows_packed(example(name), SERVER)
    assert check(made).ok
    inputs = [one.inputs for one in made.primitives if one.operation is Operation.CONTRACTION]
    assert {left for left, _ in inputs} == {"in0_packed"}
    assert {right for _, right in inputs} == {"in1_packed"}
    smaller = with_short_rows_packed(example(name), replace(SERVER, l1_bytes=32 << 10))
    products = [one for one in smaller.primitives if one.operation is Operation.CONTRACTION]
    assert {one.inputs[1] for one in products} == {"in1_packed", "in1_packed_1"}


def test_no_other_rule_copies_anything() -> None:
    """Columns whole pages apart are packed by the passes, where the user asks for them."""
    program, server = parse_program(PAGES_APART), replace(SERVER, l1_bytes=32 << 10)
    for made, copied in (
        (with_short_rows_packed(program, server), {"in0_packed"}),
        (pack_operands(program, server), {"in0_packed", "in1_packed"}),
    ):
        assert check(made).ok
        assert {one.output for one in made.primitives} - {"out"} == copied
