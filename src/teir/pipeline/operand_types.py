"""What a plan needs to know of arrays, and the type of a result as it is asked for or promoted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from teir.arrays.adapters import ArrayView
from teir.dtypes import DataType, data_type_of
from teir.errors import ArgumentPlace, Finding, Rule, TeirError

RESULT_TYPE = Rule(
    code="TEIR613",
    sentence="dtype names a numeric type: complex where an operand is complex, "
    "floating-point or complex where an operand is floating-point.",
    source="language reference, einsum",
)
COMMON_TYPE = Rule(
    code="TEIR620",
    sentence="Operands have a common type as NumPy promotes types, or dtype names one.",
    source="numpy.result_type",
)


_DTYPE = attrgetter("dtype")


class OperandType(msgspec.Struct, frozen=True, gc=False):
    """What a plan needs to know of an array: types, shape, strides in bytes."""

    data_type: DataType | None
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]

    @property
    def span_bytes(self) -> tuple[int, int]:
        """Lowest and one past the highest byte of the elements, relative to the first one."""
        low = high = 0
        for stride, extent in zip(self.strides_bytes, self.shape, strict=True):
            reach = stride * (extent - 1)
            if reach < 0:
                low += reach
            else:
                high += reach
        return low, high + self.dtype.itemsize


def operand_type(view: ArrayView) -> OperandType:
    return OperandType(view.data_type, view.dtype, view.shape, view.strides_bytes)


def contiguous(data_type: DataType, shape: Sequence[int]) -> OperandType:
    """The type of a C-contiguous array."""
    return _dense(data_type, data_type.numpy_dtype(), shape)


def contiguous_numpy(dtype: np.dtype[Any], shape: Sequence[int]) -> OperandType:
    """The type of a C-contiguous array of elements that only NumPy computes with."""
    return _dense(None, dtype, shape)


def _dense(data_type: DataType | None, dtype: np.dtype[Any], shape: Sequence[int]) -> OperandType:
    stride = dtype.itemsize
    strides = []
    for extent in reversed(shape):
        strides.append(stride)
        stride *= extent or 1
    return OperandType(data_type, dtype, tuple(shape), tuple(reversed(strides)))


def stored_type(data_type: DataType) -> DataType:
    """The type arrays have: TF32 is computed with, never stored."""
    return DataType.FP32 if data_type is DataType.TF32 else data_type


def result_type(operands: Sequence[OperandType], dtype: object) -> DataType | np.dtype[Any]:
    """The type of the result: as asked for, else as NumPy promotes the operands' types.

    Raises TeirError: a dtype that is none, or that would drop imaginary or fractional parts
    (TEIR613); types without a common one where none is asked for (TEIR620).
    """
    if dtype is None:
        common = common_type(list(map(_DTYPE, operands)))
        data_type = data_type_of(common)
        return common if data_type is None or data_type.is_index else data_type
    wanted = asked_type(dtype)
    require_imaginary_parts(wanted, dtype, map(_DTYPE, operands))
    is_whole = wanted.is_index if isinstance(wanted, DataType) else wanted.kind in "biu"
    if is_whole and any(_has_fractions(operand) for operand in operands):
        raise _type_refusal("a floating-point type", f"{dtype!r} for floating-point operands")
    return wanted


def require_imaginary_parts(
    wanted: DataType | np.dtype[Any], dtype: object, given: Iterable[np.dtype[Any]]
) -> None:
    """Raises TeirError (TEIR613) where ``wanted``, asked for by ``dtype``, would drop them."""
    is_complex = any(one.kind == "c" for one in given)
    wanted_complex = wanted.is_complex if isinstance(wanted, DataType) else wanted.kind in "cO"
    if is_complex and not wanted_complex:
        raise _type_refusal("a complex type", f"{dtype!r} for complex operands")


def _has_fractions(operand: OperandType) -> bool:
    data_type = operand.data_type
    return operand.dtype.kind == "f" or (data_type is not None and not data_type.is_index)


def common_type(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """All types at once: promoting pair by pair gives other types (uint8, int8 and float16).

    Raises TeirError (TEIR620) where there is none.
    """
    if dtypes.count(dtypes[0]) == len(dtypes):
        return dtypes[0]
    try:
        return np.result_type(*dtypes)
    except np.exceptions.DTypePromotionError:
        found = " and ".join(dict.fromkeys(str(dtype) for dtype in dtypes))
        finding = Finding(
            rule=COMMON_TYPE,
            place=ArgumentPlace(name="operands"),
            expected="types with a common one",
            found=found,
            hint="pass dtype= to name the type of the computation",
        )
        raise TeirError((finding,)) from None


def asked_type(dtype: Any) -> DataType | np.dtype[Any]:
    if isinstance(dtype, DataType):
        if dtype.is_index:
            return dtype.numpy_dtype()
        return dtype
    name = str(dtype).removeprefix("torch.")
    if name in ("bfloat16", "bf16", "BF16"):
        return DataType.BF16
    if name.upper() in DataType.__members__ and not DataType[name.upper()].is_index:
        return DataType[name.upper()]
    try:
        asked = np.dtype(name if str(dtype).startswith("torch.") else dtype)
    except (TypeError, ValueError):  # the second of objects that have a dtype, such as tensors
        raise _type_refusal("a data type", repr(dtype)) from None
    data_type = data_type_of(asked)
    if data_type is not None and not data_type.is_index:
        return data_type
    if not asked.isnative or asked.kind not in "biufcO":
        raise _type_refusal("a numeric type in the byte order of the machine", repr(dtype))
    return asked


def _type_refusal(expected: str, found: str) -> TeirError:
    place = ArgumentPlace(name="dtype")
    return TeirError((Finding(rule=RESULT_TYPE, place=place, expected=expected, found=found),))
