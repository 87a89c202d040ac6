"""Strided arrays of any library: what they are, where their elements lie, results in their kind.

Taken without a copy: NumPy arrays and memory maps, PyTorch CPU tensors, everything with the array
interface or DLPack on the CPU. Numbers and nested sequences become NumPy arrays. Refused, because
a result would silently lose something: masked arrays and other subclasses of `numpy.ndarray`
(masks, units, the matrix product of `numpy.matrix`), tensors that record gradients or are lazily
conjugated, sparse tensors, arrays on another device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache, partial
from typing import Any, Never

import msgspec
import numpy as np

from teir.arrays.numpy_fields import address_of, array_at, plain_view
from teir.arrays.torch_plain import not_plain
from teir.dtypes import DataType, data_type_of
from teir.errors import Rule, refuse

_SOURCE = "language reference, arrays"

ARRAY = Rule(
    code="TEIR621",
    sentence="An operand is an array, a number, or a nested sequence of numbers.",
    source=_SOURCE,
)
ELEMENTS = Rule(
    code="TEIR622",
    sentence="Elements are floating-point or complex numbers; integers, booleans and objects are "
    "left to NumPy.",
    source=_SOURCE,
)
NATIVE_ORDER = Rule(
    code="TEIR623",
    sentence="Elements have the byte order of the machine.",
    source=_SOURCE,
)
PLAIN = Rule(
    code="TEIR624",
    sentence="An operand is a plain array: no mask, no units, no recorded gradient, not lazy, "
    "not sparse.",
    source=_SOURCE,
)
ON_CPU = Rule(code="TEIR625", sentence="Operands are in CPU memory.", source=_SOURCE)

ADAPTER_RULES = (ARRAY, ELEMENTS, NATIVE_ORDER, PLAIN, ON_CPU)

_DLPACK_CPU = 1


class Kind(Enum):
    """Whose array it is; a result is returned in the kind of the first operand that has one."""

    NUMBER = "number"
    """A Python number or sequence: no kind of its own, results are NumPy arrays."""
    NUMPY = "numpy"
    TORCH = "torch"
    OTHER = "other"
    """An array of another library, viewed through DLPack or the array interface."""


class ArrayView(msgspec.Struct, frozen=True):
    """A strided array. ``data_type`` is None for elements that only NumPy computes with.

    ``array`` is the same memory as a NumPy array where NumPy has the type; ``owner`` is what the
    caller gave. Strides are bytes, the address is that of the element with index zero.
    """

    address: int
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    data_type: DataType | None
    dtype: np.dtype[Any]
    kind: Kind
    writable: bool
    array: np.ndarray[Any, Any] | None
    owner: Any

    @property
    def span_bytes(self) -> tuple[int, int]:
        """Lowest and one past the highest byte of the elements, relative to the address."""
        low = high = 0
        for extent, stride in zip(self.shape, self.strides_bytes, strict=True):
            if extent == 0:
                return 0, 0
            reach = stride * (extent - 1)
            low, high = (low + reach, high) if reach < 0 else (low, high + reach)
        return low, high + self.dtype.itemsize


def view_array(name: str, value: Any) -> ArrayView:
    """``value`` as strided memory, without a copy. Raises TeirError (TEIR621 to TEIR625)."""
    if type(value) is np.ndarray:
        return _numpy_view(name, value, Kind.NUMPY, value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _torch_view(name, value)
    if isinstance(value, np.ndarray):
        if type(value) is np.memmap:
            return _numpy_view(name, plain_view(value), Kind.NUMPY, value)
        _refuse_subclass(name, value)
    if isinstance(value, (int, float, complex, np.generic, list, tuple)):
        return _numpy_view(name, _converted(name, value), Kind.NUMBER, value)
    return _other_view(name, value)


NUMBERS = frozenset((int, float, complex, bool, list, tuple, *np.sctypeDict.values()))
"""Of what NumPy makes arrays of numbers without asking; a subclass may be more."""


def arrays_of_numbers(operands: Sequence[Any]) -> list[Any] | None:
    """The operands, numbers and sequences of them as arrays; None where there is none of these,
    and where one has no array, which `view_array` says."""
    if NUMBERS.isdisjoint(map(type, operands)):
        return None
    try:
        return [np.asarray(one) if type(one) in NUMBERS else one for one in operands]
    except Exception:  # conversion calls code of the elements
        return None


def _refuse_subclass(name: str, value: np.ndarray[Any, Any]) -> Never:
    is_masked = isinstance(value, np.ma.MaskedArray)
    refuse(
        PLAIN,
        name,
        "a plain array",
        f"a {type(value).__module__}.{type(value).__name__}",
        "pass .filled(0) or .data" if is_masked else "pass numpy.asarray(array)",
    )


def _converted(name: str, value: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(value)
    except Exception as error:  # conversion calls code of the elements
        refuse(ARRAY, name, "numbers of one shape", f"{type(value).__name__} ({error})")


def _numpy_view(name: str, array: np.ndarray[Any, Any], kind: Kind, owner: Any) -> ArrayView:
    dtype = array.dtype
    data_type = _computed_type(dtype)
    if data_type is None:
        _require_numpy_elements(name, dtype)
    return ArrayView(
        address_of(array),
        array.shape,
        array.strides,
        data_type,
        dtype,
        kind,
        array.flags.writeable,
        array,
        owner,
    )


@cache
def _computed_type(dtype: np.dtype[Any]) -> DataType | None:
    """The type of elements that generated code computes with."""
    data_type = data_type_of(dtype)
    return None if data_type is None or data_type.is_index else data_type


def _require_numpy_elements(name: str, dtype: np.dtype[Any]) -> None:
    if not dtype.isnative and dtype.kind in "fciu":
        refuse(
            NATIVE_ORDER,
            name,
            "the byte order of the machine",
            f"dtype {dtype.str}",
            "pass array.astype(array.dtype.newbyteorder('='))",
        )
    if dtype.kind not in "biufcO":
        refuse(ELEMENTS, name, "numbers", f"dtype {dtype}")


def _torch_view(name: str, tensor: Any) -> ArrayView:
    if tensor.device.type != "cpu":
        refuse(ON_CPU, name, "a tensor in CPU memory", f"one on {tensor.device}", "pass .cpu()")
    reason = not_plain(tensor)
    if reason is not None:
        refuse(PLAIN, name, "a plain tensor", *reason)
    type_name = str(tensor.dtype).removeprefix("torch.")
    width = tensor.element_size()
    data_type = _TORCH_TYPES.get(type_name)
    array = None
    if data_type is not None:
        element_type = data_type.numpy_dtype()
    else:
        try:
            array = tensor.detach().numpy()
        except TypeError:
            refuse(ELEMENTS, name, "numbers", f"dtype {tensor.dtype}")
        element_type = array.dtype
    return ArrayView(
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(stride * width for stride in tensor.stride()),
        data_type,
        element_type,
        Kind.TORCH,
        True,
        array,
        tensor,
    )


_TORCH_TYPES = {
    "float64": DataType.FP64,
    "float32": DataType.FP32,
    "bfloat16": DataType.BF16,
    "float16": DataType.FP16,
    "complex64": DataType.C64,
    "complex128": DataType.C128,
}


_TORCH_NAMES = {data_type: name for name, data_type in _TORCH_TYPES.items()}
_TORCH_NAMES |= {DataType.TF32: "float32", DataType.I32: "int32", DataType.I64: "int64"}


def _other_view(name: str, value: Any) -> ArrayView:
    if value is None:
        refuse(ARRAY, name, "an array", "None")
    if _offers(name, value, "__array_interface__") or _offers(name, value, "__array_struct__"):
        array = _protocol(name, value, np.asarray)
        return _numpy_view(name, array, Kind.OTHER, value)
    if _offers(name, value, "__dlpack__") and _offers(name, value, "__dlpack_device__"):
        device = _protocol(name, value, lambda one: int(one.__dlpack_device__()[0]))
        if device != _DLPACK_CPU:
            refuse(ON_CPU, name, "an array in CPU memory", f"DLPack device type {device}")
        array = _protocol(name, value, np.from_dlpack)
        return _numpy_view(name, array, Kind.OTHER, value)
    if _offers(name, value, "__cuda_array_interface__"):
        refuse(ON_CPU, name, "an array in CPU memory", "an array in GPU memory")
    if _offers(name, value, "__array__"):
        array = _protocol(name, value, np.asarray)
        return _numpy_view(name, array, Kind.NUMBER, value)
    found = f"a value of type {type(value).__name__}"
    return refuse(ARRAY, name, "an array", found, "pass numpy.asarray(value)")


def _offers(name: str, value: Any, protocol: str) -> bool:
    return bool(_protocol(name, value, lambda one: hasattr(one, protocol)))


def _protocol(name: str, value: Any, ask: Any) -> Any:
    try:
        return ask(value)
    except Exception as error:  # third-party protocol code may raise anything
        refuse(ARRAY, name, "an array NumPy can view", f"{type(value).__name__} ({error})")


def memory_of(view: ArrayView) -> np.ndarray[Any, Any]:
    """The elements of ``view`` as an array of NumPy, whoever owns them, while the owner lives.

    Tensors whose library refuses to write them here, and types that NumPy has no name for, too.
    """
    if view.array is not None:
        return view.array
    place = (view.address, view.shape, view.strides_bytes, view.dtype)
    return array_at(*place, is_writable=view.writable)


def new_array(kind: Kind, shape: tuple[int, ...], data_type: DataType) -> Any:
    """An uninitialised C-contiguous array: a tensor for TORCH, a NumPy array for all others.

    Raises MemoryError where there is not enough memory, TeirError (TEIR624) where PyTorch makes
    another tensor than it is asked for: a mode may change what `torch.empty` does.
    """
    if kind is not Kind.TORCH:
        return np.empty(shape, data_type.numpy_dtype())
    maker = empty_tensor(shape, data_type)
    assert maker is not None
    try:
        made = maker()
    except RuntimeError as error:
        raise MemoryError(str(error)) from None
    _require_as_asked(made, shape, _TORCH_NAMES[data_type])
    return made


def _require_as_asked(made: Any, shape: tuple[int, ...], name: str) -> None:
    if str(made.dtype) == f"torch.{name}" and made.shape == shape and made.is_contiguous():
        return
    refuse(
        PLAIN,
        "the new result",
        f"a contiguous tensor of torch.{name} and shape {shape}",
        f"one of {made.dtype} and shape {tuple(made.shape)}",
        "pass out=, or call outside of the mode that changes what torch.empty makes",
    )


def empty_tensor(shape: tuple[int, ...], data_type: DataType) -> Callable[[], Any] | None:
    """Makes uninitialised C-contiguous tensors; None where PyTorch is not imported. Raises
    RuntimeError where there is not enough memory."""
    torch = sys.modules.get("torch")
    if not hasattr(torch, "empty"):  # it may be being imported
        return None
    assert torch is not None
    dtype = getattr(torch, _TORCH_NAMES[data_type])
    return partial(torch.empty, shape, dtype=dtype, device=torch.device("cpu"))


def in_kind(result: np.ndarray[Any, Any], like: ArrayView) -> Any:
    """A NumPy result as an array of the library ``like`` came from, without a copy if it can.

    Libraries that offer ``__array_namespace__`` get it by their ``from_dlpack``; others get NumPy.
    """
    if like.kind is Kind.TORCH:
        return sys.modules["torch"].from_numpy(np.asarray(result))
    if like.kind is not Kind.OTHER or not hasattr(like.owner, "__array_namespace__"):
        return result
    namespace = like.owner.__array_namespace__()
    try:
        return namespace.from_dlpack(result)
    except (AttributeError, TypeError, BufferError, RuntimeError):
        return namespace.asarray(result)
