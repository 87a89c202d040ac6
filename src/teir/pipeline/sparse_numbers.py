"""Numbers of sparse products: factors that are one number, values in another type."""

from __future__ import annotations

from typing import Any

import numpy as np

from teir.arrays.numpy_fields import address_of
from teir.arrays.sparse import Sparse
from teir.backends.llvm.converted_values import SHORT, converted_values
from teir.dtypes import DataType, data_type_of
from teir.expr.index_notation import Number
from teir.pipeline.executable import default_isa
from teir.pipeline.sparse_operands import Array


def scale_of(number: Any, coefficient: Number, dtype: np.dtype[Any]) -> float:
    """A real number, or an array or a tensor without an axis, rounded to a type, times another.

    Positions without a value count as 0.
    """
    if isinstance(number, Sparse):
        number = number.to_dense()
    return float(np.asarray(number).astype(dtype)) * coefficient.real


def multiply_by(array: Array, coefficient: Number) -> Array:
    """``array``, every element multiplied by a number in place."""
    if coefficient == -1:
        return np.negative(array, out=array)
    return array if coefficient == 1 else np.multiply(array, coefficient, out=array)


def in_type(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array itself where it has the type, else a copy with every number rounded to it."""
    if array.dtype == dtype:
        return array
    known, wanted = data_type_of(array.dtype), data_type_of(dtype)
    widens = known in SHORT and wanted is DataType.FP32
    narrows = known is DataType.FP32 and wanted in SHORT
    if not (widens or narrows) or not array.flags.c_contiguous:
        return array.astype(dtype)
    short = known if widens else wanted
    assert short is not None
    made = np.empty(array.shape, dtype)
    convert = converted_values(default_isa(), short, widens=widens)
    convert(address_of(array), array.size, address_of(made))
    return made
