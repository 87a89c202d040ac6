"""A native result against the evaluator's, judged by the published error bound.

Both results may be off by the bound, so their difference may be twice the bound. The magnitude the
bound speaks of, |c0| + sum |a||b|, is what the program itself computes on absolute values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import replace

from teir.cli.operands import Array, Arrays
from teir.dtypes import DataType
from teir.ir.accuracy import PASS, error_bound, error_ratio
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Operation, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The largest difference over its bound of every written tensor."""

    ratios: Mapping[str, float]

    @property
    def ok(self) -> bool:
        return all(ratio < PASS for ratio in self.ratios.values())

    @property
    def worst(self) -> float:
        return max(self.ratios.values(), default=0.0)

    def __str__(self) -> str:
        return f"{'OK' if self.ok else 'WRONG'}, largest difference {self.worst:.2g} of the bound"


def compare_with_evaluator(program: Program, before: Arrays, after: Arrays) -> Comparison:
    """Evaluate ``program`` on ``before`` and compare what it writes with ``after``."""
    expected, magnitude = before.copy(), before
    evaluate(program, expected.arrays, bases=before.bases)
    if not moves_only(program):
        magnitude = absolute(before)
        evaluate(monotone(program), magnitude.arrays, bases=before.bases)
    types = {tensor.name: tensor.data_type for tensor in program.tensors}
    written = {primitive.output for primitive in program.primitives} & set(types)
    widest = max((types[name] for name in types), key=_roundoff)
    ratios: dict[str, float] = {}
    for name in sorted(written):
        data_type = types[name]
        terms, invocations = reduction(program, name)
        if moves_only(program):
            same = np.array_equal(
                numbers(after.arrays[name], data_type), numbers(expected.arrays[name], data_type)
            )
            ratios[name] = 0.0 if same else np.inf
            continue
        bound = error_bound(
            np.abs(numbers(magnitude.arrays[name], data_type)).astype(np.float64),
            terms=terms,
            invocations=invocations,
            input_type=widest,
            output_type=data_type,
        )
        found = wide(numbers(after.arrays[name], data_type))
        ratios[name] = error_ratio(
            found, wide(numbers(expected.arrays[name], data_type)), 2.0 * bound
        )
    return Comparison(ratios=ratios)


def moves_only(program: Program) -> bool:
    """True where no arithmetic is done: results must then be equal but for conversions."""
    moving = {Operation.ZERO, Operation.COPY, Operation.RELU}
    types = {tensor.data_type for tensor in program.tensor_table().values()}
    return len(types) == 1 and all(one.operation in moving for one in program.primitives)


def reduction(program: Program, tensor: str) -> tuple[int, int]:
    """Terms added to one element of ``tensor``, and invocations that add into it, at most."""
    axes, primitives = program.axis_table(), program.primitive_table()
    terms = invocations = 0
    for path, leaf in program.invocations():
        primitive = primitives[leaf.primitive]
        if primitive.output != tensor:
            continue
        times = prod(
            axes[node.axis].extent for node in path if axes[node.axis].strides[tensor] == 0
        )
        invocations += times
        terms += times * prod(axes[name].extent for name in primitive.k)
    return terms, invocations


def absolute(arrays: Arrays) -> Arrays:
    """The absolute values of all floating-point arrays, index arrays as they are."""
    changed = {name: _absolute(array) for name, array in arrays.arrays.items()}
    return Arrays(arrays=changed, bases=arrays.bases)


def _absolute(array: Array) -> Array:
    if array.dtype.kind in "iu":
        return array.copy(order="K")
    return np.abs(array, order="K").astype(array.dtype, order="K")


def monotone(program: Program) -> Program:
    """The program with every Sub and Min made the operation that grows with both inputs."""
    growing = {Operation.SUB: Operation.ADD, Operation.MIN: Operation.MAX}
    primitives = tuple(
        replace(primitive, operation=growing.get(primitive.operation, primitive.operation))
        for primitive in program.primitives
    )
    return program if primitives == program.primitives else replace(program, primitives=primitives)


def numbers(array: Array, data_type: DataType) -> Array:
    """The elements of an array of the tensor's type or of bytes, as they lie in memory."""
    flat = array.ravel(order="K")
    return flat.view(data_type.numpy_dtype()) if flat.dtype == np.uint8 else flat


def wide(array: Array) -> np.ndarray[Any, np.dtype[Any]]:
    """The same numbers in double precision."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _roundoff(data_type: DataType) -> float:
    # TF32 rounds its inputs to 10 bits, so its bound is the widest of the 32-bit types.
    return 2.0**-10 if data_type is DataType.TF32 else data_type.unit_roundoff
