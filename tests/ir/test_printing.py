"""The canonical text: every construct on its line, every part with its line number."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from tests.strategies.any_programs import any_programs

from teir.dtypes import DataType
from teir.errors import Finding, Part, ProgramPlace, Rule, TextPlace
from teir.ir.nodes import Axis, Bytes, InvocationNode, IterationNode, Policy, Program, Tensor
from teir.ir.parsing import parse_program
from teir.ir.printing import print_axis, print_guard, print_node, print_program

EVERYTHING = """\
teir 1 "SDDMM, then \\"SpMM\\""
tensor Bp: I32
tensor Bc: I32
tensor B: FP64
tensor "in 0": FP64
tensor out: FP64
scratch "whole run": FP64
axis i = 4: Bp 4, out 64
axis j = 5: Bc 4, B 8, "in 0" 64 + 16; segment pos Bp crd Bc by_position [B, out]
axis k = 8: "in 0" 8 - 8, out 0 + 64, "whole run" 8, t 8
axis l = 3
axis s = 2; segment pos Bp crd Bc; segment pos Bp crd Bc
primitive zero = Zero(t; M=[k], N=[])
primitive "ax-py" = Contraction TF32 (B, B -> out; C=[i], M=[k], N=[], K=[l]) with {"n": ["#\\"",8]}
primitive neg = Sub FP64 ("in 0", B -> t; M=[], N=[k])
parallel i over i
  scratch t: FP64
  scratch u: FP32
  first: zero if first(i)
  sequential "j j" over j if first(i) and last(i)
    "ax-py": "ax-py"
    neg: neg
last: zero
"""


def test_everything_is_canonical() -> None:
    assert print_program(parse_program(EVERYTHING)).text == EVERYTHING


def test_every_part_has_its_line() -> None:
    printed = print_program(parse_program(EVERYTHING))
    rows = EVERYTHING.splitlines()
    for part, name, start in [
        (Part.PROGRAM, "anything", "teir 1"),
        (Part.TENSOR, "in 0", 'tensor "in 0"'),
        (Part.SCRATCH, "whole run", "scratch"),
        (Part.SCRATCH, "u", "  scratch u"),
        (Part.AXIS, "k", "axis k"),
        (Part.PRIMITIVE, "ax-py", 'primitive "ax-py"'),
        (Part.NODE, "i", "parallel i"),
        (Part.NODE, "first", "  first:"),
        (Part.NODE, "ax-py", '    "ax-py":'),
        (Part.NODE, "last", "last:"),
    ]:
        number = printed.line_of(ProgramPlace(part=part, name=name))
        assert number is not None
        assert rows[number - 1].startswith(start)
    assert printed.line_of(ProgramPlace(part=Part.NODE, name="nobody")) is None


def test_a_finding_gets_its_line() -> None:
    printed = print_program(parse_program(EVERYTHING))
    rule = Rule(code="TEIR999", sentence="A test.", source="here")
    at_node = Finding(
        rule=rule, place=ProgramPlace(part=Part.NODE, name="neg"), expected="a", found="b"
    )
    nowhere = replace(at_node, place=ProgramPlace(part=Part.AXIS, name="nobody"))
    in_text = replace(at_node, place=TextPlace(line=1, column=1))
    blamed, *others = printed.blame([at_node, nowhere, in_text])
    assert (blamed.line, blamed.line_number) == ("    neg: neg", 22)
    assert "line 22 (node neg)" in str(blamed)
    assert others == [nowhere, in_text]


def test_a_wrong_program_is_printed_too() -> None:
    axis = Axis(name="a", extent=-3, strides=Bytes({"nobody": -4, "out": 8}))
    loop = IterationNode(name="x", axis="nowhere", policy=Policy.PARALLEL, children=())
    leaf = InvocationNode(name="x", primitive="nothing")
    out = Tensor(name="out", data_type=DataType.FP32)
    program = Program(name="", tensors=(out, out), axes=(axis,), primitives=(), roots=(loop, leaf))
    printed = print_program(program)
    assert printed.text.splitlines() == [
        'teir 1 ""',
        "tensor out: FP32",
        "tensor out: FP32",
        "axis a = -3: out 8, nobody -4",
        "parallel x over nowhere",
        "x: nothing",
    ]
    assert printed.line_of(ProgramPlace(part=Part.NODE, name="x")) == 5


def test_a_deep_program_is_printed() -> None:
    node: IterationNode | InvocationNode = InvocationNode(name="z", primitive="z")
    for _ in range(2_000):
        node = IterationNode(name="n", axis="a", policy=Policy.SEQUENTIAL, children=(node,))
    program = Program(name="deep", tensors=(), axes=(), primitives=(), roots=(node,))
    assert print_program(program).text.count("\n") == 2_002


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("a.b_1", "a.b_1"),
        ("1", '"1"'),
        ("", '""'),
        ("é", '"é"'),
        ("a\nb", '"a\\nb"'),
        ("a\u2028b", '"a\\u2028b"'),
        ('"', '"\\""'),
        ("->", '"->"'),
    ],
)
def test_spelling(name: str, spelled: str) -> None:
    assert print_axis(Axis(name=name, extent=2), {}) == f"axis {spelled} = 2"
    assert print_node(InvocationNode(name=name, primitive=name)) == f"{spelled}: {spelled}"


def test_no_guard_is_no_text() -> None:
    assert print_guard(()) == ""


@given(any_programs())
def test_print_then_parse_is_the_identity(program: Program) -> None:
    printed = print_program(program)
    again = parse_program(printed.text)
    assert again == program
    assert print_program(again) == printed


@given(any_programs())
def test_every_part_of_any_program_has_a_line(program: Program) -> None:
    printed = print_program(program)
    lines = printed.text.count("\n")
    for node in program.nodes():
        line = printed.line_of(ProgramPlace(part=Part.NODE, name=node.name))
        assert line is not None
        assert 1 < line <= lines
