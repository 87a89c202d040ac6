"""Operands: the bytes of the caller's arrays, as native code may use them.

`bind_operand` turns a value of any supported kind into a `BoundOperand`: an address and the room
before and after it. It never copies. A value whose bytes cannot be used as they stand is refused
with the rule it breaks.

Kinds: NumPy and ml_dtypes arrays, PyTorch CPU tensors, DLPack, the array interface, the buffer
protocol.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Never

import numpy as np

from teir.arrays.integers import as_integer
from teir.arrays.numpy_fields import address_of, plain_view
from teir.arrays.torch_plain import is_tensor, not_plain
from teir.dtypes import DataType
from teir.errors import Rule, refuse


@dataclass(frozen=True, slots=True)
class Operand:
    """A buffer whose base address lies ``base_bytes`` after its first byte.

    Needed where offsets are negative: the base then has room before it.
    """

    buffer: Any
    base_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundOperand:
    """The bytes ``[address - before_bytes, address + after_bytes)``; ``address`` is the base.

    ``owner`` keeps the memory alive and is not otherwise used.
    """

    name: str
    address: int
    before_bytes: int
    after_bytes: int
    writable: bool
    owner: object


GIVEN = Rule(
    code="TEIR501",
    sentence="Every tensor of a program is given an array; None is not one.",
    source="docs/design.md 3, safe to run",
)
KIND = Rule(
    code="TEIR502",
    sentence="An operand exposes its bytes by the array interface, DLPack or the buffer protocol.",
    source="docs/design.md 3, safe to run",
)
CONTIGUOUS = Rule(
    code="TEIR503",
    sentence="An operand is contiguous; a program has its own strides.",
    source="docs/design.md 3, safe to run",
)
ELEMENT_TYPE = Rule(
    code="TEIR504",
    sentence="The elements of an operand have the tensor's data type, or are uint8.",
    source="docs/design.md 2, types",
)
BYTE_ORDER = Rule(
    code="TEIR505",
    sentence="The elements of an operand have the byte order of the machine.",
    source="docs/design.md 2, types",
)
WRITABLE = Rule(
    code="TEIR506",
    sentence="An operand the program writes is writable: results never go to a hidden copy.",
    source="docs/safety.md G9",
)
DEVICE = Rule(
    code="TEIR507",
    sentence="An operand lies in the memory of the CPU.",
    source="docs/safety.md G9",
)
BASE = Rule(
    code="TEIR508",
    sentence="base_bytes is an integer from 0 to the size of the buffer.",
    source="docs/design.md 3, safe to run",
)
PLAIN_VALUES = Rule(
    code="TEIR509",
    sentence="The bytes of an operand are its values: no mask, no lazy conjugate or negative, "
    "no recorded gradient, no sparse layout.",
    source="docs/safety.md G9",
)

OPERAND_RULES = (
    GIVEN,
    KIND,
    CONTIGUOUS,
    ELEMENT_TYPE,
    BYTE_ORDER,
    WRITABLE,
    DEVICE,
    BASE,
    PLAIN_VALUES,
)

_NATIVE = "<" if sys.byteorder == "little" else ">"
_TYPE_TEXT = {
    DataType.FP64: f"{_NATIVE}f8",
    DataType.FP32: f"{_NATIVE}f4",
    DataType.TF32: f"{_NATIVE}f4",
    DataType.FP16: f"{_NATIVE}f2",
    DataType.BF16: f"{_NATIVE}V2",
    DataType.C64: f"{_NATIVE}c8",
    DataType.C128: f"{_NATIVE}c16",
    DataType.I32: f"{_NATIVE}i4",
    DataType.I64: f"{_NATIVE}i8",
}
"""The array interface's name of the storage; all of ml_dtypes' 2-byte types share ``V2``."""

_DLPACK_CPU = 1


def bind_operand(name: str, value: Any, data_type: DataType, writable: bool) -> BoundOperand:
    """The bytes of ``value`` as the operand of tensor ``name``, without a copy.

    ``value`` is a contiguous array of the tensor's type, or of uint8, of any shape, or an
    `Operand` around one. ``writable`` says whether the program writes the tensor.
    Raises TeirError (TEIR501 to TEIR509).
    """
    base_bytes = 0
    if isinstance(value, Operand):
        value, base_bytes = value.buffer, value.base_bytes
    if type(value) is not np.ndarray:
        if is_tensor(value):
            return _bind_torch(name, value, base_bytes, data_type)
        value = _as_array(name, value)
    flags = value.flags
    type_text = value.dtype.str
    if (type_text != _TYPE_TEXT[data_type] or data_type is DataType.BF16) and type_text != "|u1":
        _require_element_type(name, value.dtype, data_type)
    if not flags.forc:
        _refuse_strides(name, value.shape, value.strides)
    is_writable = flags.writeable
    if writable and not is_writable:
        _refuse_read_only(name, "a read-only array")
    size_bytes = value.nbytes
    if type(base_bytes) is not int or base_bytes != 0:
        base_bytes = _require_base(name, base_bytes, size_bytes)
    return BoundOperand(
        name=name,
        address=address_of(value) + base_bytes,
        before_bytes=base_bytes,
        after_bytes=size_bytes - base_bytes,
        writable=is_writable,
        owner=value,
    )


def _in_memory(value: Any) -> str:
    """How the bytes of a value become an array."""
    for method in ("to_dense", "toarray", "todense"):
        if hasattr(value, method):
            return f"pass value.{method}(); teir.einsum takes sparse arrays as they are"
    return "numpy.asarray(value) makes an array of most values"


def _as_array(name: str, value: Any) -> np.ndarray[Any, Any]:
    """A view of a value that is not exactly a NumPy array."""
    if value is None:
        refuse(GIVEN, name, "an array", "None")
    if isinstance(value, np.ma.MaskedArray):
        refuse(PLAIN_VALUES, name, "an array without a mask", "a masked array", "pass .filled(...)")
    if isinstance(value, np.ndarray):
        return _view(name, value, plain_view)
    if _offers(name, value, "__array_interface__") or _offers(name, value, "__array_struct__"):
        return _view(name, value, np.asarray)
    if _offers(name, value, "__dlpack__"):
        _require_cpu(name, value)
        return _view(name, value, np.from_dlpack)
    if _offers(name, value, "__cuda_array_interface__"):
        refuse(DEVICE, name, "an array in CPU memory", "an array in GPU memory")
    try:
        view = memoryview(value)
    except TypeError:
        refuse(
            KIND,
            name,
            "an array (array interface, DLPack or buffer protocol)",
            f"a value of type {type(value).__name__}",
            _in_memory(value),
        )
    return _view(name, view, np.asarray)


def _offers(name: str, value: Any, protocol: str) -> bool:
    try:
        return hasattr(value, protocol)
    except Exception as error:  # third-party protocol code may raise anything
        refuse(
            KIND,
            name,
            f"an array whose {protocol} can be asked",
            f"{type(value).__name__}: {error}",
        )


def _view(
    name: str, value: Any, convert: Callable[[Any], np.ndarray[Any, Any]]
) -> np.ndarray[Any, Any]:
    try:
        return convert(value)
    except Exception as error:  # third-party protocol code may raise anything
        refuse(
            KIND,
            name,
            "an array NumPy can view",
            f"a value of type {type(value).__name__} it cannot ({error})",
        )


def _require_cpu(name: str, value: Any) -> None:
    try:
        kind = int(value.__dlpack_device__()[0])
    except Exception as error:  # third-party protocol code may raise anything
        refuse(KIND, name, "an array that names its device", f"{type(value).__name__}: {error}")
    if kind != _DLPACK_CPU:
        refuse(DEVICE, name, "an array in CPU memory", f"one on DLPack device type {kind}")


def _require_element_type(name: str, dtype: np.dtype[Any], data_type: DataType) -> None:
    if data_type is DataType.BF16 and dtype.name == "bfloat16" and dtype.isnative:
        return
    swapped = dtype.newbyteorder()
    if swapped.isnative and not dtype.isnative and swapped.str == _TYPE_TEXT[data_type]:
        refuse(
            BYTE_ORDER,
            name,
            f"{data_type.value} in the byte order of the machine",
            f"dtype {dtype.str}",
            "pass array.astype(array.dtype.newbyteorder('='))",
        )
    _refuse_element_type(name, data_type, f"dtype {dtype}")


def _refuse_element_type(name: str, data_type: DataType, found: str) -> Never:
    storage = "bfloat16" if data_type is DataType.BF16 else str(data_type.numpy_dtype())
    refuse(
        ELEMENT_TYPE,
        name,
        f"{storage} (tensor type {data_type.value}) or uint8",
        found,
        f"convert it: array.astype({storage!r})",
    )


def _refuse_strides(name: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Never:
    refuse(
        CONTIGUOUS,
        name,
        "a contiguous array",
        f"shape {tuple(shape)} with strides {tuple(strides)} bytes",
        "pass numpy.ascontiguousarray(array), or the whole buffer with the program's strides",
    )


def _refuse_read_only(name: str, found: str) -> Never:
    refuse(WRITABLE, name, "a writable array: the program writes this tensor", found)


def _require_base(name: str, base_bytes: object, size_bytes: int) -> int:
    base = None if isinstance(base_bytes, bool) else as_integer(base_bytes)
    if base is None or not 0 <= base <= size_bytes:
        refuse(BASE, name, f"base_bytes from 0 to {size_bytes}", f"{base_bytes!r}")
    return base


def _bind_torch(name: str, tensor: Any, base_bytes: int, data_type: DataType) -> BoundOperand:
    """Torch tensors by hand: NumPy knows no bfloat16 of theirs and DLPack costs microseconds."""
    if tensor.device.type != "cpu":
        refuse(DEVICE, name, "a tensor in CPU memory", f"one on {tensor.device}")
    reason = not_plain(tensor)
    if reason is not None:
        refuse(PLAIN_VALUES, name, "a plain tensor", *reason)
    found_type = str(tensor.dtype)
    storage = "bfloat16" if data_type is DataType.BF16 else str(data_type.numpy_dtype())
    if found_type not in (f"torch.{storage}", "torch.uint8"):
        _refuse_element_type(name, data_type, f"dtype {found_type}")
    width = tensor.element_size()
    if not tensor.is_contiguous():
        _refuse_strides(name, tensor.shape, tuple(width * stride for stride in tensor.stride()))
    size_bytes = tensor.numel() * width
    base_bytes = _require_base(name, base_bytes, size_bytes)
    return BoundOperand(
        name=name,
        address=tensor.data_ptr() + base_bytes,
        before_bytes=base_bytes,
        after_bytes=size_bytes - base_bytes,
        writable=True,
        owner=tensor,
    )
