"""Exact results of small programs, each with the error a correct machine may make.

A second interpreter, written independently of `teir.ir.evaluate`: plain loops over single
elements, memory as a table from byte address to number, rational arithmetic without rounding.
Beside each number it keeps what the bound of `teir.ir.accuracy` needs, and the errors that inputs
computed earlier bring along. For operands of finite numbers; meant for at most some 100,000
multiply-adds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from teir.dtypes import DataType
from teir.ir.accuracy import error_bound, half_subnormal, stored_roundoff
from teir.ir.nodes import (
    Axis,
    GuardKind,
    InvocationNode,
    Node,
    Operation,
    Primitive,
    Program,
)

Buffer = np.ndarray[Any, np.dtype[Any]]
Number = tuple[Fraction, Fraction]
"""Real and imaginary part."""

ZERO: Number = (Fraction(0), Fraction(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An exact number and what bounds the error of a computed one.

    ``magnitude`` is |c0| + sum |a||b| since the last operation that was not a Contraction,
    ``terms`` and ``invocations`` count what was added since; ``inherited`` is the error that was
    there before or came with the inputs.
    """

    value: Number
    magnitude: float = 0.0
    terms: int = 0
    invocations: int = 0
    inherited: float = 0.0
    input_type: DataType
    output_type: DataType

    @property
    def error(self) -> float:
        """The largest permitted |computed - value|."""
        if self.invocations == 0:
            return self.inherited
        own = error_bound(
            self.magnitude,
            terms=self.terms,
            invocations=self.invocations,
            input_type=self.input_type,
            output_type=self.output_type,
        )
        return self.inherited + float(own)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Visit:
    axis: Axis
    number: int
    count: int
    coordinate: int
    positions: Mapping[str, int]


def evaluate_exact(
    program: Program,
    operands: Mapping[str, Buffer],
    *,
    bases: Mapping[str, int] | None = None,
) -> dict[str, dict[int, Element]]:
    """What each tensor holds afterwards where the program touched it: byte address to element.

    ``operands`` and ``bases`` as in `teir.ir.evaluate.evaluate`; the arrays stay unchanged.
    Addresses count from the tensor's base. ``parallel`` nodes run in increasing order.
    """
    run = _ExactRun(program, operands, bases or {})
    for root in program.roots:
        run.enter(root, ())
    return run.memory


def worst_ratio(
    program: Program,
    before: Mapping[str, Buffer],
    after: Mapping[str, Buffer],
    *,
    bases: Mapping[str, int] | None = None,
) -> float:
    """The largest error over bound of any operand element that ``program`` touched.

    ``before`` holds the operands as the program found them, ``after`` as a run left them.
    """
    worst = 0.0
    types = {tensor.name: tensor.data_type for tensor in program.tensors}
    for name, elements in evaluate_exact(program, before, bases=bases).items():
        if name not in types:
            continue
        base = (bases or {}).get(name, 0)
        for address, element in elements.items():
            found = _stored(after[name], base + address, types[name])
            worst = max(worst, _ratio(found, element))
    return worst


def _ratio(found: complex, element: Element) -> float:
    if not (math.isfinite(found.real) and math.isfinite(found.imag)):
        return math.inf
    real, imaginary = element.value
    distance = _size((Fraction(found.real) - real, Fraction(found.imag) - imaginary))
    if distance == 0:
        return 0.0
    return distance / element.error if element.error > 0 else math.inf


class _ExactRun:
    def __init__(
        self, program: Program, operands: Mapping[str, Buffer], bases: Mapping[str, int]
    ) -> None:
        self._axes = program.axis_table()
        self._primitives = program.primitive_table()
        self._types = {name: tensor.data_type for name, tensor in program.tensor_table().items()}
        self._operands = operands
        self._bases = bases
        self.memory: dict[str, dict[int, Element]] = {name: {} for name in self._types}
        self._undefined(tensor.name for tensor in program.scratch)

    def _undefined(self, names: Iterator[str]) -> None:
        for name in names:
            self.memory[name] = {}

    def enter(self, node: Node, path: tuple[_Visit, ...]) -> None:
        for term in node.guard:
            (visit,) = (visit for visit in path if visit.axis.name == term.axis)
            wanted = 0 if term.kind is GuardKind.FIRST else visit.count - 1
            if visit.number != wanted:
                return
        if isinstance(node, InvocationNode):
            self._invoke(self._primitives[node.primitive], path)
            return
        for visit in self._visits(self._axes[node.axis], path):
            self._undefined(tensor.name for tensor in node.scratch)
            for child in node.children:
                self.enter(child, (*path, visit))

    def _visits(self, axis: Axis, path: tuple[_Visit, ...]) -> list[_Visit]:
        if not axis.segments:
            return [
                _Visit(axis=axis, number=i, count=axis.extent, coordinate=i, positions={})
                for i in range(axis.extent)
            ]
        found: list[tuple[int, dict[str, int]]] | None = None
        for segment in axis.segments:
            start = _address(segment.pos, path)
            low = self._index(segment.pos, start)
            high = self._index(segment.pos, start + self._types[segment.pos].width)
            offset = _address(segment.crd, path) + axis.offsets[segment.crd]
            entries = []
            for position in range(low, high):
                at = offset + axis.strides[segment.crd] * position
                named = dict.fromkeys((segment.crd, *segment.by_position), position)
                entries.append((self._index(segment.crd, at), named))
            found = entries if found is None else _intersection(found, entries)
        assert found is not None
        return [
            _Visit(axis=axis, number=i, count=len(found), coordinate=at, positions=positions)
            for i, (at, positions) in enumerate(found)
        ]

    def _index(self, tensor: str, address: int) -> int:
        at = self._bases.get(tensor, 0) + address
        return int(_stored(self._operands[tensor], at, self._types[tensor]).real)

    def _read(self, tensor: str, address: int) -> Element:
        known = self.memory[tensor].get(address)
        if known is not None:
            return known
        data_type = self._types[tensor]
        at = self._bases.get(tensor, 0) + address
        number = _stored(self._operands[tensor], at, data_type)
        value = (Fraction(number.real), Fraction(number.imag))
        return Element(
            value=value, magnitude=_size(value), input_type=data_type, output_type=data_type
        )

    def _invoke(self, primitive: Primitive, path: tuple[_Visit, ...]) -> None:
        axes = [self._axes[name] for name in primitive.axes]
        starts = {
            name: _address(name, path) + sum(axis.offsets[name] for axis in axes)
            for name in primitive.operands
        }
        sums: dict[int, list[tuple[Element, ...]]] = {}
        for point in product(*(range(axis.extent) for axis in axes)):
            at = {
                name: start
                + sum(axis.strides[name] * i for axis, i in zip(axes, point, strict=True))
                for name, start in starts.items()
            }
            inputs = tuple(self._read(name, at[name]) for name in primitive.inputs)
            address = at[primitive.output]
            if primitive.operation is Operation.CONTRACTION:
                sums.setdefault(address, []).append(inputs)
                continue
            result = _combine(primitive.operation, inputs, self._types[primitive.output])
            self.memory[primitive.output][address] = result
        for address, terms in sums.items():
            start = self._read(primitive.output, address)
            self.memory[primitive.output][address] = _add_products(
                start, terms, self._types[primitive.inputs[0]]
            )


def _intersection(
    left: list[tuple[int, dict[str, int]]], right: list[tuple[int, dict[str, int]]]
) -> list[tuple[int, dict[str, int]]]:
    table = dict(right)
    return sorted(((at, named | table[at]) for at, named in left if at in table), key=_coordinate)


def _coordinate(entry: tuple[int, dict[str, int]]) -> int:
    return entry[0]


def _address(tensor: str, path: tuple[_Visit, ...]) -> int:
    total = 0
    for visit in path:
        index = visit.positions.get(tensor, visit.coordinate)
        total += visit.axis.offsets[tensor] + visit.axis.strides[tensor] * index
    return total


def _add_products(
    start: Element, terms: list[tuple[Element, ...]], input_type: DataType
) -> Element:
    real, imaginary = start.value
    magnitude, brought = start.magnitude, start.inherited
    for factors in terms:
        value, size, largest = (Fraction(1), Fraction(0)), 1.0, 1.0
        for factor in factors:
            value = _times(value, factor.value)
            size *= _size(factor.value)
            largest *= _size(factor.value) + factor.error
        real, imaginary = real + value[0], imaginary + value[1]
        magnitude += largest
        brought += largest - size
    return replace(
        start,
        value=(real, imaginary),
        magnitude=magnitude,
        inherited=brought,
        terms=start.terms + len(terms),
        invocations=start.invocations + 1,
        input_type=input_type if len(terms[0]) > 1 else start.output_type,
    )


def _combine(operation: Operation, inputs: tuple[Element, ...], data_type: DataType) -> Element:
    """One element-wise result: exact value, the inputs' errors, and one rounding."""
    errors = [element.error for element in inputs]
    sizes = [_size(element.value) for element in inputs]
    values = [element.value for element in inputs]
    value, error = ZERO, 0.0
    match operation:
        case Operation.ZERO:
            return _settled(ZERO, 0.0, data_type)
        case Operation.COPY:
            (value,), (error,) = values, errors
        case Operation.RELU:
            value, error = (max(values[0][0], Fraction(0)), Fraction(0)), errors[0]
        case Operation.ADD:
            value, error = _plus(values[0], values[1]), sum(errors)
        case Operation.SUB:
            value = _plus(values[0], (-values[1][0], -values[1][1]))
            error = sum(errors)
        case Operation.MUL:
            value = _times(values[0], values[1])
            error = sizes[0] * errors[1] + sizes[1] * errors[0] + errors[0] * errors[1]
        case Operation.DIV:
            value = _over(values[0], values[1])
            room = sizes[1] - errors[1]
            error = (errors[0] + _size(value) * errors[1]) / room if room > 0 else math.inf
        case Operation.MIN:
            value, error = min(values), max(errors)
        case Operation.MAX:
            value, error = max(values), max(errors)
        case _:
            raise ValueError(f"{operation.value} is not element-wise")
    exactly = operation in (Operation.COPY, Operation.RELU, Operation.MIN, Operation.MAX)
    same = exactly and all(element.output_type is data_type for element in inputs)
    return _settled(value, error, data_type, rounded=not same)


def _settled(value: Number, error: float, data_type: DataType, *, rounded: bool = False) -> Element:
    size = _size(value)
    if rounded:
        parts = 16.0 if data_type.is_complex else 1.0
        relative = parts * (data_type.accumulator.unit_roundoff + stored_roundoff(data_type))
        error = error + relative * (size + error) + half_subnormal(data_type)
    return Element(
        value=value, magnitude=size, inherited=error, input_type=data_type, output_type=data_type
    )


def _plus(left: Number, right: Number) -> Number:
    return (left[0] + right[0], left[1] + right[1])


def _times(left: Number, right: Number) -> Number:
    if not left[1] and not right[1]:
        return (left[0] * right[0], Fraction(0))
    return (
        left[0] * right[0] - left[1] * right[1],
        left[0] * right[1] + left[1] * right[0],
    )


def _over(left: Number, right: Number) -> Number:
    square = right[0] * right[0] + right[1] * right[1]
    real, imaginary = _times(left, (right[0], -right[1]))
    return (real / square, imaginary / square)


def _size(number: Number) -> float:
    return math.hypot(float(number[0]), float(number[1]))


def _stored(buffer: Buffer, at: int, data_type: DataType) -> complex:
    content = buffer.reshape(-1).view(np.uint8)
    if not 0 <= at <= content.size - data_type.width:
        raise IndexError(f"byte {at} lies outside a buffer of {content.size} bytes")
    stored = content[at : at + data_type.width].copy().view(data_type.numpy_dtype())
    return complex(stored[0])
