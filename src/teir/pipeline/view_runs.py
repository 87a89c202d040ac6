"""The result of a problem for arrays that were looked at: by native code, by NumPy, or zeros.

The result is in ``out`` if given, else in a new array of the kind of the first operand that is no
number. Operands and ``out`` are known to be those of the problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from teir.arrays.adapters import ArrayView, Kind, in_kind, memory_of, new_array, view_array
from teir.arrays.numpy_fields import address_of
from teir.errors import Rule, refuse
from teir.pipeline.executable import Executable
from teir.pipeline.indirect_calls import Indirect
from teir.pipeline.problem import Problem
from teir.pipeline.room import no_room

NUMPY_OPERANDS = Rule(
    code="TEIR644",
    sentence="Where NumPy computes the result there are at most 60 operands.",
    source="numpy.einsum",
)

_MOST_NUMPY_OPERANDS = 60


def run_native(
    problem: Problem, executable: Executable, views: Sequence[ArrayView], out: ArrayView | None
) -> Any:
    result = _new_result(problem, views) if out is None else None
    target = view_array("the new result", result) if out is None else out
    assert problem.contraction is not None
    addresses, copies = [], []
    for view, copied, factor in zip(views, problem.copied, problem.contraction.inputs, strict=True):
        if not copied:
            addresses.append(view.address)
            continue
        copy = _contiguous_copy(view, factor.tensor.data_type.numpy_dtype())
        copies.append(copy)
        addresses.append(address_of(copy))
    executable.run_addresses((*addresses, target.address))
    return _in_kind_of(views, result) if out is None else out.owner


def run_zeros(problem: Problem, views: Sequence[ArrayView], out: ArrayView | None) -> Any:
    if out is not None:
        memory_of(out)[...] = 0
        return out.owner
    result = _new_result(problem, views)
    result[...] = 0
    return _in_kind_of(views, result)


def run_numpy(
    problem: Problem,
    indirect: Indirect | None,
    is_bounded: bool,
    views: Sequence[ArrayView],
    out: ArrayView | None,
) -> Any:
    """By ``indirect`` where it serves; ``is_bounded`` where a memory limit was asked for."""
    if len(views) > _MOST_NUMPY_OPERANDS:
        expected = f"at most {_MOST_NUMPY_OPERANDS} for {problem.out.dtype}"
        hint = "pass dtype= to compute in a floating-point type"
        refuse(NUMPY_OPERANDS, "operands", expected, f"{len(views)}", hint)
    if out is None and indirect is not None and all(_is_plain(view) for view in views):
        made = indirect([view.owner for view in views])
        if made is not NotImplemented:
            return made
    # Intermediates of a path have no bound that holds; one nest of loops has none. An intermediate
    # of objects without axes is no array, which NumPy then takes for one.
    optimize = len(views) > 2 and not is_bounded and problem.out.dtype.kind != "O"
    arguments = _numpy_arguments(problem, views, is_converted=optimize)
    keywords: dict[str, Any] = {
        "dtype": problem.out.dtype,
        "casting": "unsafe",
        "optimize": optimize,
        "order": "C",
    }
    if out is not None:
        np.einsum(*arguments, out=out.array, **keywords)
        return out.owner
    try:
        result = np.einsum(*arguments, **keywords)
        # NumPy gives a view of a single operand that is not summed, whatever type is asked for.
        is_view = len(views) == 1
        result = np.array(result, problem.out.dtype, order="C", copy=True if is_view else None)
    except MemoryError:
        raise no_room(problem.out) from None
    like = _like(views)
    return in_kind(result, like) if like.kind in (Kind.TORCH, Kind.OTHER) else result[()]


def _numpy_arguments(
    problem: Problem, views: Sequence[ArrayView], *, is_converted: bool
) -> list[Any]:
    """Arrays and their indices by turns, and the indices of the result."""
    einsum, dtype = problem.bound.einsum, problem.out.dtype
    number = {index: place for place, index in enumerate(einsum.indices)}
    arguments: list[Any] = []
    for view, term in zip(views, einsum.inputs, strict=True):
        # A path promotes pair by pair: two factors of bool would meet as bool, whatever dtype says.
        array = np.asarray(view.array, dtype) if is_converted else view.array
        assert array is not None
        arguments += [array, [number[index] for index in term]]
    return [*arguments, [number[index] for index in einsum.output]]


def _new_result(problem: Problem, views: Sequence[ArrayView]) -> Any:
    assert problem.out.data_type is not None
    try:
        return new_array(_like(views).kind, problem.bound.output_shape, problem.out.data_type)
    except MemoryError:
        raise no_room(problem.out) from None


def _contiguous_copy(view: ArrayView, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    assert view.array is not None
    copy = np.ascontiguousarray(view.array, dtype)
    return copy.copy() if copy is view.array else copy


def _in_kind_of(views: Sequence[ArrayView], result: Any) -> Any:
    """A new result in the kind it was asked for; as NumPy's, one without axes is a scalar."""
    like = _like(views)
    match like.kind:
        case Kind.TORCH:
            return result
        case Kind.OTHER:
            return in_kind(result, like)
        case _:
            return result[()] if result.ndim == 0 else result


def _like(views: Sequence[ArrayView]) -> ArrayView:
    """The operand whose kind the result takes."""
    return next((view for view in views if view.kind is not Kind.NUMBER), views[0])


def _is_plain(view: ArrayView) -> bool:
    return type(view.owner) is np.ndarray
