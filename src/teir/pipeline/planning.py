"""From an einsum on array types to a plan, kept in memory by what was asked for.

    problem -> path, layouts and program (chosen) -> executable -> plan -> native entry and call

A plan gets its native entry point and its call when it is used again, or when it is made to be
called often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from teir.arrays.adapters import ArrayView, view_array
from teir.backends.llvm.call import bind_calls
from teir.backends.llvm.entry import EntryOperand, bind_entry
from teir.dtypes import DataType
from teir.errors import TeirError
from teir.expr.nodes import Subscripts
from teir.pipeline.choosing import Chosen, Decidable, chosen_tree, without_record
from teir.pipeline.determinism import Determinism, planned_threads
from teir.pipeline.exact_integers import exact_call
from teir.pipeline.executable import (
    Executable,
    compile_program,
    default_threads,
    thread_count,
)
from teir.pipeline.indirect_calls import Indirect, call_on_copies, numpy_call
from teir.pipeline.machine_speeds import machine_of
from teir.pipeline.memory import checked_limit, require_result_within, threads_within
from teir.pipeline.operand_types import OperandType, contiguous, operand_type
from teir.pipeline.plan import Plan, Replan, call_plan
from teir.pipeline.plan_cache import PlanCache
from teir.pipeline.problem import Problem, Route, state_problem
from teir.pipeline.tensor_calls import tensor_maker
from teir.runtime.runtime import current
from teir.search.contraction import Path
from teir.search.path import find_path, require_path_choice
from teir.search.slicing import sliceable
from teir.search.tree import TreeOptions, TreeProgram
from teir.search.tree_slices import slices_of_tree

_STRIDES = attrgetter("strides")


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks of a plan besides the expression and the arrays."""

    dtype: Any = None
    threads: int | None = None
    optimize: Any = "auto"
    memory_limit: int | None = None
    tune: bool = False
    deterministic: Determinism = Determinism.RUNS
    makes_result: bool = True
    """The result is counted against the memory limit: the plan may have to allocate it."""


def plan_arrays(
    subscripts: Subscripts,
    operands: Sequence[Any],
    wishes: Wishes,
) -> tuple[Plan, list[Any]]:
    views = [view_array(f"operand {place}", value) for place, value in enumerate(operands)]
    types = tuple(operand_type(view) for view in views)
    return plan_types(subscripts, types, None, wishes), views


def first_plan(subscripts: Subscripts, operands: Sequence[Any]) -> tuple[Plan, list[ArrayView]]:
    """A plan of usual wishes, made now: the caller found none, and keeps it by a key of its own.

    With it the operands as they were looked at.
    """
    views, types = [], []
    for place, value in enumerate(operands):
        view = view_array(f"operand {place}", value)
        views.append(view)
        types.append(operand_type(view))
    return _make_plan(subscripts, tuple(types), None, Wishes(threads=default_threads())), views


def plan_types(
    subscripts: Subscripts,
    types: tuple[OperandType, ...],
    out: OperandType | None,
    wishes: Wishes,
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
        known = kept_plans().plans.get(key)
        if known is not None and (known.is_callable or not is_called_often):
            return known
    else:
        known = None
    made = known or _make_plan(
        subscripts, types, out, replace(wishes, threads=threads, memory_limit=limit)
    )
    if is_called_often and not made.is_callable:
        made = callable_plan(made)
    if wishes.tune:
        # Plans made before may not know what is remembered now.
        kept_plans().clear()
    if keyed:
        kept_plans().keep(key, made)
    return made


def plan_titled(
    title: str, subscripts: Subscripts, types: tuple[OperandType, ...], wishes: Wishes
) -> Plan:
    """The plan for arrays of these types, whose program is named ``title``: kept, or made now."""
    threads = thread_count(wishes.threads)
    key = (title, subscripts, types, threads, wishes.deterministic)
    made = kept_plans().plans.get(key)
    if made is None:
        made = _make_plan(subscripts, types, None, replace(wishes, threads=threads), title)
        kept_plans().keep(key, made)
    return made


def tune_plan(plan: Plan) -> None:
    """Measure the programs of a plan, if nothing is remembered of it; plans made before go."""
    if plan.decidable is not None:
        chosen_tree(plan.decidable, wants_tuning=True)
        kept_plans().clear()


def _make_plan(
    subscripts: Subscripts,
    types: tuple[OperandType, ...],
    out: OperandType | None,
    wishes: Wishes,
    title: str | None = None,
) -> Plan:
    problem = state_problem(subscripts, types, out, wishes.dtype)
    if title is not None and problem.contraction is not None:
        problem = replace(problem, contraction=replace(problem.contraction, name=title))

    def replan(other: tuple[OperandType, ...], other_out: OperandType | None) -> Plan:
        makes_result = wishes.makes_result and other_out is None
        return plan_types(subscripts, other, other_out, replace(wishes, makes_result=makes_result))

    if problem.contraction is None:
        return _plan_without_program(problem, wishes, replan)
    return _plan_of_program(problem, wishes, replan)


def _plan_without_program(problem: Problem, wishes: Wishes, replan: Replan) -> Plan:
    """NumPy computes the result, or it is zeros."""
    require_path_choice(wishes.optimize, len(problem.subscripts.inputs))
    if problem.route is Route.NUMPY:
        _require_numpy_size(problem.subscripts, problem.bound.einsum.indices)
    require_result_within(wishes.memory_limit, problem.result_bytes if wishes.makes_result else 0)
    return Plan(
        problem=problem,
        steps=(),
        decidable=None,
        chosen=None,
        executable=None,
        entry=None,
        is_callable=False,
        known=None,
        indirect=_exact_call(problem, wishes),
        direct=None,
        replan=replan,
        memory_limit=wishes.memory_limit,
    )


def _plan_of_program(problem: Problem, wishes: Wishes, replan: Replan) -> Plan:
    decidable = _decidable(problem, wishes)
    chosen, executable = _built(decidable, wishes)
    return Plan(
        problem=problem,
        steps=chosen.tree.steps,
        decidable=decidable,
        chosen=chosen,
        executable=executable,
        entry=None,
        is_callable=False,
        known=None,
        indirect=None,
        direct=None if any(problem.copied) else executable.run_addresses,
        replan=replan,
        memory_limit=wishes.memory_limit,
    )


def _built(decidable: Decidable, wishes: Wishes) -> tuple[Chosen, Executable]:
    """The program and its code: those of the default decisions where a record's come to nothing."""
    chosen, threads = chosen_tree(decidable, wishes.tune), thread_count(wishes.threads)
    try:
        return chosen, _compiled(chosen.tree, decidable, threads)
    except Exception as error:
        if chosen.found.record is None:
            raise
        chosen = without_record(decidable, error)
    return chosen, _compiled(chosen.tree, decidable, threads)


def _compiled(tree: TreeProgram, decidable: Decidable, threads: int) -> Executable:
    """For as many of these threads as the memory limit leaves scratch for."""
    executable = compile_program(tree.program, threads=threads)
    if decidable.limit is not None:
        fitting = _fitting_threads(executable, decidable, decidable.limit, threads)
        if fitting != threads:
            executable = compile_program(tree.program, threads=fitting)
    _require_inside(executable, decidable.problem)
    return executable


def _exact_call(problem: Problem, wishes: Wishes) -> Indirect | None:
    """The call by floating-point code that products of integers have where that is exact."""
    is_bounded = wishes.memory_limit is not None
    if problem.route is not Route.NUMPY or is_bounded or problem.subscripts.nesting is not None:
        return None

    plans: dict[DataType, Plan] = {}

    def compute(data_type: DataType, operands: Sequence[Any]) -> Any:
        plan = plans.get(data_type)
        if plan is None:
            types = tuple(contiguous(data_type, one.shape) for one in problem.operands)
            asked = Wishes(threads=wishes.threads)
            plan = plan_types(problem.subscripts, types, None, asked, is_called_often=True)
            plans[data_type] = plan
        return plan(*operands)

    return exact_call(problem, compute)


def _decidable(problem: Problem, wishes: Wishes) -> Decidable:
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
            list(map(tuple, map(_STRIDES, contraction.inputs))),
            tuple(contraction.output.strides),
            contraction.extents,
            wishes.optimize,
        )
        options = TreeOptions()
        if hasattr(wishes.optimize, "sliced_inds"):
            terms, may_be_cut = problem.bound.einsum.inputs, sliceable(contraction)
            options = TreeOptions(slices=slices_of_tree(wishes.optimize, terms, may_be_cut))
    return Decidable(
        problem=problem,
        path=path,
        options=options,
        machine=machine_of(threads),
        limit=wishes.memory_limit,
        counted_threads=threads if wishes.deterministic is Determinism.RUNS else 1,
        makes_result=wishes.makes_result,
    )


def _fitting_threads(executable: Executable, decidable: Decidable, limit: int, threads: int) -> int:
    """The threads whose scratch stays within the limit; one always does."""
    if decidable.counted_threads == threads:
        return threads
    room = limit - decidable.result_bytes - decidable.problem.copied_bytes
    return threads_within(executable.kernel_program, room, threads)


def callable_plan(plan: Plan) -> Plan:
    """A plan that is called again, with the native function of exactly its arrays if it can be."""
    executable, problem = plan.executable, plan.problem
    entry = None if executable is None else _entry(executable, problem)
    is_copied = any(problem.copied)
    made = replace(plan, is_callable=True)
    if executable is not None and entry is not None and not is_copied:
        made = replace(made, entry=entry)
    in_python = partial(call_plan, made)
    if problem.route is Route.NUMPY and plan.memory_limit is None:
        made = replace(made, indirect=plan.indirect or numpy_call(problem))
    if executable is None or entry is None:
        return replace(made, __call__=in_python)
    arrays, result = len(problem.operands) + 1, (problem.out.shape, problem.out.dtype)
    in_torch = tensor_maker(problem.out)
    calls = bind_calls(entry, arrays, result, in_torch, in_python, executable.isa)
    if is_copied:
        indirect = call_on_copies(problem, calls.known)
        return replace(made, indirect=indirect, __call__=in_python)
    return replace(made, known=calls.known, __call__=calls.call)


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
    needs = executable.proof.report.needs
    for tensor, array in zip(executable.program.tensors, problem.tensor_types(), strict=True):
        need = needs.get(tensor.name)
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


def kept_plans() -> PlanCache:
    return current().once("einsum plans", PlanCache)
