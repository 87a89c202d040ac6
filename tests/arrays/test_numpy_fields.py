"""The addresses of arrays, read from their fields and asked by the array interface."""

from __future__ import annotations

import numpy as np
import pytest

from teir.arrays import numpy_fields
from teir.arrays.numpy_fields import address_of

ARRAYS = (
    np.zeros((3, 4)),
    np.zeros((3, 4), np.float32)[::-1, 1::2],
    np.zeros(()),
    np.zeros((0, 3), np.complex64),
    np.frombuffer(b"twelve bytes", np.uint8),
    np.arange(6, dtype=np.int64)[4:],
)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_the_address_is_that_of_the_array_interface(array: np.ndarray) -> None:
    assert address_of(array) == array.__array_interface__["data"][0]


def test_this_numpy_is_read() -> None:
    assert numpy_fields.READS_FIELDS


def test_another_numpy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.zeros((3, 4))[1:]
    monkeypatch.setattr(numpy_fields, "READS_FIELDS", False)
    assert address_of(array) == array.ctypes.data


def test_other_layouts_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_fields, "STRIDES_BYTES", numpy_fields.SHAPE_BYTES)
    assert not numpy_fields._reads_fields()
    monkeypatch.setattr(numpy_fields.sys.implementation, "name", "other")
    assert not numpy_fields._reads_fields()
