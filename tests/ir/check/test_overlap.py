"""Operands that share memory."""

from __future__ import annotations

import numpy as np
import pytest

from teir.arrays.operand import BoundOperand, Operand, bind_operand
from teir.ir.check import Report, check
from teir.ir.parsing import parse_program

COPY = """teir 1 "copy of rows"
tensor in0: FP32
tensor out: FP32
axis i = 4: in0 {stride}, out {stride}
axis m = 4: in0 4, out 4
primitive row = {operation}
sequential rows over i
  copy: row
"""


def checked(text: str, **values: object) -> Report:
    program = parse_program(text)
    tensors = {tensor.name: tensor for tensor in program.tensors}
    operands: dict[str, BoundOperand] = {
        name: bind_operand(name, value, tensors[name].data_type, name == "out")
        for name, value in values.items()
    }
    return check(program, operands)


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def rows(stride: int = 16, operation: str = "Copy(in0 -> out; M=[m], N=[])") -> str:
    return COPY.format(stride=stride, operation=operation)


def test_separate_arrays_pass() -> None:
    assert checked(rows(), in0=np.zeros(16, np.float32), out=np.zeros(16, np.float32)).ok


def test_the_same_array_in_place_passes() -> None:
    array = np.zeros(16, np.float32)
    assert checked(rows(), in0=array, out=array).ok
    assert checked(rows(operation="ReLU(in0 -> out; M=[m], N=[])"), in0=array, out=array).ok


def test_one_shared_byte_is_found() -> None:
    buffer = np.zeros(127, np.uint8)
    report = checked(rows(), in0=buffer[:64], out=buffer[63:])
    assert codes(report) == ["TEIR407"]
    assert report.findings[0].line == "tensor out: FP32"
    assert checked(rows(), in0=buffer[:63].tobytes() + b"0", out=buffer[63:]).ok


def test_shifted_rows_are_found() -> None:
    buffer = np.zeros(20, np.float32)
    assert codes(checked(rows(), in0=buffer[:16], out=buffer[4:])) == ["TEIR407"]


def test_interleaved_rows_pass() -> None:
    buffer = np.zeros(32, np.float32)
    report = checked(rows(stride=32), in0=buffer, out=Operand(buffer, 16))
    assert report.ok


def test_interleaved_rows_that_touch_are_found() -> None:
    buffer = np.zeros(32, np.float32)
    assert codes(checked(rows(stride=32), in0=buffer, out=Operand(buffer, 12))) == ["TEIR407"]


STRIDED = """teir 1 "copy between two strides"
tensor in0: FP32
tensor out: FP32
axis m = {extent}: in0 40, out 32
primitive spread = Copy(in0 -> out; M=[m], N=[])
copy: spread
"""


@pytest.mark.parametrize(("extent", "found"), [(3, []), (4, ["TEIR407"])])
def test_elements_of_two_strides_meet_where_both_reach(extent: int, found: list[str]) -> None:
    """The third element read lies at byte 96, where a fourth would be written."""
    buffer = np.zeros(36, np.float32)
    report = checked(STRIDED.format(extent=extent), in0=buffer[4:], out=buffer)
    assert codes(report) == found


SHIFTED = """teir 1 "copy to a place further on"
tensor in0: FP32
tensor out: FP32
axis m = 4: in0 4, out 4 + 32
primitive row = Copy(in0 -> out; M=[m], N=[])
copy: row
"""


def test_only_what_is_touched_has_to_be_apart() -> None:
    """The arrays share 16 bytes: what is read, or what lies before the elements written."""
    buffer = np.zeros(16, np.float32)
    assert checked(SHIFTED, in0=buffer[:4], out=buffer[:12]).ok
    (finding,) = checked(SHIFTED, in0=buffer[9:13], out=buffer[:12]).findings
    assert finding.code == "TEIR407"
    assert "from byte 4 of what out touches" in (finding.hint or "")
    assert codes(checked(SHIFTED, in0=buffer[8:12], out=buffer[:12])) == ["TEIR407"]


def test_a_contraction_is_never_in_place() -> None:
    array = np.zeros(16, np.float32)
    report = checked(
        rows(operation="Contraction(in0 -> out; M=[m], N=[], K=[])"), in0=array, out=array
    )
    assert codes(report) == ["TEIR407"]


def test_in_place_with_a_second_reader_is_found() -> None:
    text = rows() + "again: row2\n"
    text = text.replace(
        "sequential", "primitive row2 = Add(in0, in0 -> out; M=[m], N=[])\nsequential"
    )
    array = np.zeros(16, np.float32)
    assert codes(checked(text, in0=array, out=array)) == ["TEIR407"]


def test_inputs_may_share_memory() -> None:
    text = rows(operation="Add(in0, in1 -> out; M=[m], N=[])")
    text = text.replace("tensor out", "tensor in1: FP32\ntensor out").replace(
        "in0 4", "in0 4, in1 4"
    )
    array = np.zeros(16, np.float32)
    assert checked(text, in0=array, in1=array, out=np.zeros(16, np.float32)).ok


def test_two_outputs_apart() -> None:
    text = """teir 1 "two outputs"
tensor in0: FP32
tensor a: FP32
tensor b: FP32
axis m = 4: in0 4, a 4, b 4
primitive one = Copy(in0 -> a; M=[m], N=[])
primitive two = Copy(in0 -> b; M=[m], N=[])
first: one
second: two
"""
    array = np.zeros(4, np.float32)
    program = parse_program(text)
    values = {"in0": array.copy(), "a": array, "b": array}
    operands = {
        tensor.name: bind_operand(tensor.name, values[tensor.name], tensor.data_type, False)
        for tensor in program.tensors
    }
    assert codes(check(program, operands)) == ["TEIR407"]


def test_operands_by_name() -> None:
    array = np.zeros(16, np.float32)
    assert codes(checked(rows(), in0=array)) == ["TEIR511"]
    program = parse_program(rows())
    operand = bind_operand("in7", array, program.tensors[0].data_type, False)
    out = bind_operand("out", np.zeros(16, np.float32), program.tensors[1].data_type, True)
    in0 = bind_operand("in0", np.zeros(16, np.float32), program.tensors[0].data_type, True)
    assert codes(check(program, {"in0": in0, "out": out, "in7": operand})) == ["TEIR510"]


def test_written_operands_are_writable() -> None:
    program = parse_program(rows())
    array = np.zeros(16, np.float32)
    array.flags.writeable = False
    out = bind_operand("out", array, program.tensors[1].data_type, False)
    in0 = bind_operand("in0", array.copy(), program.tensors[0].data_type, False)
    assert codes(check(program, {"in0": in0, "out": out})) == ["TEIR506"]
