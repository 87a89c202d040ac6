"""Arrays in GPU memory as operands, without copies: CuPy, PyTorch, and whatever speaks DLPack.

A tensor of a program is bytes: an array gives its address and its size, and must be dense. NumPy
has no BF16, so the CUDA array interface cannot say it: PyTorch tensors are asked directly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from teir.arrays.operand import BoundOperand
from teir.arrays.torch_plain import is_tensor
from teir.backends.cuda.rules import DEVICE_ARRAY
from teir.dtypes import DataType
from teir.errors import refuse
from teir.ir.nodes import Program

_CUDA_DEVICES = (2, 13)
"""DLPack device types: CUDA, CUDA managed."""
LEGACY_STREAM = 1
"""The default stream as DLPack and the CUDA array interface say it; 0 is not allowed there."""
_DLPACK_CODES = {"FP": 2, "TF": 2, "BF": 4, "C1": 5, "C6": 5}


def bind_device_array(name: str, value: Any, data_type: DataType, stream: int) -> BoundOperand:
    """``value`` as the operand ``name``: the whole array, its first byte the base address.

    Who speaks DLPack is told that ``stream`` (a CUstream as integer) will use the array, and orders
    it after its own work. Raises TeirError (TEIR726) for arrays elsewhere, of another type, with
    gaps or off their elements' alignment.
    """
    if is_tensor(value):
        return _torch_operand(name, value, data_type)
    if hasattr(value, "__cuda_array_interface__"):
        return _interface_operand(name, value, data_type)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack_operand(name, value, data_type, stream)
    found = f"a value of type {type(value).__name__}"
    return refuse(DEVICE_ARRAY, name, "an array in GPU memory", found)


def bound_operands(
    program: Program, operands: Mapping[str, Any], stream: int
) -> dict[str, BoundOperand]:
    """`bind_device_array` for every tensor of ``program`` that ``operands`` names."""
    return {
        tensor.name: bind_device_array(tensor.name, operands[tensor.name], tensor.data_type, stream)
        for tensor in program.tensors
        if tensor.name in operands
    }


def producing_stream(value: Any) -> int | None:
    """The stream on which work on ``value`` may still be under way, where its interface says one.

    The CUDA array interface leaves it to the consumer to wait for that stream (version 3).
    """
    if is_tensor(value):
        return None
    interface = getattr(value, "__cuda_array_interface__", None)
    stream = None if interface is None else interface.get("stream")
    return None if stream is None else int(stream)


def _operand(
    name: str, address: int, size_bytes: int, writable: bool, owner: object, data_type: DataType
) -> BoundOperand:
    if address % data_type.width:
        found = f"address {address:#x}"
        refuse(DEVICE_ARRAY, name, f"an address that is a multiple of {data_type.width}", found)
    return BoundOperand(
        name=name,
        address=address,
        before_bytes=0,
        after_bytes=size_bytes,
        writable=writable,
        owner=owner,
    )


def _torch_operand(name: str, tensor: Any, data_type: DataType) -> BoundOperand:
    if not tensor.is_cuda:
        refuse(DEVICE_ARRAY, name, "a tensor in GPU memory", f"one on {tensor.device}")
    type_name = str(tensor.dtype).removeprefix("torch.")
    if type_name != data_type.numpy_dtype().name:
        refuse(DEVICE_ARRAY, name, data_type.numpy_dtype().name, type_name)
    _check_dense(name, tuple(tensor.shape), tuple(tensor.stride()))
    size = tensor.numel() * tensor.element_size()
    return _operand(name, tensor.data_ptr(), size, True, tensor, data_type)


def _interface_operand(name: str, value: Any, data_type: DataType) -> BoundOperand:
    entry = value.__cuda_array_interface__
    wanted = data_type.numpy_dtype()
    kinds = {wanted.str} | ({"<u2", "<V2"} if data_type is DataType.BF16 else set())
    if entry["typestr"] not in kinds:
        refuse(DEVICE_ARRAY, name, wanted.name, entry["typestr"])
    shape, strides = tuple(entry["shape"]), entry.get("strides")
    if strides is not None:
        _check_dense(name, shape, tuple(one // wanted.itemsize for one in strides))
    address, is_read_only = entry["data"]
    size = prod(shape) * wanted.itemsize
    return _operand(name, address, size, not is_read_only, value, data_type)


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _dlpack_operand(name: str, value: Any, data_type: DataType, stream: int) -> BoundOperand:
    kind = int(value.__dlpack_device__()[0])
    if kind not in _CUDA_DEVICES:
        refuse(DEVICE_ARRAY, name, "an array in GPU memory", f"DLPack device type {kind}")
    capsule = value.__dlpack__(stream=stream or LEGACY_STREAM)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = ctypes.cast(pointer(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    code, bits = _DLPACK_CODES[data_type.value[:2]], data_type.width * 8
    if (tensor.type.code, tensor.type.bits, tensor.type.lanes) != (code, bits, 1):
        found = f"DLPack type {tensor.type.code}, {tensor.type.bits} bits"
        refuse(DEVICE_ARRAY, name, data_type.value, found)
    shape = tuple(tensor.shape[: tensor.rank])
    if tensor.strides:
        _check_dense(name, shape, tuple(tensor.strides[: tensor.rank]))
    address = (tensor.data or 0) + tensor.byte_offset
    # The capsule owns the memory until it goes; it goes with the operand.
    return _operand(name, address, prod(shape) * data_type.width, True, capsule, data_type)


def _check_dense(name: str, shape: Sequence[int], strides: Sequence[int]) -> None:
    """No gaps: sorted by stride, every axis begins where the one inside it ends."""
    step = 1
    for stride, extent in sorted(zip(strides, shape, strict=True)):
        if extent == 1:
            continue
        if stride != step:
            refuse(DEVICE_ARRAY, name, "an array without gaps", f"strides {tuple(strides)}")
        step *= extent
