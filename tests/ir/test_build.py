"""Tables in Python give the program that the text form spells."""

from __future__ import annotations

import numpy as np
import pytest

from teir.dtypes import DataType
from teir.errors import TeirError
from teir.ir.build import (
    axis,
    invocation,
    iteration,
    primitive,
    program,
    scratch,
    segment,
)
from teir.ir.nodes import Policy, Program
from teir.ir.parsing import parse_program

REDUCTION = """\
teir 1 "guarded reduction"
tensor in0: FP32
tensor in1: FP32
tensor out: FP32
axis k = 16: in0 4, in1 4
axis m = 8: in0 64, out 4 + 8
primitive zero_prim = Zero(out; M=[m], N=[])
primitive contraction_prim = Contraction FP32 (in0, in1 -> out; M=[m], N=[], K=[])
primitive relu_prim = ReLU(out -> out; M=[m], N=[])
sequential k over k
  zero: zero_prim if first(k)
  contraction: contraction_prim
  relu: relu_prim if last(k)
"""


def reduction(children: list[str], guard: str | None = "first(k)") -> Program:
    return program(
        "guarded reduction",
        tensors={"in0": "FP32", "in1": DataType.FP32, "out": "FP32"},
        axes={
            "k": axis(16, (4, 4, 0)),
            "m": axis(np.int64(8), np.array([64, 0, 4]), offsets=(0, 0, 8)),
        },
        roots=["k"],
        iterations={"k": iteration("k", "sequential", children)},
        invocations={
            "zero": invocation("zero_prim", guard),
            "contraction": invocation("contraction_prim"),
            "relu": invocation("relu_prim", "last(k)"),
        },
        primitives={
            "zero_prim": primitive("Zero", M=["m"], N=[]),
            "contraction_prim": primitive(
                "Contraction", M=["m"], N=[], K=[], metadata={"data_type": DataType.FP32}
            ),
            "relu_prim": primitive("ReLU", M=["m"], N=[]),
        },
    )


def test_the_tables_of_section_10_2_1() -> None:
    assert reduction(["zero", "contraction", "relu"]) == parse_program(REDUCTION)


def test_a_wrong_table_is_refused_with_its_path() -> None:
    with pytest.raises(TeirError, match=r"TEIR137 at \$.schedule.iterations\[0\].children\[1\]"):
        reduction(["zero", "contractoin", "contraction", "relu"])
    with pytest.raises(TeirError, match="TEIR157"):
        reduction(["zero", "contraction", "relu"], guard="middle(k)")


def test_scratch_and_segments() -> None:
    built = program(
        "sparse",
        tensors={
            "pos": "I32",
            "crd": "I32",
            "B": "FP64",
            "out": "FP64",
            "t": scratch("FP64", "i"),
            "all": scratch(DataType.FP64, None),
        },
        axes={
            "i": axis(4, (4, 0, 0, 8, 0, 0)),
            "j": axis(5, (0, 4, 8, 0, 0, 8), segments=[segment("pos", "crd", ["B"])]),
        },
        roots=["i"],
        iterations={
            "i": iteration("i", Policy.PARALLEL, ["zero", "j"]),
            "j": iteration("j", "sequential", ["add"]),
        },
        invocations={"zero": invocation("zero"), "add": invocation("add")},
        primitives={
            "zero": primitive("Zero", M=[], N=[], inputs=[], out="t"),
            "add": primitive("Contraction", C=[], M=[], N=[], K=[], inputs=["B"], out="t"),
        },
    )
    assert built == parse_program("""\
teir 1 "sparse"
tensor pos: I32
tensor crd: I32
tensor B: FP64
tensor out: FP64
scratch all: FP64
axis i = 4: pos 4, out 8
axis j = 5: crd 4, B 8, all 8; segment pos pos crd crd by_position [B]
primitive zero = Zero(t; M=[], N=[])
primitive add = Contraction(B -> t; M=[], N=[], K=[])
parallel i over i
  scratch t: FP64
  zero: zero
  sequential j over j
    add: add
""")
