"""Tensors of PyTorch in calls with sparse operands: the same arrays for the same tensor.

Calls are known by the identity of their operands. A tensor gives new objects for its parts every
time it is asked: what was made of it is kept while it lives and its parts lie where they lay.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.arrays.numpy_fields import address_of
from teir.arrays.sparse import Sparse
from teir.arrays.sparse_adapters import adapt, torch_values
from teir.arrays.torch_plain import derivative, not_plain, tell_written
from teir.errors import TeirError
from teir.pipeline.sparse_operands import is_walkable
from teir.runtime.runtime import current


@dataclass(frozen=True, slots=True)
class _Seen:
    """A tensor in compressed rows, and where its parts lie."""

    tensor: weakref.ref[Any]
    parts: tuple[int, ...]
    made: Sparse


def in_tensors(
    operands: Sequence[Any], out: Any, compute: Callable[[Sequence[Any], Any], Any]
) -> Any:
    """What ``compute(operands, out)`` gives for these operands, a tensor where one of them is."""
    result = _in_tensors(operands, out, compute)
    if out is not None:
        tell_written(out)
    return result


def _in_tensors(
    operands: Sequence[Any], out: Any, compute: Callable[[Sequence[Any], Any], Any]
) -> Any:
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(one, torch.Tensor) for one in operands):
        return compute(operands, out)
    views = [_view(one) if isinstance(one, torch.Tensor) else one for one in operands]
    if any(view is None for view in views):
        return compute(operands, out)
    is_plain = isinstance(out, torch.Tensor) and _is_dense(out) and _is_plain(out)
    view = _dense_view(out) if is_plain else None
    try:
        made = compute(views, out if view is None else view)
    except TeirError:
        if not any(isinstance(view, Sparse) for view in views):
            raise
        # Rows may have been changed in place, to columns out of order: tensors are sorted.
        return compute(operands, out)
    if out is not None:
        return out
    return made if isinstance(made, Sparse) else as_tensor(made)


def as_tensor(array: Any) -> Any:
    """The array as a tensor of PyTorch that shares its memory."""
    torch = sys.modules["torch"]
    array = np.asarray(array, order="C")
    if array.dtype.kind == "V":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _view(tensor: Any) -> Any:
    """Its memory as an array or as rows; None where each call has to look or to convert."""
    if not _is_plain(tensor):
        return None
    match str(tensor.layout):
        case "torch.strided":
            return _dense_view(tensor)
        case "torch.sparse_csr":
            return _rows(tensor)
        case _:
            return None


def _dense_view(tensor: Any) -> Any:
    """As an array; None of a type that NumPy does not know, which is refused later."""
    try:
        return torch_values(tensor)
    except TypeError:
        return None


def _is_plain(tensor: Any) -> bool:
    if tensor.device.type != "cpu":
        return False
    return (not_plain(tensor) if _is_dense(tensor) else derivative(tensor)) is None


def _is_dense(tensor: Any) -> bool:
    return str(tensor.layout) == "torch.strided"


def _rows(tensor: Any) -> Sparse | None:
    parts = tensor.crow_indices(), tensor.col_indices(), tensor.values()
    seen = tuple(number for part in parts for number in (part.data_ptr(), part.numel()))
    views = current().once("rows of tensors", dict[int, _Seen])
    known = views.get(id(tensor))
    if known is not None and known.tensor() is tensor and known.parts == seen:
        return known.made
    if parts[0].dim() != 1 or parts[2].dim() != 1:
        return None
    made = adapt("tensor", tensor, checked=False)
    if not is_walkable(made) or not _shares_memory(made, parts):
        return None
    key = id(tensor)
    views[key] = _Seen(weakref.ref(tensor, lambda _: views.pop(key, None)), seen, made)
    return made


def _shares_memory(made: Sparse, parts: Sequence[Any]) -> bool:
    """True where nothing was converted: a copy would not change with the tensor."""
    rows = made.stored[-1]
    assert rows is not None
    arrays = (rows.pos, rows.crd, made.values)
    return all(
        address_of(array) == part.data_ptr() and array.dtype.itemsize == part.element_size()
        for array, part in zip(arrays, parts, strict=True)
    )
