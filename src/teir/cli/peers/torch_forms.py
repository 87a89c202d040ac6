"""PyTorch on the CPU as a contender, and opt_einsum on its tensors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from teir.cli.peers.case import Case
from teir.cli.peers.forms import Form, elementwise_forms, matrix_forms
from teir.cli.peers.operands import Array, Operands
from teir.dtypes import DataType


def torch_forms(
    case: Case, data_type: DataType, operands: Operands, threads: int
) -> Iterator[Form]:
    """Einsum, matrix products on views and on packed copies, multiply, copy."""
    import torch

    torch.set_num_threads(threads)
    inputs = [as_torch(array, data_type) for array in operands.inputs]
    if case.is_copy:
        axes = [case.inputs[0].index(index) for index in case.output]
        target, source = as_torch(operands.out, data_type), inputs[0].permute(axes)
        yield "copy_", lambda: _fill(target, source)
        return
    yield "einsum", partial(torch.einsum, case.einsum, *inputs)
    convert = partial(as_torch, data_type=data_type)
    yield from matrix_forms(case, operands, convert, torch.matmul, _fill)
    yield from elementwise_forms(case, operands, convert, torch.mul)


def _fill(target: Any, source: Any) -> None:
    target.copy_(source)


def as_torch(array: Array, data_type: DataType) -> Any:
    """A tensor over the same memory."""
    import torch

    if data_type is DataType.BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def opt_einsum_torch_forms(
    case: Case, data_type: DataType, operands: Operands, threads: int
) -> Iterator[Form]:
    """On PyTorch tensors, the expression parsed beforehand."""
    import opt_einsum
    import torch

    torch.set_num_threads(threads)
    if case.is_copy:
        return
    expression = opt_einsum.contract_expression(case.einsum, *case.shapes)
    tensors = [as_torch(array, data_type) for array in operands.inputs]
    yield "contract", partial(expression, *tensors, backend="torch")
