"""Whether a tensor of PyTorch in CPU memory is a plain strided array, and why not.

A tensor may speak of elements that lie nowhere: those of a fake tensor while PyTorch traces, of a
batch that ``vmap`` maps over, of a wrapper around other tensors, of a storage that was given back.
Its address then is 0 or that of something else, and nothing must be read there. Others have a
derivative that would be lost without a word.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np

from teir.arrays.numpy_fields import MOST_AXES, array_at
from teir.dtypes import DataType


def is_tensor(value: Any) -> bool:
    """True for a tensor of PyTorch, which nobody imports for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def tell_written(value: Any) -> None:
    """Tell PyTorch of a write in place where ``value`` is a tensor: what its backward passes saved
    of it is no more, which they then refuse to compute with."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        torch.autograd.graph.increment_version((value,))


class TensorType(msgspec.Struct, frozen=True, gc=False):
    """What a plain tensor is like that lies in memory as some array does."""

    dtype: str
    """As PyTorch writes it."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    reach: int
    """From the first element to one past the last, in elements."""
    width: int
    """Bytes of an element."""
    is_complex: bool


def tensor_type(
    dtype: str, width: int, shape: tuple[int, ...], strides_bytes: tuple[int, ...]
) -> TensorType | None:
    """Of tensors that lie so; None where none does: of no elements, backwards, or between them."""
    if 0 in shape or any(stride < 0 or stride % width for stride in strides_bytes):
        return None
    strides = tuple([stride // width for stride in strides_bytes])
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return TensorType(dtype, shape, strides, sum(steps) + 1, width, "complex" in dtype)


def plain_addresses(tensors: Sequence[Any], wanted: Sequence[TensorType]) -> list[int] | None:
    """Where plain tensors of exactly these types begin; None where one is anything else.

    As `not_plain` asks, in a fifth of the time: one that is none must be looked at closer.
    """
    torch = sys.modules["torch"]
    if getattr(torch.autograd.forward_ad, "_current_level", -1) >= 0 or torch.jit.is_tracing():
        return None
    if _is_recorded():
        return None
    kinds = torch.Tensor, torch.nn.Parameter
    found = []
    try:
        for tensor, like in zip(tensors, wanted, strict=True):
            if (
                type(tensor) not in kinds
                or tensor.shape != like.shape
                or tensor.stride() != like.strides
                or str(tensor.dtype) != like.dtype
                or tensor.is_neg()
                or (like.is_complex and tensor.is_conj())
                or not tensor.is_cpu
                or (tensor.requires_grad and torch.is_grad_enabled())
            ):
                return None
            address = tensor.data_ptr()
            needed_bytes = (tensor.storage_offset() + like.reach) * like.width
            if not address or needed_bytes > tensor.untyped_storage().nbytes():
                return None
            found.append(address)
    except RuntimeError:  # sparse, nested, mapped, or a wrapper: something there has no answer
        return None
    return found


def as_arrays(values: Sequence[Any]) -> list[np.ndarray[Any, Any]] | None:
    """The memory of plain tensors as arrays of NumPy; None where one is no such tensor, or has a
    type that NumPy has no name for, or more axes than its arrays have."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    found = []
    for value in values:
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or not_plain(value) is not None:
            return None
        dtype = _dtype_named(str(value.dtype))
        if dtype is None or value.dim() > MOST_AXES:
            return None
        found.append(_as_array(value, dtype))
    return found


_OF_NUMPY = 1
"""``dtype.isbuiltin`` of a type that is NumPy's own."""


def _as_array(tensor: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """By its address: ``tensor.numpy()`` fixes the size of its storage for good, and goes through
    whatever mode of PyTorch is on."""
    strides = tuple([stride * dtype.itemsize for stride in tensor.stride()])
    return array_at(tensor.data_ptr(), tuple(tensor.shape), strides, dtype, is_writable=True)


@cache
def _dtype_named(name: str) -> np.dtype[Any] | None:
    """NumPy's type of a type of PyTorch."""
    if name == "torch.bfloat16":
        return DataType.BF16.numpy_dtype()
    try:
        dtype = np.dtype(name.removeprefix("torch."))
    except TypeError:
        return None
    # Those that ml_dtypes adds (float8_e5m2, complex32) have no letters that NumPy reads.
    return dtype if dtype.isbuiltin == _OF_NUMPY else None


def not_plain(tensor: Any) -> tuple[str, str | None] | None:
    """What it is instead, and what to pass; None for a plain tensor."""
    torch = sys.modules["torch"]
    if tensor.is_nested:
        return "a nested tensor", "pass its parts, or .to_padded_tensor(0)"
    if tensor.is_mkldnn:
        return "a tensor in the layout of MKL-DNN", "pass .to_dense()"
    if tensor.layout is not torch.strided:
        return "a sparse tensor", "pass .to_dense()"
    if torch.nn.parameter.is_lazy(tensor):
        return "a parameter that has no shape yet", "call its module first"
    missing = _missing_memory(tensor)
    if missing is not None:
        return missing
    if tensor.is_conj():
        return "a lazy conjugate", "pass .resolve_conj()"
    if tensor.is_neg():
        return "a lazy negative", "pass .resolve_neg()"
    return derivative(tensor)


def derivative(tensor: Any) -> tuple[str, str] | None:
    """Of what kind, where PyTorch would compute one of what is made of the tensor."""
    torch = sys.modules["torch"]
    if tensor.requires_grad and torch.is_grad_enabled():
        return "a tensor that records gradients", "pass .detach(), or call below torch.no_grad()"
    forward = torch.autograd.forward_ad
    if getattr(forward, "_current_level", -1) < 0 or forward.unpack_dual(tensor).tangent is None:
        return None
    return "a tensor with a tangent", "pass torch.autograd.forward_ad.unpack_dual(tensor).primal"


def _is_recorded() -> bool:
    """True while PyTorch writes down as a graph what is done to tensors, plain ones too: the graph
    would have no step for what native code does."""
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return proxies is not None and proxies.get_proxy_mode() is not None


def _missing_memory(tensor: Any) -> tuple[str, str | None] | None:
    try:
        storage = tensor.untyped_storage()
        size_bytes, address = storage.nbytes(), storage.device.type == "cpu" and tensor.data_ptr()
    except RuntimeError:  # as is NotImplementedError: there is no storage to speak of
        return "a tensor without memory of its own (mapped, or a wrapper)", None
    if address is False:
        return "a fake tensor (PyTorch is tracing)", None
    if _is_recorded():
        return "a tensor that is traced, whose result the graph would not have", None
    if type(tensor.numel()) is not int or any(type(extent) is not int for extent in tensor.shape):
        return "a tensor that is traced, whose result would be a constant of the trace", None
    if tensor.numel() and (address == 0 or _last_byte(tensor) > size_bytes):
        return "a tensor whose memory was given back, or was never there", None
    return None


def _last_byte(tensor: Any) -> int:
    """One past the last byte of the elements, from the start of the storage."""
    reach = tensor.numel() - 1
    if not tensor.is_contiguous():
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        reach = sum((extent - 1) * stride for extent, stride in steps)
    last: int = (tensor.storage_offset() + reach + 1) * tensor.element_size()
    return last
