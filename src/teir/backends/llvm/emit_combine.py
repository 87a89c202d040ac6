"""What an element-wise kernel computes on one vector: stored numbers in, stored numbers out.

Results are formed in the accumulator type of ``in_type`` and rounded once. NaN goes through ReLU,
Min and Max (IEEE 754-2019 section 9.6, minimum and maximum). Complex division is Smith's
("Algorithm 116", 1962), which neither overflows nor underflows where the quotient does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from teir.backends.llvm.emit_numbers import (
    computed_number,
    narrow,
    numbers_per_element,
    round_to_odd_float,
    stored_number,
    widen,
)
from teir.backends.llvm.emit_products import (
    Arithmetic,
    as_factor,
    as_scale,
    multiply_add,
    product,
)
from teir.backends.llvm.emit_text import FunctionText, repeated, shuffle, vector
from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.kernels import Elementwise
from teir.target import Isa


def combine(
    text: FunctionText, kernel: Elementwise, isa: Isa, stored: Sequence[str], lanes: int
) -> str:
    """``kernel.operation`` on vectors of ``lanes`` elements, as stored numbers of the output."""
    if kernel.operation is Operation.ZERO:
        return "zeroinitializer"
    if kernel.operation is Operation.COPY:
        return convert(text, kernel.in_type, kernel.out_type, isa, stored[0], lanes)
    if kernel.in_type is not kernel.out_type:
        raise ValueError(f"expected equal types, found {kernel.in_type} and {kernel.out_type}")
    kind = Arithmetic(isa, kernel.in_type, lanes * numbers_per_element(kernel.in_type))
    wide = [widen(text, kernel.in_type, isa, number, kind.count) for number in stored]
    result = _computed(text, kernel.operation, kind, wide)
    return narrow(text, kernel.out_type, isa, result, kind.count)


def convert(
    text: FunctionText, source: DataType, target: DataType, isa: Isa, stored: str, lanes: int
) -> str:
    """Stored numbers of ``source`` as stored numbers of ``target``, rounded once.

    A real number becomes complex with a zero imaginary part; the converse is refused.
    """
    if stored_number(source) == stored_number(target) and source.is_complex == target.is_complex:
        same = source is target or source.width > 2
        if same:
            return stored
    if source.is_complex and not target.is_complex:
        raise ValueError(f"expected a real source for {target}, found {source}")
    count = lanes * numbers_per_element(source)
    number = widen(text, source, isa, stored, count)
    number = _change_width(text, source, target, number, count)
    number = narrow(text, target, isa, number, count)
    if target.is_complex and not source.is_complex:
        pairs = [lane // 2 if lane % 2 == 0 else lanes for lane in range(2 * lanes)]
        return shuffle(text, stored_number(target), lanes, number, "zeroinitializer", pairs)
    return number


def _change_width(
    text: FunctionText, source: DataType, target: DataType, number: str, count: int
) -> str:
    """Between float and double; FP64 to a 16-bit type goes through a float rounded to odd."""
    wide, narrow_kind = vector("double", count), vector("float", count)
    match computed_number(source), computed_number(target):
        case "float", "double":
            return text.value(f"fpext {narrow_kind} {number} to {wide}")
        case "double", "float" if target in (DataType.BF16, DataType.FP16):
            return round_to_odd_float(text, number, count)
        case "double", "float":
            return text.value(f"fptrunc {wide} {number} to {narrow_kind}")
        case _:
            return number


def _computed(
    text: FunctionText, operation: Operation, kind: Arithmetic, inputs: Sequence[str]
) -> str:
    match operation:
        case Operation.RELU:
            return _below(text, kind, inputs[0], "zeroinitializer", "zeroinitializer", inputs[0])
        case Operation.ADD:
            return text.value(f"fadd {kind.kind} {inputs[0]}, {inputs[1]}")
        case Operation.SUB:
            return text.value(f"fsub {kind.kind} {inputs[0]}, {inputs[1]}")
        case Operation.MUL:
            factor = as_factor(text, kind, inputs[0])
            return product(text, kind, factor, as_scale(text, kind, inputs[1]))
        case Operation.DIV if kind.data_type.is_complex:
            return _divide_complex(text, kind, inputs[0], inputs[1])
        case Operation.DIV:
            return text.value(f"fdiv {kind.kind} {inputs[0]}, {inputs[1]}")
        case Operation.MIN:
            return _keep_nan(text, kind, inputs[0], _below(text, kind, *inputs, *inputs))
        case Operation.MAX:
            left, right = inputs
            return _keep_nan(text, kind, left, _below(text, kind, right, left, left, right))
        case Operation.ZERO | Operation.COPY | Operation.CONTRACTION:
            raise ValueError(f"expected an element-wise operation, found {operation}")
        case _:
            assert_never(operation)


def _below(text: FunctionText, kind: Arithmetic, left: str, right: str, yes: str, no: str) -> str:
    """``yes`` where left < right, ``no`` where not or where either is NaN."""
    if kind.data_type.is_complex:
        raise ValueError("expected real numbers, complex numbers have no order")
    condition = text.value(f"fcmp olt {kind.kind} {left}, {right}")
    return _choose(text, kind, condition, yes, no)


def _keep_nan(text: FunctionText, kind: Arithmetic, number: str, result: str) -> str:
    is_nan = text.value(f"fcmp uno {kind.kind} {number}, {number}")
    return _choose(text, kind, is_nan, number, result)


def _choose(text: FunctionText, kind: Arithmetic, condition: str, yes: str, no: str) -> str:
    bits = vector("i1", kind.count)
    return text.value(f"select {bits} {condition}, {kind.kind} {yes}, {kind.kind} {no}")


def _divide_complex(text: FunctionText, kind: Arithmetic, left: str, right: str) -> str:
    """(a + ib) / (c + id) with the ratio of the smaller of c and d to the larger."""
    divisor = as_scale(text, kind, right)
    turned = as_factor(text, kind, left).turned
    if divisor.imaginary is None or turned is None:
        raise ValueError(f"expected a complex type, found {kind.data_type}")
    c, d = divisor.real, divisor.imaginary
    c_large = text.value(f"fcmp oge {kind.kind} {_size(text, kind, c)}, {_size(text, kind, d)}")
    large, small = _choose(text, kind, c_large, c, d), _choose(text, kind, c_large, d, c)
    ratio = text.value(f"fdiv {kind.kind} {small}, {large}")
    against = text.value(f"fneg {kind.kind} {turned}")
    first = _choose(text, kind, c_large, left, against)
    second = _choose(text, kind, c_large, against, left)
    above = multiply_add(text, kind, second, ratio, first)
    below = multiply_add(text, kind, small, ratio, large)
    quotient = text.value(f"fdiv {kind.kind} {above}, {below}")
    by_zero = text.value(f"fdiv {kind.kind} {left}, {_size(text, kind, large)}")
    zero = repeated(kind.element, kind.count, "0.0")
    is_zero = text.value(f"fcmp oeq {kind.kind} {large}, {zero}")
    return _choose(text, kind, is_zero, by_zero, quotient)


def _size(text: FunctionText, kind: Arithmetic, number: str) -> str:
    width = "f64" if kind.element == "double" else "f32"
    return text.value(f"call {kind.kind} @llvm.fabs.v{kind.count}{width}({kind.kind} {number})")
