"""What native code looks at tensors of PyTorch with: functions of C, and of Python in C.

A tensor's memory is asked for by the exchange table of DLPack, which makes nothing; the bytes of
the storage behind it by two functions of PyTorch's C interface. The rest that makes a tensor
unusual (`teir.arrays.torch_plain`) is asked by functions of PyTorch. All of it is tried once on a
tensor whose answers are known: where one differs, or is not there, nothing is handed over.

Sources: DLPack 1.3, dlpack.h, DLPackExchangeAPI and DLTensor; PyTorch 2.13,
torch/csrc/inductor/aoti_torch/c/shim.h, whose handle points to a pointer to a TensorImpl.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, assert_never

import msgspec

from teir.arrays.torch_plain import as_arrays
from teir.dtypes import DataType

CPU, COMPLEX = 1, 5
"""kDLCPU, kDLComplex."""
_MAJOR = 1
_FROM_OBJECT = 5
"""The place in the exchange table, in words, of the function that fills a DLTensor."""


class DLTensor(ctypes.Structure):
    """A tensor as DLPack describes it: strides in elements, ``data_type`` of `dlpack_type`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("data_type", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset_bytes", ctypes.c_uint64),
    )


class TensorReading(msgspec.Struct, frozen=True, kw_only=True):
    """Functions of the PyTorch that is imported. Addresses are those of functions of C."""

    kinds: tuple[type, type]
    """Tensors are of one of these very types."""
    describe: int
    """``int (PyObject *, DLTensor *)``, 0 where the tensor has memory."""
    storage_bytes: int
    """``int (handle, int64_t *)``, 0 where it succeeded; so is the next."""
    storage_offset: int
    """In elements."""
    is_recording: Callable[[], Any]
    """True where PyTorch records gradients."""
    tell_written: Callable[[Any], Any]
    """Of a tuple of tensors."""
    conditions: tuple[Any, ...]
    """Functions, each followed by the object that it gives where tensors may be read: nothing is
    traced, and no tensor has a tangent."""


def dlpack_type(data_type: DataType) -> int:
    """Kind, bits and lanes of an element as the word of 32 bits that a DLTensor has."""
    match data_type:
        case DataType.I32 | DataType.I64:
            kind = 0
        case DataType.FP32 | DataType.FP64 | DataType.FP16 | DataType.TF32:
            kind = 2
        case DataType.BF16:
            kind = 4
        case DataType.C64 | DataType.C128:
            kind = COMPLEX
        case _:
            assert_never(data_type)
    return kind | 8 * data_type.width << 8 | 1 << 16


def tensor_reading() -> TensorReading | None:
    """Of the PyTorch that is imported; None where it lacks one of them."""
    torch = sys.modules.get("torch")
    if torch is None or sys.implementation.name != "cpython":
        return None
    try:
        return _reading(torch)
    except (AttributeError, OSError, ValueError):
        return None


def may_read(reading: TensorReading) -> bool:
    """Whether all its conditions hold now."""
    pairs = zip(reading.conditions[::2], reading.conditions[1::2], strict=True)
    return all(function() is expected for function, expected in pairs)


def _reading(torch: Any) -> TensorReading:
    native = torch._C
    # Its symbols are those of all libraries that it was linked with.
    library = ctypes.CDLL(native.__file__)
    tangents = torch.autograd.forward_ad
    is_included = native._dispatch_tls_is_dispatch_key_included
    conditions = (
        *(native._is_tracing, False),
        *(native._len_torch_dispatch_stack, 0),
        *(partial(is_included, native.DispatchKey.PreDispatch), False),
        *(partial(getattr, tangents, "_current_level"), -1),
    )
    return TensorReading(
        kinds=(torch.Tensor, torch.nn.Parameter),
        describe=_exchange_function(torch.Tensor.__dlpack_c_exchange_api__),
        storage_bytes=_address(library.aoti_torch_get_storage_size),
        storage_offset=_address(library.aoti_torch_get_storage_offset),
        is_recording=torch.is_grad_enabled,
        tell_written=native._increment_version,
        conditions=conditions,
    )


def _exchange_function(capsule: Any) -> int:
    """The function of an exchange table that fills a DLTensor. Raises ValueError without one."""
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = pointer_of(capsule, b"dlpack_exchange_api")
    version = ctypes.c_uint32.from_address(table).value
    function: int | None = ctypes.c_void_p.from_address(table + 8 * _FROM_OBJECT).value
    if version != _MAJOR or function is None:
        raise ValueError("expected the table of DLPack 1")
    return function


def _address(function: Any) -> int:
    found: int = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


def new_probe() -> Any:
    """A tensor that is a part of another, turned; None where PyTorch makes others now than it is
    asked for, as functions are transformed: those would not answer for plain ones."""
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunction():
        probe = torch.zeros(5, 3, dtype=torch.bfloat16, device="cpu")[1:4, ::2].T
        return None if as_arrays((probe,)) is None else probe


def answers_as_expected(reading: TensorReading, probe: Any) -> bool:
    """Asked of `new_probe`. The conditions of ``reading`` must hold."""
    try:
        return _answers(reading, probe)
    except (AttributeError, RuntimeError, TypeError):  # this PyTorch has another interface
        return False


def _answers(reading: TensorReading, probe: Any) -> bool:
    found, size, offset = DLTensor(), ctypes.c_int64(), ctypes.c_int64()
    describe = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(reading.describe)
    if describe(probe, ctypes.addressof(found)) != 0:
        return False
    handle = ctypes.c_void_p(probe._cdata)
    asked = ((reading.storage_bytes, size), (reading.storage_offset, offset))
    for address, number in asked:
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(address)
        if function(ctypes.addressof(handle), ctypes.addressof(number)) != 0:
            return False
    described = (found.data, found.device_type, found.dimensions, found.data_type)
    places = (found.shape[0], found.shape[1], found.strides[0], found.strides[1])
    return (
        described == (probe.data_ptr(), CPU, 2, dlpack_type(DataType.BF16))
        and places == (2, 3, 2, 3)
        and (size.value, offset.value, found.offset_bytes) == (30, 3, 0)
        and (probe.is_neg(), probe.is_conj(), probe.requires_grad) == (False, False, False)
    )
