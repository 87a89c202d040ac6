"""einsum and plan: the public functions on arrays.

    subscripts, arrays -> problem -> path -> program -> executable -> result

Plans are kept in memory by signature: expression, types, shapes and strides of every array,
threads. A call that was seen before is one look-up and one native call.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, overload

import numpy as np

from teir.arrays.adapters import NUMBERS, view_array
from teir.arrays.integers import as_integer
from teir.dtypes import DataType
from teir.errors import Finding, Rule, TeirError, at_argument, refuse
from teir.expr.index_notation_parsing import is_index_notation
from teir.expr.nodes import Subscripts
from teir.expr.parsing import parse_expression, parse_sublists, plain_subscripts
from teir.pipeline.call_checks import view_out
from teir.pipeline.determinism import Determinism, checked_determinism
from teir.pipeline.executable import thread_count
from teir.pipeline.kept_calls import (
    call_in_sublists,
    call_with_keywords,
    called_again,
    called_on_tensors,
    kept_plan,
)
from teir.pipeline.memory import checked_limit
from teir.pipeline.operand_types import (
    OperandType,
    asked_type,
    contiguous,
    contiguous_numpy,
    operand_type,
    stored_type,
)
from teir.pipeline.operands_apart import read_apart
from teir.pipeline.plan import Plan, run_planned, run_views
from teir.pipeline.planning import (
    Wishes,
    first_plan,
    kept_plans,
    plan_arrays,
    plan_types,
)
from teir.pipeline.sparse_einsum import require_no_path, sparse_calls, sparse_einsum, sparse_plan
from teir.pipeline.sparse_einsum import takes as takes_sparse
from teir.pipeline.sparse_plan import SparsePlan
from teir.pipeline.switches import checked_tune

SHAPES = Rule(
    code="TEIR616",
    sentence="plan takes an array or a shape (a tuple of non-negative integers) per operand.",
    source="language reference, plan",
)

_ndarray = np.ndarray


def einsum(
    subscripts: Any,
    *operands: Any,
    out: Any = None,
    dtype: Any = None,
    threads: int | None = None,
    optimize: Any = "auto",
    memory_limit: int | None = None,
    tune: bool = False,
    deterministic: str = "runs",
    out_levels: str | None = None,
    overlap: str = "refuse",
) -> Any:
    """NumPy's einsum, by generated code: ``einsum("ij,jk->ik", a, b)``.

    ``subscripts`` in NumPy's grammar with any number of symbols, the sublist form
    ``einsum(a, [0, 1], b, [1, 2], [0, 2])``, or an einsum tree
    ``einsum("[[i,k],[k,j]->[i,j]],[j,l]->[i,l]", a, b, c)``. Operands: NumPy arrays, PyTorch
    CPU tensors, anything with DLPack or the array interface, numbers. The result is a new
    C-contiguous array in the kind of the first array (never a view), or ``out``, written directly.
    ``dtype`` is the type of the computation and of the result, by default as NumPy promotes;
    `teir.DataType.TF32` computes float32 products in TF32. ``threads`` defaults to all usable
    cores. ``optimize`` is an opt_einsum path finder or its name, a path, or a cotengra tree; with
    False the layouts of an einsum tree are kept as written. ``memory_limit`` bounds the bytes of
    the result (unless ``out`` is given), of scratch and of copies of operands: met by slicing, or
    refused with the smallest limit that would do.
    ``tune`` measures some programs of this contraction the first time, and remembers the fastest
    for this machine; later calls use it without being asked. It changes no bit of the result,
    except of products with sparse operands, whose schedules sum in different orders.
    ``deterministic`` is "runs" (the same bits on every call with the same number of threads) or
    "threads" (the same bits for any number of threads). An operand that shares bytes with ``out``
    is refused, or with ``overlap="copy"`` copied first.

    Index notation ``einsum("A[i,l] = B[i,j] * C[j,l] - D[i,l]", b, c, d)``, sparse operands (see
    `teir.Sparse`) and sparse results (``out_levels="ds"``) are described in docs/sparse.md; they
    take ``out``, ``overlap``, ``dtype``, ``threads``, ``tune`` and ``memory_limit``.

    Raises TeirError with findings that point at the character, the operand or the keyword.
    """
    if type(overlap) is not str or overlap != "refuse":
        operands = read_apart(operands, out, overlap)
        (subscripts,) = read_apart((subscripts,), out, overlap)
    asked: Hashable = None
    arrays: Sequence[Any] = operands
    signature: tuple[Any, ...] | None = None
    if tune is False and out_levels is None:
        is_usual = dtype is None and threads is None and memory_limit is None
        is_usual = is_usual and type(deterministic) is str and deterministic == "runs"
        is_usual = is_usual and type(optimize) is str and optimize == "auto"
        if type(subscripts) is str:
            asked = subscripts
        elif not isinstance(subscripts, (str, bytes)):
            asked, arrays = call_in_sublists((subscripts, *operands))
        if not is_usual and asked is not None:
            makes_result = out is None
            asked = call_with_keywords(
                asked, makes_result, dtype, threads, optimize, memory_limit, deterministic
            )
    if asked is not None:
        kind = type(arrays[0]) if arrays else _ndarray
        if kind is _ndarray or kind in NUMBERS:
            result, signature = called_again(asked, arrays, out)
        else:
            result, signature = called_on_tensors(asked, arrays, out)
        if result is not NotImplemented:
            return result
        if signature is not None and asked is subscripts:
            return _first(signature, operands, out)
    mode = checked_determinism(deterministic)
    is_text = out_levels is None or type(out_levels) is str
    if is_text and dtype is None and tune is False and type(subscripts) is str:
        usual = isinstance(optimize, (str, bool)) and memory_limit is None
        if usual and (threads is None or type(threads) is int):
            wished = (subscripts, threads, out_levels, mode.value)
            result = sparse_calls().run(wished, operands, out)
            if result is not NotImplemented:
                return result
    tune = checked_tune(tune)
    if takes_sparse(subscripts, operands, out_levels):
        require_no_path(optimize)
        limit = checked_limit(memory_limit)
        return _sparse(subscripts, operands, out, out_levels, dtype, threads, tune, mode, limit)
    parsed, arrays = _parse(subscripts, operands)
    wishes = Wishes(
        dtype=dtype,
        threads=threads,
        optimize=optimize,
        memory_limit=memory_limit,
        tune=tune,
        deterministic=mode,
        makes_result=out is None,
    )
    plan, views = plan_arrays(parsed, arrays, wishes)
    if signature is not None:
        kept_plans().keep(signature, plan)
    return run_views(plan, views, None if out is None else view_out(plan.problem, out))


def _first(signature: tuple[Any, ...], operands: Sequence[Any], out: Any) -> Any:
    """A call of usual wishes with arrays that none came with before."""
    subscripts = signature[0]
    subscripts = subscripts if type(subscripts) is str else subscripts[1]
    parsed = plain_subscripts(subscripts)
    if parsed is None and is_index_notation(subscripts):
        result = sparse_calls().run((subscripts, None, None, "runs"), operands, out)
        if result is not NotImplemented:
            return result
        runs = Determinism.RUNS
        return _sparse(subscripts, operands, out, None, None, None, False, runs, None)
    plan, views = first_plan(parsed or parse_expression(subscripts), operands)
    kept_plans().keep(signature, plan)
    return run_planned(plan, views, None if out is None else view_out(plan.problem, out))


@overload
def plan(
    subscripts: Any,
    *shapes_or_arrays: Any,
    dtype: Any = None,
    threads: int | None = None,
    optimize: Any = "auto",
    memory_limit: int | None = None,
    tune: bool = False,
    deterministic: str = "runs",
    out_levels: None = None,
) -> Plan: ...


@overload
def plan(
    subscripts: Any,
    *shapes_or_arrays: Any,
    dtype: Any = None,
    threads: int | None = None,
    out_levels: str,
) -> SparsePlan: ...


def plan(
    subscripts: Any,
    *shapes_or_arrays: Any,
    dtype: Any = None,
    threads: int | None = None,
    optimize: Any = "auto",
    memory_limit: int | None = None,
    tune: bool = False,
    deterministic: str = "runs",
    out_levels: str | None = None,
) -> Plan | SparsePlan:
    """Compile an einsum once, to be called often: ``plan("ij,jk->ik", (8, 9), (9, 7))(a, b)``.

    Shapes (tuples) stand for C-contiguous arrays of ``dtype``, float64 by default; arrays give
    type, shape and strides. Called with arrays that lie otherwise, the plan makes a plan for those,
    once, and keeps it: nothing is copied, that call takes as long as planning does. Other types and
    shapes are refused. The keywords are those of `einsum`. Index notation, sparse operands
    and sparse results give a `SparsePlan`, which is called and explained alike. Raises TeirError
    as `einsum` does.
    """
    tune, mode = checked_tune(tune), checked_determinism(deterministic)
    if takes_sparse(subscripts, shapes_or_arrays, out_levels):
        require_no_path(optimize)
        limit = checked_limit(memory_limit)
        text, given = _sparse_parsed(subscripts, shapes_or_arrays)
        return sparse_plan(
            text,
            given,
            out_levels=out_levels,
            dtype=dtype,
            threads=threads,
            tune=tune,
            deterministic=mode,
            memory_limit=limit,
        )
    is_usual = dtype is None and threads is None and memory_limit is None and not tune
    is_usual = is_usual and mode is Determinism.RUNS
    is_usual = is_usual and type(optimize) is str and optimize == "auto"
    known = _made_by_einsum(subscripts, shapes_or_arrays) if is_usual else None
    if known is not None:
        return known
    parsed, given = _parse(subscripts, shapes_or_arrays)
    types = tuple(_planned_type(place, one, dtype) for place, one in enumerate(given))
    wishes = Wishes(
        dtype=dtype,
        threads=threads,
        optimize=optimize,
        memory_limit=memory_limit,
        tune=tune,
        deterministic=mode,
    )
    return plan_types(parsed, types, None, wishes, is_called_often=True)


def _made_by_einsum(subscripts: Any, operands: Sequence[Any]) -> Plan | None:
    """The plan that a usual call of `einsum` with these arrays left, made callable."""
    if type(subscripts) is not str or any(type(one) is not _ndarray for one in operands):
        return None
    parts = [part for one in operands for part in (one.dtype, one.shape, one.strides)]
    return kept_plan(kept_plans(), (subscripts, *parts))


def _sparse(
    subscripts: Any,
    operands: Sequence[Any],
    out: Any,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
    tune: bool,
    deterministic: Determinism,
    memory_limit: int | None,
) -> Any:
    text, given = _sparse_parsed(subscripts, operands)
    asked = subscripts if type(subscripts) is str else None
    return sparse_einsum(
        text,
        given,
        asked,
        out=out,
        out_levels=out_levels,
        dtype=dtype,
        threads=None if threads is None else thread_count(threads),
        tune=tune,
        deterministic=deterministic,
        memory_limit=memory_limit,
    )


def _sparse_parsed(
    subscripts: Any, operands: Sequence[Any]
) -> tuple[str | Subscripts, Sequence[Any]]:
    """Index notation as its text, everything else parsed."""
    if isinstance(subscripts, str) and is_index_notation(subscripts):
        return subscripts, operands
    return _parse(subscripts, operands)


def _planned_type(place: int, given: Any, dtype: Any) -> OperandType:
    shape = _shape(given)
    if shape is None:
        if isinstance(given, tuple) and not any(hasattr(item, "__len__") for item in given):
            refuse(SHAPES, f"operand {place}", "a shape of integers, or an array", repr(given))
        return operand_type(view_array(f"operand {place}", given))
    if any(extent < 0 for extent in shape):
        refuse(SHAPES, f"operand {place}", "extents of at least 0", repr(given))
    wanted = DataType.FP64 if dtype is None else asked_type(dtype)
    if isinstance(wanted, DataType):
        return contiguous(stored_type(wanted), shape)
    return contiguous_numpy(wanted, shape)


def _shape(given: Any) -> tuple[int, ...] | None:
    """The shape that a tuple of integers is; None for all else."""
    if not isinstance(given, tuple):
        return None
    extents = [as_integer(extent) for extent in given]
    shape = tuple(extent for extent in extents if extent is not None)
    return shape if len(shape) == len(extents) else None


def _parse(subscripts: Any, operands: Sequence[Any]) -> tuple[Subscripts, Sequence[Any]]:
    if isinstance(subscripts, bytes):
        subscripts = subscripts.decode("ascii", "replace")
    if isinstance(subscripts, str):
        return parse_expression(subscripts), operands
    arguments = [subscripts, *operands]
    output = arguments.pop() if len(arguments) % 2 else None
    lists = [_listed(entry) for entry in arguments[1::2]]
    output = _listed(output)
    for entry in (*lists, *(() if output is None else (output,))):
        if not isinstance(entry, (list, tuple, range)):
            raise TeirError((_sublist_finding((subscripts, *operands)),))
    return parse_sublists(lists, output), arguments[::2]


def _listed(entry: Any) -> Any:
    """A vector of integers is a sublist too."""
    is_vector = type(entry) is _ndarray and entry.ndim == 1 and entry.dtype.kind in "iu"
    return entry.tolist() if is_vector else entry


def _sublist_finding(arguments: Sequence[Any]) -> Finding:
    from teir.expr.rules import SUBLIST

    expected = "an expression as text, or operands alternating with lists of integers"
    found = "values of the types " + ", ".join(type(one).__name__ for one in arguments)
    return at_argument(SUBLIST, "subscripts", expected, found)
