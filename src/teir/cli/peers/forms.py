"""What a form of a peer is, and the forms that every matrix library has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from teir.cli.peers.case import Case
from teir.cli.peers.matrix_form import MatrixProduct, factors, matrix_product
from teir.cli.peers.operands import Array, Operands
from teir.cli.peers.rounds import Call
from teir.dtypes import DataType

Form = tuple[str, Call]
"""Its name, and a call without arguments: everything is allocated, converted and parsed
beforehand that the library allows. It writes into ``out`` and returns None, or returns a new
array."""

Forms = Callable[[Case, DataType, Operands, int], Iterator[Form]]
"""Case, type, operands and threads to forms; none where the library cannot express the case."""

Convert = Callable[[Array], Any]
"""The library's own view of an array."""


def matrix_forms(
    case: Case,
    operands: Operands,
    convert: Convert,
    multiply: Callable[..., Any],
    fill: Callable[[Any, Any], Any],
) -> Iterator[Form]:
    """Products of matrices on views where there are views, and on packed copies.

    ``multiply(a, b, out=)`` is the library's product of (batches of) matrices and
    ``fill(target, source)`` its copy.
    """
    for label, always_copy in (("matmul", False), ("packed matmul", True)):
        try:
            product = matrix_product(case, operands.inputs, operands.out, always_copy)
        except ValueError:
            return
        yield label, _matrix_call(product, convert, multiply, fill)


def _matrix_call(
    product: MatrixProduct,
    convert: Convert,
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


def elementwise_forms(
    case: Case, operands: Operands, convert: Convert, multiply: Callable[..., Any]
) -> Iterator[Form]:
    """Broadcast products, where no index is summed.

    The first of more than two factors has the shape of the result: not every library broadcasts
    into ``out``.
    """
    try:
        views = factors(case, operands.inputs)
    except ValueError:
        return
    if len(views) < 2:
        return
    if len(views) > 2:
        views = (_repeated(views[0], operands.out.shape), *views[1:])
    first, second, *others = map(convert, views)
    out = convert(operands.out)

    def call() -> None:
        multiply(first, second, out=out)
        for other in others:
            multiply(out, other, out=out)

    yield "multiply", call


def _repeated(array: Array, shape: tuple[int, ...]) -> Array:
    """A view with the shape that the array broadcasts to."""
    strides = np.broadcast_to(array, shape).strides
    return np.lib.stride_tricks.as_strided(array, shape, strides)
