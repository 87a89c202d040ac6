"""einsum and plan: the public functions on arrays.

    subscripts, arrays -> problem -> path -> program -> executable -> result

Plans are kept in memory by signature: expression, types, shapes and strides of every array,
threads. A call that was seen before is one look-up and one native call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

import msgspec
import numpy as np
from msgspec.structs import replace

from teir.arrays.adapters import view_array
from teir.backends.llvm.entry import EntryOperand, bind_entry
from teir.dtypes import DataType
from teir.errors import ArgumentPlace, Finding, Rule, TeirError
from teir.expr.index_notation_parsing import is_index_notation
from teir.expr.nodes import Subscripts
from teir.expr.parsing import parse_expression, parse_sublists
from teir.pipeline.choosing import Decidable, chosen_tree
from teir.pipeline.determinism import Determinism, checked_determinism, planned_threads
from teir.pipeline.executable import Executable, compile_program, thread_count
from teir.pipeline.machine_speeds import machine_of
from teir.pipeline.memory import checked_limit, require_result_within, threads_within
from teir.pipeline.plan import Plan, operand_type, run_views, view_out
from teir.pipeline.plan_cache import PlanCache
from teir.pipeline.problem import (
    OperandType,
    Problem,
    Route,
    asked_type,
    contiguous,
    contiguous_numpy,
    state_problem,
    stored_type,
)
from teir.pipeline.sparse_einsum import require_usual, sparse_calls, sparse_einsum, sparse_plan
from teir.pipeline.sparse_einsum import takes as takes_sparse
from teir.pipeline.sparse_plan import SparsePlan
from teir.runtime.runtime import current
from teir.search.contraction import Path
from teir.search.path import find_path
from teir.search.tree import TreeOptions

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
) -> Any:
    """NumPy's einsum, by generated code: ``einsum("ij,jk->ik", a, b)``.

    ``subscripts`` in NumPy's grammar with any number of symbols, the sublist form
    ``einsum(a, [0, 1], b, [1, 2], [0, 2])``, or an einsum tree
    ``einsum("[[i,k],[k,j]->[i,j]],[j,l]->[i,l]", a, b, c)``. Operands: NumPy arrays, PyTorch
    CPU tensors, anything with DLPack or the array interface, numbers. The result is a new
    C-contiguous array in the kind of the first array (never a view), or ``out``, written directly.
    ``dtype`` is the type of the computation and of the result, by default as NumPy promotes;
    `DataType.TF32` computes float32 products in TF32. ``threads`` defaults to all usable cores.
    ``optimize`` is an opt_einsum path finder or its name, a path, or a cotengra tree; with False
    the layouts of an einsum tree are kept as written. ``memory_limit`` bounds the bytes of the
    result (unless ``out`` is given), of scratch and of copies of operands: met by slicing, or
    refused with the smallest limit that would do.
    ``tune`` measures some programs of this contraction the first time, and remembers the fastest
    for this machine; later calls use it without being asked. It changes no bit of the result.
    ``deterministic`` is "runs" (the same bits on every call with the same number of threads) or
    "threads" (the same bits for any number of threads).

    Index notation ``einsum("A[i,l] = B[i,j] * C[j,l] - D[i,l]", b, c, d)``, sparse operands (see
    `teir.Sparse`) and sparse results (``out_levels="ds"``) are described in docs/sparse.md; they
    take ``out``, ``dtype`` and ``threads``.

    Raises TeirError with findings that point at the character, the operand or the keyword.
    """
    is_usual = dtype is None and threads is None and memory_limit is None and not tune
    is_usual = is_usual and deterministic == "runs" and out_levels is None
    if is_usual and optimize == "auto" and type(subscripts) is str:
        key: list[Any] = [subscripts]
        for operand in operands:
            if type(operand) is not _ndarray:
                break
            key += (operand.dtype, operand.shape, operand.strides)
        else:
            plan = _plans().plans.get(tuple(key))
            if plan is None and is_index_notation(subscripts):
                return _sparse(subscripts, operands, out, None, None, None)
            if plan is None:
                plan, views = _plan_arrays(parse_expression(subscripts), operands, _Wishes())
                _plans().keep(tuple(key), plan)
                return run_views(plan, views, None if out is None else view_out(plan.problem, out))
            if not plan.has_entry:
                plan = _with_entry(plan)
                _plans().keep(tuple(key), plan)
            return plan.call_planned(operands, out)
    if out_levels is None and dtype is None and type(subscripts) is str:
        usual = _usual(optimize, memory_limit, tune, deterministic)
        if all(usual.values()) and (threads is None or type(threads) is int):
            result = sparse_calls().run((subscripts, threads), operands, out)
            if result is not NotImplemented:
                return result
    if takes_sparse(subscripts, operands, out_levels):
        require_usual(_usual(optimize, memory_limit, tune, deterministic))
        return _sparse(subscripts, operands, out, out_levels, dtype, threads)
    parsed, arrays = _parse(subscripts, operands)
    wishes = _Wishes(
        dtype=dtype,
        threads=threads,
        optimize=optimize,
        memory_limit=memory_limit,
        tune=tune,
        deterministic=checked_determinism(deterministic),
        makes_result=out is None,
    )
    plan, views = _plan_arrays(parsed, arrays, wishes)
    return run_views(plan, views, None if out is None else view_out(plan.problem, out))


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
    type, shape and strides. The keywords are those of `einsum`. Index notation, sparse operands
    and sparse results give a `SparsePlan`, which is called and explained alike. Raises TeirError
    as `einsum` does.
    """
    if takes_sparse(subscripts, shapes_or_arrays, out_levels):
        require_usual(_usual(optimize, memory_limit, tune, deterministic))
        text, given = _sparse_parsed(subscripts, shapes_or_arrays)
        return sparse_plan(text, given, out_levels=out_levels, dtype=dtype, threads=threads)
    parsed, given = _parse(subscripts, shapes_or_arrays)
    types = tuple(_planned_type(place, one, dtype) for place, one in enumerate(given))
    wishes = _Wishes(
        dtype=dtype,
        threads=threads,
        optimize=optimize,
        memory_limit=memory_limit,
        tune=tune,
        deterministic=checked_determinism(deterministic),
    )
    return _plan_types(parsed, types, None, wishes, is_called_often=True)


def _sparse(
    subscripts: Any,
    operands: Sequence[Any],
    out: Any,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
) -> Any:
    text, given = _sparse_parsed(subscripts, operands)
    asked = subscripts if type(subscripts) is str else None
    return sparse_einsum(
        text, given, asked, out=out, out_levels=out_levels, dtype=dtype, threads=threads
    )


def _sparse_parsed(
    subscripts: Any, operands: Sequence[Any]
) -> tuple[str | Subscripts, Sequence[Any]]:
    """Index notation as its text, everything else parsed."""
    if isinstance(subscripts, str) and is_index_notation(subscripts):
        return subscripts, operands
    return _parse(subscripts, operands)


def _usual(
    optimize: Any, memory_limit: int | None, tune: bool, deterministic: str
) -> dict[str, bool]:
    return {
        "optimize": isinstance(optimize, (str, bool)),
        "memory_limit": memory_limit is None,
        "tune": not tune,
        "deterministic": deterministic in ("runs", "threads"),
    }


class _Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks of a plan besides the expression and the arrays."""

    dtype: Any = None
    threads: int | None = None
    optimize: Any = "auto"
    memory_limit: int | None = None
    tune: bool = False
    deterministic: Determinism = Determinism.RUNS
    makes_result: bool = True
    """The result is counted against the memory limit: the plan may have to allocate it."""


def _planned_type(place: int, given: Any, dtype: Any) -> OperandType:
    if not isinstance(given, tuple) or not all(hasattr(item, "__index__") for item in given):
        return operand_type(view_array(f"operand {place}", given))
    shape = tuple(int(extent) for extent in given)
    if any(extent < 0 for extent in shape):
        finding = Finding(
            rule=SHAPES,
            place=ArgumentPlace(name=f"operand {place}"),
            expected="extents of at least 0",
            found=repr(given),
        )
        raise TeirError((finding,))
    wanted = DataType.FP64 if dtype is None else asked_type(dtype)
    if isinstance(wanted, DataType):
        return contiguous(stored_type(wanted), shape)
    return contiguous_numpy(wanted, shape)


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
            raise TeirError((_sublist_finding(entry),))
    return parse_sublists(lists, output), arguments[::2]


def _listed(entry: Any) -> Any:
    """A vector of integers is a sublist too."""
    is_vector = type(entry) is _ndarray and entry.ndim == 1 and entry.dtype.kind in "iu"
    return entry.tolist() if is_vector else entry


def _sublist_finding(found: Any) -> Finding:
    from teir.expr.rules import SUBLIST

    return Finding(
        rule=SUBLIST,
        place=ArgumentPlace(name="subscripts"),
        expected="an expression, or operands alternating with lists of integers",
        found=f"a value of type {type(found).__name__}",
    )


def _plan_arrays(
    subscripts: Subscripts,
    operands: Sequence[Any],
    wishes: _Wishes,
) -> tuple[Plan, list[Any]]:
    views = [view_array(f"operand {place}", value) for place, value in enumerate(operands)]
    types = tuple(operand_type(view) for view in views)
    return _plan_types(subscripts, types, None, wishes), views


def _plan_types(
    subscripts: Subscripts,
    types: tuple[OperandType, ...],
    out: OperandType | None,
    wishes: _Wishes,
    is_called_often: bool = False,
) -> Plan:
    """The plan for arrays of these types: kept, or made now."""
    threads = thread_count(wishes.threads)
    limit = checked_limit(wishes.memory_limit)
    key: tuple[Any, ...] = (
        subscripts,
        types,
        out,
        str(wishes.dtype),
        threads,
        limit,
        bool(wishes.tune),
        wishes.deterministic,
        limit is not None and wishes.makes_result,
    )
    keyed = isinstance(wishes.optimize, (str, bool))
    if keyed:
        key = (*key, wishes.optimize)
        known = _plans().plans.get(key)
        if known is not None and (known.has_entry or not is_called_often):
            return known
    else:
        known = None
    made = known or _make_plan(
        subscripts, types, out, replace(wishes, threads=threads, memory_limit=limit)
    )
    if is_called_often and not made.has_entry:
        made = _with_entry(made)
    if wishes.tune:
        # Plans made before may not know what is remembered now.
        _plans().clear()
    if keyed:
        _plans().keep(key, made)
    return made


def _make_plan(
    subscripts: Subscripts,
    types: tuple[OperandType, ...],
    out: OperandType | None,
    wishes: _Wishes,
) -> Plan:
    problem = state_problem(subscripts, types, out, wishes.dtype)

    def replan(other: tuple[OperandType, ...], other_out: OperandType | None) -> Plan:
        makes_result = wishes.makes_result and other_out is None
        return _plan_types(subscripts, other, other_out, replace(wishes, makes_result=makes_result))

    if problem.contraction is None:
        if problem.route is Route.NUMPY:
            _require_numpy_size(subscripts, problem.bound.einsum.indices)
        require_result_within(wishes.memory_limit, _result_bytes(problem, wishes))
        return Plan(
            problem=problem,
            steps=(),
            decidable=None,
            chosen=None,
            executable=None,
            entry=None,
            has_entry=True,
            direct=None,
            replan=replan,
            memory_limit=wishes.memory_limit,
        )
    decidable = _decidable(problem, wishes)
    chosen = chosen_tree(decidable, wishes.tune)
    tree = chosen.tree
    threads = thread_count(wishes.threads)
    executable = compile_program(tree.program, threads=threads)
    fitting = _fitting_threads(executable, decidable, threads)
    if fitting != threads:
        executable = compile_program(tree.program, threads=fitting)
    _require_inside(executable, problem)
    return Plan(
        problem=problem,
        steps=tree.steps,
        decidable=decidable,
        chosen=chosen,
        executable=executable,
        entry=None,
        has_entry=any(problem.copied),
        direct=None if any(problem.copied) else executable.run_addresses,
        replan=replan,
        memory_limit=wishes.memory_limit,
    )


def _decidable(problem: Problem, wishes: _Wishes) -> Decidable:
    """The path of the contraction, the layouts asked for, the machine and the memory limit."""
    threads = planned_threads(wishes.deterministic, thread_count(wishes.threads))
    contraction, nesting = problem.contraction, problem.subscripts.nesting
    assert contraction is not None
    is_nested = nesting is not None and isinstance(wishes.optimize, (str, bool))
    if nesting is not None and is_nested and wishes.optimize in ("auto", True, False):
        path: Path = nesting.path
        options = TreeOptions(results=nesting.results, rearrange=wishes.optimize is not False)
    else:
        path = find_path(
            [tuple(factor.strides) for factor in contraction.inputs],
            tuple(contraction.output.strides),
            contraction.extents,
            wishes.optimize,
        )
        options = TreeOptions()
    return Decidable(
        problem=problem,
        path=path,
        options=options,
        machine=machine_of(threads),
        limit=wishes.memory_limit,
        counted_threads=threads if wishes.deterministic is Determinism.RUNS else 1,
        result_bytes=_result_bytes(problem, wishes),
    )


def _result_bytes(problem: Problem, wishes: _Wishes) -> int:
    """What the result takes where the plan allocates it."""
    return problem.result_bytes if wishes.makes_result else 0


def _fitting_threads(executable: Executable, decidable: Decidable, threads: int) -> int:
    """The threads whose scratch stays within the limit; one always does."""
    if decidable.limit is None or decidable.counted_threads == threads:
        return threads
    room = decidable.limit - decidable.result_bytes - decidable.problem.copied_bytes
    return threads_within(executable.kernel_program, room, threads)


def _with_entry(plan: Plan) -> Plan:
    """A plan that is called again, with the native function of exactly its arrays."""
    assert plan.executable is not None
    return replace(plan, entry=_entry(plan.executable, plan.problem), has_entry=True)


def _entry(executable: Executable, problem: Problem) -> Callable[..., Any] | None:
    """The native function of exactly these arrays, where there can be one."""
    program = executable.program
    operands = tuple(
        EntryOperand(
            slot=slot,
            data_type=tensor.data_type,
            shape=array.shape,
            strides_bytes=array.strides_bytes,
            writable=tensor.name in executable.written,
        )
        for slot, (tensor, array) in enumerate(
            zip(program.tensors, problem.tensor_types(), strict=True)
        )
    )
    return bind_entry(executable.native, operands)


def _require_inside(executable: Executable, problem: Problem) -> None:
    """The second look at the bounds: what the check proved must lie inside the arrays.

    The strides come from the arrays, so this cannot fail unless this package is wrong.
    """
    for tensor, array in zip(executable.program.tensors, problem.tensor_types(), strict=True):
        need = executable.report.needs.get(tensor.name)
        low, high = array.span_bytes
        if need is not None and (need.low < low or need.high > high):
            raise RuntimeError(
                f"the program of {problem.subscripts} needs bytes {need.low} to {need.high} of "
                f"{tensor.name}, which has {low} to {high}: please report this"
            )


def _require_numpy_size(subscripts: Subscripts, indices: Sequence[str]) -> None:
    from teir.expr.rules import CHARACTER, at_character

    if len(indices) > 52:
        raise TeirError(
            (
                at_character(
                    CHARACTER,
                    subscripts.text,
                    0,
                    "at most 52 subscripts where NumPy computes the result",
                    f"{len(indices)}",
                ),
            )
        )


def _plans() -> PlanCache:
    return current().once("einsum plans", PlanCache)
