"""Calls of a plan with tensors of PyTorch: where they lie is all that native code needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from teir.arrays.adapters import Kind, new_array, torch_name
from teir.arrays.torch_plain import TensorType, plain_addresses, tell_written, tensor_type
from teir.pipeline.operand_types import OperandType
from teir.pipeline.room import no_room


class TensorCall(msgspec.Struct, frozen=True, kw_only=True):
    """Runs on plain tensors that lie as the arrays do that a plan was made for."""

    types: tuple[TensorType, ...]
    """Of the operands, then of the result."""
    at_addresses: Callable[..., Any]
    result: OperandType

    def run(self, operands: Sequence[Any], out: Any) -> Any:
        """``out``, or a new tensor; NotImplemented, and nothing written, for anything that has to
        be looked at closer. Raises TeirError where there is no room for a new one."""
        if len(operands) + 1 != len(self.types):
            return NotImplemented
        target = new_tensor(self.result) if out is None else out
        addresses = plain_addresses((*operands, target), self.types)
        if addresses is None or self.at_addresses(*addresses) is NotImplemented:
            return NotImplemented
        if out is not None:
            tell_written(out)
        return target


def tensor_call(
    operands: Sequence[OperandType], result: OperandType, at_addresses: Callable[..., Any]
) -> TensorCall | None:
    """None where no tensor lies as one of these arrays."""
    types = [_tensor_type(array) for array in (*operands, result)]
    found = tuple([one for one in types if one is not None])
    if len(found) < len(types):
        return None
    return TensorCall(types=found, at_addresses=at_addresses, result=result)


def _tensor_type(array: OperandType) -> TensorType | None:
    if array.data_type is None:
        return None
    name = f"torch.{torch_name(array.data_type)}"
    return tensor_type(name, array.dtype.itemsize, array.shape, array.strides_bytes)


def new_tensor(planned: OperandType) -> Any:
    """For a result of a type that tensors have. Raises TeirError where there is no room for it."""
    assert planned.data_type is not None
    try:
        return new_array(Kind.TORCH, planned.shape, planned.data_type)
    except MemoryError:
        raise no_room(planned) from None
