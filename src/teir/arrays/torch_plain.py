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
    # The storage of zeros that lie nowhere begins at 0, a part of them after it.
    begins_nowhere = address == tensor.storage_offset() * tensor.element_size()
    if tensor.numel() and (address == 0 or begins_nowhere or _last_byte(tensor) > size_bytes):
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
