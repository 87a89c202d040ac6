"""16-bit numbers to FP32 and back: every pattern of bits, on every instruction set there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from teir.backends.llvm.converted_values import SHORT, converted_values
from teir.dtypes import DataType
from teir.target import Isa, host_target

HOST = host_target({}).isa
ISAS = sorted({Isa.PLAIN, HOST}, key=lambda isa: isa.value)


def converted(isa: Isa, data_type: DataType, given: Any, dtype: Any, count: int) -> Any:
    """The first numbers of ``given``; -1 behind them."""
    made = np.full(given.size, -1, dtype)
    convert = converted_values(isa, data_type, widens=given.dtype.itemsize == 2)
    convert(given.ctypes.data, count, made.ctypes.data)
    assert (made[count:] == -1).all()
    return made[:count]


def require_same(found: Any, wanted: Any) -> None:
    """Bit by bit; a NaN is a NaN."""
    width = np.dtype(f"u{found.dtype.itemsize}")
    is_nan = np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), is_nan)
    np.testing.assert_array_equal(found.view(width)[~is_nan], wanted.view(width)[~is_nan])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("data_type", SHORT)
@pytest.mark.parametrize("count", [0, 1, 31, 32, 65, 1 << 16])
def test_every_short_number(isa: Isa, data_type: DataType, count: int) -> None:
    given = np.arange(1 << 16, dtype=np.uint16).view(data_type.numpy_dtype())
    with np.errstate(invalid="ignore"):
        wanted = given.astype(np.float32)
    require_same(converted(isa, data_type, given, np.float32, count), wanted[:count])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("data_type", SHORT)
def test_rounding_to_nearest_even(isa: Isa, data_type: DataType) -> None:
    random = np.random.default_rng(7)
    drawn = random.integers(0, 1 << 32, 100_003, dtype=np.uint32)
    exact = np.arange(1 << 16, dtype=np.uint16).view(data_type.numpy_dtype()).astype(np.float32)
    ties = (exact.view(np.uint32) + random.integers(-1, 2, exact.size)).astype(np.uint32)
    half = exact.view(np.uint32) + np.uint32(0x1000 if data_type is DataType.FP16 else 0x8000)
    given = np.concatenate([drawn, ties, half]).view(np.float32)
    with np.errstate(all="ignore"):
        wanted = given.astype(data_type.numpy_dtype())
    require_same(
        converted(isa, data_type, given, data_type.numpy_dtype(), given.size),
        wanted,
    )
