"""Calls of `teir.einsum` made before: what they are kept by, and their plans called again.

A plan is kept by what a call asks for and by the type, shape and strides of every array. Nothing of
an expression, a keyword or a path is looked at a second time.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from teir.arrays.adapters import arrays_of_numbers
from teir.arrays.torch_plain import as_arrays, is_tensor
from teir.dtypes import DataType
from teir.pipeline.plan import Plan, call_declined_on_tensors, call_on_tensors
from teir.pipeline.plan_cache import PlanCache
from teir.pipeline.planning import callable_plan, kept_plans
from teir.search.path import path_value

_ndarray = np.ndarray
_COUNTS = (type(None), int)
_TYPES = (str, type, DataType)
"""Values of keywords that calls are kept by. True, which equals 1, is no count."""


def kept_plan(kept: PlanCache, signature: tuple[Any, ...]) -> Plan | None:
    """The plan kept by ``signature``, made callable; None where there is none."""
    plan = kept.plans.get(signature)
    if plan is None or plan.is_callable:
        return plan
    plan = callable_plan(plan)
    kept.keep(signature, plan)
    return plan


def called_again(
    asked: Hashable, arrays: Sequence[Any], out: Any
) -> tuple[Any, tuple[Any, ...] | None]:
    """The result of a call seen before, or NotImplemented; and what arrays of NumPy are kept by."""
    kept = kept_plans()
    latest = kept.latest.get(asked)
    if latest is not None:
        result = latest.call_known(arrays, out)
        if result is not NotImplemented:
            return result, None
    key: list[Any] = [asked]
    for array in arrays:
        if type(array) is not _ndarray:
            made = arrays_of_numbers(arrays)
            return (NotImplemented, None) if made is None else called_again(asked, made, out)
        key += (array.dtype, array.shape, array.strides)
    signature = tuple(key)
    plan = kept_plan(kept, signature)
    if plan is None:
        return NotImplemented, signature
    if plan is latest:
        return plan.call_declined(arrays, out), signature
    if plan.known is not None:
        kept.try_first(signature, plan)
    return plan.call_planned(arrays, out), signature


def called_on_tensors(
    asked: Hashable, tensors: Sequence[Any], out: Any
) -> tuple[Any, tuple[Any, ...] | None]:
    """As `called_again`, of plain tensors of PyTorch, whose memory is that of arrays."""
    if not is_tensor(tensors[0]):
        return NotImplemented, None
    kept, asked = kept_plans(), ("tensors", asked)
    latest = kept.latest.get(asked)
    if latest is not None:
        result = latest.call_known(tensors, out)
        if result is not NotImplemented:
            return result, None
    arrays = as_arrays(tensors)
    if arrays is None:
        return NotImplemented, None
    key: list[Any] = [asked]
    for array in arrays:
        key += (array.dtype, array.shape, array.strides)
    signature = tuple(key)
    plan = kept_plan(kept, signature)
    if plan is None:
        return NotImplemented, signature
    if plan is latest:
        return call_declined_on_tensors(plan, arrays, out), None
    if plan.known is not None:
        kept.try_first(signature, plan)
    result = plan.call_known(tensors, out)
    return call_on_tensors(plan, tensors, out) if result is NotImplemented else result, None


def call_with_keywords(
    asked: Hashable,
    makes_result: bool,
    dtype: Any,
    threads: Any,
    optimize: Any,
    memory_limit: Any,
    deterministic: Any,
) -> Hashable:
    """What a call with these keywords is kept by; None where one of them is no plain value."""
    if any(type(count) not in _COUNTS for count in (threads, memory_limit)):
        return None
    if type(optimize) not in (str, bool):
        optimize = path_value(optimize)
    if optimize is None or type(deterministic) is not str:
        return None
    if not (dtype is None or type(dtype) in _TYPES or isinstance(dtype, np.dtype)):
        return None
    return (asked, makes_result, dtype, threads, optimize, memory_limit, deterministic)


def call_in_sublists(arguments: tuple[Any, ...]) -> tuple[Hashable, Sequence[Any]]:
    """What a call in the sublist form is kept by, and its arrays; None where a list is none."""
    count = len(arguments) // 2 * 2
    lists = (*arguments[1:count:2], *arguments[count:])
    if any(type(one) is not list or any(type(item) is not int for item in one) for one in lists):
        return None, ()
    return (len(arguments) > count, *map(tuple, lists)), arguments[:count:2]
