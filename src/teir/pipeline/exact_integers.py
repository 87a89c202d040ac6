"""Sums of products of integers by floating-point code, where every number on the way is exact.

    |a| <= A,  |b| <= B,  K products per result:   A * B * K <= 2^24   FP32
                                                             <= 2^53   FP64
                                                             else      NumPy

Whole numbers up to these bounds are floating-point numbers, and so is each of their sums, in any
order; the remainder that an integer type keeps of the result is the one NumPy's own steps would
leave. A boolean result is true where a product is, which is where the sum is not 0. NumPy's
products of integers run one element at a time; its sums and other moves take as long as converting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from teir.dtypes import DataType
from teir.pipeline.indirect_calls import Array, Indirect
from teir.pipeline.problem import Problem

Compute = Callable[[DataType, Sequence[Array]], Any]
"""The same contraction of contiguous arrays of a floating-point type."""

_BOUNDS = ((1 << 24, DataType.FP32), (1 << 53, DataType.FP64))
_FEWEST_PRODUCTS = 1 << 16
_PRODUCTS_AN_ELEMENT = 8
"""Fewer for each element read or written, and converting takes as long as NumPy does."""
_SHORT_BYTES = 1
"""Integers up to this width are bounded by their type; wider ones are looked at."""


def exact_call(problem: Problem, compute: Compute) -> Indirect | None:
    """The call that computes the result of ``problem`` by ``compute`` where that is exact; None
    where it takes no less time than NumPy does."""
    kinds = {operand.dtype.kind for operand in problem.operands}
    kind = problem.out.dtype.kind
    is_whole = kind in "biu" and kinds <= ({"b"} if kind == "b" else {"b", "i", "u"})
    extents = problem.bound.extents
    products = prod(extents.values())
    elements = sum(prod(one.shape) for one in (*problem.operands, problem.out))
    if not is_whole or products < max(_FEWEST_PRODUCTS, _PRODUCTS_AN_ELEMENT * elements):
        return None
    output = problem.bound.einsum.output
    summed = prod(extent for index, extent in extents.items() if index not in output)
    return partial(_exact, compute, summed, problem.out.dtype)


def _exact(compute: Compute, summed: int, dtype: np.dtype[Any], operands: Sequence[Array]) -> Any:
    bound = summed * prod(_largest(operand) for operand in operands)
    for most, data_type in _BOUNDS:
        if bound <= most:
            converted = [one.astype(data_type.numpy_dtype(), "C") for one in operands]
            return _whole(compute(data_type, converted), dtype)
    return NotImplemented


def _largest(operand: Array) -> int:
    """A bound of the elements' absolute values, at least 1."""
    if operand.dtype.kind == "b":
        return 1
    if operand.dtype.itemsize <= _SHORT_BYTES:
        information = np.iinfo(operand.dtype)
        return max(-int(information.min), int(information.max))
    return max(1, -int(operand.min()), int(operand.max()))


def _whole(result: Any, dtype: np.dtype[Any]) -> Any:
    """Whole floating-point numbers as ``dtype``; what does not fit is taken modulo its range."""
    if dtype.kind == "b":
        return np.not_equal(result, 0)
    return np.asarray(result).astype(np.int64).astype(dtype, copy=False)[()]
