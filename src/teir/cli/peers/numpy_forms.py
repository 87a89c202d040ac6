"""NumPy as a contender, and opt_einsum on NumPy's arrays."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from teir.cli.peers.case import Case
from teir.cli.peers.forms import Form, elementwise_forms, matrix_forms
from teir.cli.peers.matrix_form import reordered
from teir.cli.peers.operands import Array, Operands
from teir.dtypes import DataType

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
        yield "copyto", partial(np.copyto, out, reordered(inputs[0], case.inputs[0], case.output))
        return
    yield "einsum", partial(np.einsum, case.einsum, *inputs, optimize=True, out=out)
    if prod(case.extents.values()) <= _PLAIN_PRODUCTS:
        yield "plain einsum", partial(np.einsum, case.einsum, *inputs, out=out)
    yield from matrix_forms(case, operands, _itself, np.matmul, np.copyto)
    yield from elementwise_forms(case, operands, _itself, np.multiply)
    yield from _vecdot_forms(case, operands)


def _itself(array: Array) -> Array:
    return array


def _vecdot_forms(case: Case, operands: Operands) -> Iterator[Form]:
    """NumPy's own function for batches of dots."""
    if len(case.inputs) != 2 or case.inputs[0] != case.inputs[1]:
        return
    term = case.inputs[0]
    if len(term) == len(case.output) + 1 and term.startswith(case.output):
        yield "vecdot", partial(np.vecdot, *operands.inputs, out=operands.out)


def opt_einsum_forms(
    case: Case, data_type: DataType, operands: Operands, threads: int
) -> Iterator[Form]:
    """On NumPy arrays, the expression parsed beforehand."""
    import opt_einsum

    del threads
    if case.is_copy or data_type is DataType.BF16:
        return
    expression = opt_einsum.contract_expression(case.einsum, *case.shapes)
    call = partial(expression, *operands.inputs, backend="numpy")
    yield "contract", partial(call, out=operands.out) if case.output else call
