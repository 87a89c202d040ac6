"""Results of calls with tensors of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from teir.arrays.adapters import Kind, empty_tensor, new_array
from teir.pipeline.operand_types import OperandType
from teir.pipeline.room import no_room


def new_tensor(planned: OperandType) -> Any:
    """For a result of a type that tensors have. Raises TeirError where there is no room for it."""
    assert planned.data_type is not None
    try:
        return new_array(Kind.TORCH, planned.shape, planned.data_type)
    except MemoryError:
        raise no_room(planned) from None


def tensor_maker(planned: OperandType) -> Callable[[], Any]:
    """Makes tensors as `new_tensor`, by a function of C alone where PyTorch is imported already;
    raises whatever that raises where there is no room."""
    maker = None if planned.data_type is None else empty_tensor(planned.shape, planned.data_type)
    return partial(new_tensor, planned) if maker is None else maker
