"""Calls on known arrays that native code cannot be handed as they are: NumPy's, or on copies.

    integers, booleans               ->  one call of NumPy, its arguments prepared
    strides of both signs on an axis ->  native code on contiguous copies

Arrays are known to have the types, shapes and strides planned for: nothing is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from string import ascii_letters
from typing import Any

import numpy as np

from teir.pipeline.problem import Problem

Array = np.ndarray[Any, Any]
Indirect = Callable[[Sequence[Array]], Any]
"""The new result for arrays known; NotImplemented where native code declines."""

_MOST_OPERANDS = 2
"""More are multiplied along a path of pairs, which takes longer than to look at them."""


def numpy_call(problem: Problem) -> Indirect | None:
    """The call of NumPy that computes the result of ``problem``, a scalar where it has no axes."""
    einsum, dtype = problem.bound.einsum, problem.out.dtype
    if len(einsum.inputs) > _MOST_OPERANDS or len(einsum.indices) > len(ascii_letters):
        return None
    letters = dict(zip(einsum.indices, ascii_letters, strict=False))
    terms = ["".join(letters[index] for index in one) for one in (*einsum.inputs, einsum.output)]
    text = f"{','.join(terms[:-1])}->{terms[-1]}"
    is_same = all(operand.dtype == dtype for operand in problem.operands)
    if len(terms) == 2 and set(terms[0]) == set(terms[1]):
        return partial(_moved, text, dtype)
    if is_same and terms[0] == terms[1] == terms[-1] and len(set(terms[0])) == len(terms[0]):
        return _multiplied
    return partial(_product, text) if is_same else partial(_converted, text, dtype)


def call_on_copies(problem: Problem, known: Callable[..., Any]) -> Indirect:
    """``known``, which takes contiguous copies of the operands that ``problem`` has copied."""
    dtypes = [one.dtype for one in problem.tensor_types()]
    wanted = [
        dtype if is_copied else None
        for dtype, is_copied in zip(dtypes, problem.copied, strict=False)
    ]
    return partial(_on_copies, known, tuple(wanted))


def _moved(text: str, dtype: np.dtype[Any], operands: Sequence[Array]) -> Any:
    """NumPy gives a view of an operand that is not summed, whatever type is asked for.

    Of an array of objects without axes it gives the object.
    """
    result = np.einsum(text, *operands)
    return result.astype(dtype, "C") if isinstance(result, (np.ndarray, np.generic)) else result


def _multiplied(operands: Sequence[Array]) -> Any:
    """In a seventh of the time that NumPy's einsum takes."""
    return np.multiply(*operands, order="C")


def _product(text: str, operands: Sequence[Array]) -> Any:
    return _in_order(np.einsum(text, *operands))


def _converted(text: str, dtype: np.dtype[Any], operands: Sequence[Array]) -> Any:
    return _in_order(np.einsum(text, *operands, dtype=dtype, casting="unsafe"))


def _in_order(result: Any) -> Any:
    """The result C-contiguous; asked for that order, NumPy takes up to four times as long.

    A sum of objects without axes is whatever they add up to, an integer of Python perhaps.
    """
    is_array = type(result) is np.ndarray
    return result.copy() if is_array and not result.flags.c_contiguous else result


def _on_copies(
    known: Callable[..., Any],
    wanted: Sequence[np.dtype[Any] | None],
    operands: Sequence[Array],
) -> Any:
    arrays = [
        operand if dtype is None else operand.astype(dtype, "C")
        for operand, dtype in zip(operands, wanted, strict=True)
    ]
    return known(*arrays)
