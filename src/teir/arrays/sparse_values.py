"""The numbers of sparse arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from teir.arrays.sparse_rules import VALUES
from teir.dtypes import data_type_of
from teir.errors import Rule, refuse

Array = np.ndarray[Any, np.dtype[Any]]

SHORT_NUMBERS = "numbers of at most 64 bits, twice that where they are complex"


def is_long(dtype: np.dtype[Any]) -> bool:
    """True for numbers that would lose digits."""
    return dtype.itemsize > (16 if dtype.kind == "c" else 8)


def array_of(rule: Rule, name: str, given: Any) -> Array:
    """As NumPy reads it. Raises TeirError where that is no array, as of rows of several lengths.

    Tensors that record gradients or are conjugated lazily raise a RuntimeError, which says so.
    """
    try:
        return np.asarray(given)
    except (ValueError, TypeError, RuntimeError) as error:
        refuse(rule, name, "an array, or what NumPy makes one of", str(error))


def as_values(values: Any, name: str = "values") -> Array:
    """A vector of numbers that are computed with; integers and booleans become float64."""
    array = array_of(VALUES, name, values)
    if array.ndim != 1 or (array.dtype.kind not in "biufc" and array.dtype.name != "bfloat16"):
        refuse(VALUES, name, "a vector of numbers", f"dtype {array.dtype}, {array.ndim} axes")
    data_type = data_type_of(array.dtype)
    if data_type is None or data_type.is_index:
        is_complex = array.dtype.kind == "c"
        array = array.astype(np.complex128 if is_complex else np.float64)
    return np.ascontiguousarray(array)


def exact_values(values: Any) -> Array:
    """As `as_values`, for values that are kept: long doubles are refused, not rounded."""
    array = array_of(VALUES, "values", values)
    refuse_long_numbers("values", array.dtype)
    return as_values(array)


def refuse_long_numbers(name: str, dtype: Any) -> None:
    """Raises TeirError (TEIR675) for a type of numbers that would lose digits."""
    if isinstance(dtype, np.dtype) and dtype.kind in "fc" and is_long(dtype):
        refuse(VALUES, name, SHORT_NUMBERS, f"dtype {dtype}")
