"""The fields of NumPy arrays, read where NumPy's binary interface lays them out.

The array interface makes a dictionary of everything for every address: 1 µs, a word read in its
place 0.1 µs, and with cold caches ten times that. Whether this NumPy's arrays are laid out so is
looked at once, with the import; others are asked by the array interface.

Source: numpy/ndarraytypes.h, PyArrayObject_fields, part of NumPy's binary interface.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

_FIELDS_BYTES = object.__basicsize__
DATA_BYTES = _FIELDS_BYTES
DIMENSIONS_BYTES = _FIELDS_BYTES + 8
SHAPE_BYTES = _FIELDS_BYTES + 16
STRIDES_BYTES = _FIELDS_BYTES + 24
DTYPE_BYTES = _FIELDS_BYTES + 40
FLAGS_BYTES = _FIELDS_BYTES + 48
WRITEABLE = 0x400
MOST_AXES = 64
"""NPY_MAXDIMS of NumPy 2."""

_word_at = ctypes.c_int64.from_address


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Where the element with index zero lies."""
    if READS_FIELDS:
        return _word_at(id(array) + DATA_BYTES).value
    return int(array.__array_interface__["data"][0])


def plain_view(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same elements as exactly an array of NumPy.

    Asked of NumPy: a subclass may answer anything where it is asked for a view, its bytes or shape.
    """
    return np.ndarray.view(array, np.ndarray)


def _reads_fields() -> bool:
    if sys.implementation.name != "cpython":
        return False
    probe = np.zeros((3, 4), np.float32)[::2, 1:]
    at = id(probe)

    def word(place: int) -> int:
        return _word_at(at + place).value

    def entries(place: int) -> tuple[int, ...]:
        return tuple((ctypes.c_int64 * 2).from_address(word(place)))

    def is_writeable() -> bool:
        return bool(ctypes.c_int32.from_address(at + FLAGS_BYTES).value & WRITEABLE)

    if ctypes.c_int32.from_address(at + DIMENSIONS_BYTES).value != 2:
        return False
    was_writeable = is_writeable()
    probe.setflags(write=False)
    return (
        word(DATA_BYTES) == probe.__array_interface__["data"][0]
        and entries(SHAPE_BYTES) == probe.shape
        and entries(STRIDES_BYTES) == probe.strides
        and word(DTYPE_BYTES) == id(probe.dtype)
        and was_writeable
        and not is_writeable()
    )


READS_FIELDS = _reads_fields()
"""True where this NumPy's arrays hold their fields where its binary interface says."""


def array_at(
    address: int,
    shape: tuple[int, ...],
    strides_bytes: tuple[int, ...],
    dtype: np.dtype[Any],
    is_writable: bool,
) -> np.ndarray[Any, Any]:
    """Memory as an array of NumPy, while its owner lives."""
    interface = {
        "version": 3,
        "data": (address, not is_writable),
        "shape": shape,
        "strides": strides_bytes,
        "typestr": dtype.str,
    }
    array = np.asarray(_Memory(interface))
    return array.view(dtype) if dtype.kind == "V" else array


class _Memory:
    """Memory that NumPy is told about."""

    __slots__ = ("__array_interface__",)

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface
