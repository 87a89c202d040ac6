"""The data types of the IR and their storage.

A data type fixes three things: the width of one stored element in bytes, the type an accumulator
keeps while a kernel runs, and the unit roundoff of both. TF32 is FP32 storage whose product inputs
are rounded to 10 mantissa bits; BF16, FP16 and TF32 accumulate in FP32.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, assert_never

if TYPE_CHECKING:
    import numpy as np


_WIDTHS_BYTES = {
    "FP64": 8,
    "FP32": 4,
    "TF32": 4,
    "BF16": 2,
    "FP16": 2,
    "C64": 8,
    "C128": 16,
    "I32": 4,
    "I64": 8,
}


class DataType(Enum):
    """Element type of a tensor; the value is the name used on disk and in the text form."""

    width: int
    """Bytes of one stored element."""
    accumulator: DataType
    """The type in which sums of products of this type are kept."""
    is_index: bool
    """True for the integer types, which only index arrays of sparse axes may have."""
    is_complex: bool
    """True for numbers of a real and an imaginary part."""
    is_narrow: bool
    """True for a type that is stored in fewer bytes than it is summed in."""

    FP64 = "FP64"
    FP32 = "FP32"
    TF32 = "TF32"
    BF16 = "BF16"
    FP16 = "FP16"
    C64 = "C64"
    C128 = "C128"
    I32 = "I32"
    I64 = "I64"

    __hash__ = object.__hash__

    def __init__(self, spelling: str) -> None:
        self.width = _WIDTHS_BYTES[spelling]
        self.is_index = spelling in ("I32", "I64")
        self.is_complex = spelling in ("C64", "C128")

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of one rounding to the stored type (round to nearest)."""
        match self:
            case DataType.FP64 | DataType.C128:
                return 2.0**-53
            case DataType.FP32 | DataType.TF32 | DataType.C64:
                return 2.0**-24
            case DataType.BF16:
                return 2.0**-8
            case DataType.FP16:
                return 2.0**-11
            case DataType.I32 | DataType.I64:
                return 0.0
            case _:
                assert_never(self)

    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the storage (``ml_dtypes.bfloat16`` for BF16)."""
        return _numpy_dtype(self)


_WIDER = {
    DataType.TF32: DataType.FP32,
    DataType.BF16: DataType.FP32,
    DataType.FP16: DataType.FP32,
}
"""Types whose sums are kept in another one."""
for _data_type in DataType:
    _data_type.accumulator = _WIDER.get(_data_type, _data_type)
    _data_type.is_narrow = _data_type.accumulator.width > _data_type.width


@lru_cache(maxsize=64)
def _numpy_dtype(data_type: DataType) -> np.dtype[Any]:
    import numpy as np

    match data_type:
        case DataType.FP64:
            return np.dtype(np.float64)
        case DataType.FP32 | DataType.TF32:
            return np.dtype(np.float32)
        case DataType.FP16:
            return np.dtype(np.float16)
        case DataType.BF16:
            import ml_dtypes

            bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return bfloat16
        case DataType.C64:
            return np.dtype(np.complex64)
        case DataType.C128:
            return np.dtype(np.complex128)
        case DataType.I32:
            return np.dtype(np.int32)
        case DataType.I64:
            return np.dtype(np.int64)
        case _:
            assert_never(data_type)


@lru_cache(maxsize=64)
def data_type_of(dtype: np.dtype[Any]) -> DataType | None:
    """The data type whose storage is ``dtype`` (native byte order), or None if there is none."""
    if not dtype.isnative:
        return None
    return _BY_NUMPY_NAME.get(dtype.name)


_BY_NUMPY_NAME = {
    "float64": DataType.FP64,
    "float32": DataType.FP32,
    "bfloat16": DataType.BF16,
    "float16": DataType.FP16,
    "complex64": DataType.C64,
    "complex128": DataType.C128,
    "int32": DataType.I32,
    "int64": DataType.I64,
}
