"""Numbers of sparse products: factors that are one number, values in another type."""

from __future__ import annotations

from typing import Any

import numpy as np

from teir.arrays.sparse import Sparse
from teir.backends.llvm.converted_values import SHORT, converted_values
from teir.dtypes import DataType, data_type_of
from teir.pipeline.executable import default_isa
from teir.pipeline.sparse_operands import Array


def signed_number(number: Any, is_negative: bool, dtype: np.dtype[Any]) -> float:
    """A number, or an array or a tensor without an axis, rounded to a type; its negative if asked.

    Positions without a value count as 0.
    """
    if isinstance(number, Sparse):
        number = number.to_dense()
    scale = float(np.asarray(number).astype(dtype))
    return -scale if is_negative else scale


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
    convert(_address(array), array.size, _address(made))
    return made


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
