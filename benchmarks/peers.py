"""The peers: for every case the forms in which a careful user of a library would compute it.

A form is a call without arguments, with everything allocated, converted and parsed beforehand that
the library allows. It writes into ``out`` and returns None, or returns a new array. A library that
cannot express a case has no forms for it; a form that raises is no form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np
import opt_einsum
import pytblis
import torch
from etops_peer import etops_forms
from matrix_form import MatrixProduct, factors, matrix_product, reordered
from operands import Array, Operands
from rounds import Call

from cases import Case
from teir.dtypes import DataType

Form = tuple[str, Call]
Forms = Callable[[Case, DataType, Operands, int], Iterator[Form]]

_TORCH_TYPES = {DataType.BF16: torch.bfloat16}
_PLAIN_PRODUCTS = 1 << 24
"""Above this NumPy's own loops are not tried."""


def numpy_forms(
    case: Case, data_type: DataType, operands: Operands, threads: int
) -> Iterator[Form]:
    """Einsum, matrix products on views and on packed copies, multiply, vecdot, copyto."""
    del threads
    if data_type is DataType.BF16:
        return
    inputs, out = operands.inputs, operands.out
    if case.is_copy:
        source = reordered(inputs[0], case.inputs[0], case.output)
        yield "copyto", partial(np.copyto, out, source)
        return
    yield "einsum", partial(np.einsum, case.einsum, *inputs, optimize=True, out=out)
    if prod(case.extents.values()) <= _PLAIN_PRODUCTS:
        yield "plain einsum", partial(np.einsum, case.einsum, *inputs, out=out)
    yield from _matrix_forms(case, operands, lambda array: array, np.matmul, np.copyto)
    yield from _elementwise_forms(case, operands, lambda array: array, np.multiply)
    yield from _vector_forms(case, operands)


def _vector_forms(case: Case, operands: Operands) -> Iterator[Form]:
    """NumPy's own functions for batches of dots."""
    if len(case.inputs) != 2 or case.inputs[0] != case.inputs[1]:
        return
    term = case.inputs[0]
    if len(term) == len(case.output) + 1 and term.startswith(case.output):
        yield "vecdot", partial(np.vecdot, *operands.inputs, out=operands.out)


def torch_forms(
    case: Case, data_type: DataType, operands: Operands, threads: int
) -> Iterator[Form]:
    """Einsum, matrix products on views and on packed copies, multiply, copy."""
    torch.set_num_threads(threads)
    inputs = [as_torch(array, data_type) for array in operands.inputs]
    if case.is_copy:
        axes = [case.inputs[0].index(index) for index in case.output]
        yield "copy_", _quiet(as_torch(operands.out, data_type).copy_, inputs[0].permute(axes))
        return
    yield "einsum", partial(torch.einsum, case.einsum, *inputs)
    convert = partial(as_torch, data_type=data_type)
    yield from _matrix_forms(
        case, operands, convert, torch.matmul, lambda target, source: target.copy_(source)
    )
    yield from _elementwise_forms(case, operands, convert, torch.mul)


def as_torch(array: Array, data_type: DataType) -> torch.Tensor:
    """A tensor over the same memory."""
    if data_type is DataType.BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _matrix_forms(
    case: Case,
    operands: Operands,
    convert: Callable[[Array], Any],
    multiply: Callable[..., Any],
    fill: Callable[[Any, Any], Any],
) -> Iterator[Form]:
    for label, always_copy in (("matmul", False), ("packed matmul", True)):
        try:
            product = matrix_product(case, operands.inputs, operands.out, always_copy)
        except ValueError:
            return
        yield label, _matrix_call(product, convert, multiply, fill)


def _matrix_call(
    product: MatrixProduct,
    convert: Callable[[Array], Any],
    multiply: Callable[..., Any],
    fill: Callable[[Any, Any], Any],
) -> Call:
    before = [(convert(target), convert(source)) for target, source in product.before]
    after = [(convert(target), convert(source)) for target, source in product.after]
    left, right, result = (
        convert(array[0] if array.shape[0] == 1 else array)
        for array in (product.left, product.right, product.result)
    )

    def call() -> None:
        for target, source in before:
            fill(target, source)
        multiply(left, right, out=result)
        for target, source in after:
            fill(target, source)

    return call


def _elementwise_forms(
    case: Case,
    operands: Operands,
    convert: Callable[[Array], Any],
    multiply: Callable[..., Any],
) -> Iterator[Form]:
    try:
        first, second, *others = map(convert, factors(case, operands.inputs))
    except ValueError:
        return
    out = convert(operands.out)

    def call() -> None:
        multiply(first, second, out=out)
        for other in others:
            multiply(out, other, out=out)

    yield "multiply", call


def opt_einsum_forms(
    case: Case, data_type: DataType, operands: Operands, threads: int
) -> Iterator[Form]:
    """On NumPy arrays, the expression parsed beforehand."""
    del threads
    if case.is_copy or data_type is DataType.BF16:
        return
    expression = opt_einsum.contract_expression(case.einsum, *case.shapes)
    call = partial(expression, *operands.inputs, backend="numpy")
    yield "contract", partial(call, out=operands.out) if case.output else call


def opt_einsum_torch_forms(
    case: Case, data_type: DataType, operands: Operands, threads: int
) -> Iterator[Form]:
    """On PyTorch tensors."""
    torch.set_num_threads(threads)
    if case.is_copy:
        return
    expression = opt_einsum.contract_expression(case.einsum, *case.shapes)
    tensors = [as_torch(array, data_type) for array in operands.inputs]
    yield "contract", partial(expression, *tensors, backend="torch")


def tblis_forms(
    case: Case, data_type: DataType, operands: Operands, threads: int
) -> Iterator[Form]:
    """TBLIS by its own product where there are two operands, else by its einsum."""
    if data_type is DataType.BF16:
        return
    pytblis.set_num_threads(threads)
    inputs, out = operands.inputs, operands.out
    if case.is_copy:
        yield "add", partial(pytblis.add, inputs[0], out, case.inputs[0], case.output, 1.0, 0.0)
    elif len(inputs) == 2:
        left, right = case.inputs
        yield "mult", partial(pytblis.mult, *inputs, out, left, right, case.output, 1.0, 0.0)
    else:
        yield "einsum", _quiet(pytblis.einsum, case.einsum, *inputs, out=out)


def _quiet(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Call:
    """A call that returns None: the result is in ``out``."""
    bound = partial(function, *arguments, **keywords)

    def call() -> None:
        bound()

    return call


PEERS: dict[str, Forms] = {
    "NumPy": numpy_forms,
    "opt_einsum": opt_einsum_forms,
    "torch": torch_forms,
    "opt_einsum torch": opt_einsum_torch_forms,
    "TBLIS": tblis_forms,
    "etops": partial(etops_forms, tuned=False),
    "etops tuned": partial(etops_forms, tuned=True),
}
"""In the order of the tables."""
