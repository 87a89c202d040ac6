"""A plan: an einsum compiled for arrays of given types, shapes and strides, to be called often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Never

import msgspec
import numpy as np

from teir.arrays.adapters import ArrayView, arrays_of_numbers, view_array
from teir.arrays.numpy_fields import address_of
from teir.arrays.torch_plain import as_arrays, is_tensor, tell_written
from teir.backends.llvm.entry import learn_tensors, takes_tensors
from teir.errors import Rule, refuse
from teir.ir.nodes import Program
from teir.pipeline.call_checks import require_apart, require_planned, view_out
from teir.pipeline.choosing import Chosen, Decidable
from teir.pipeline.executable import Executable, Form
from teir.pipeline.indirect_calls import Indirect
from teir.pipeline.memory import scratch_bytes
from teir.pipeline.operand_types import OperandType, operand_type
from teir.pipeline.operands_apart import read_apart
from teir.pipeline.problem import Problem, Route
from teir.pipeline.process_bound import ProcessBound
from teir.pipeline.room import no_room
from teir.pipeline.tensor_calls import new_tensor
from teir.pipeline.view_runs import run_native, run_numpy, run_zeros
from teir.search.tree import StepNote

NO_PROGRAM = Rule(
    code="TEIR642",
    sentence="A plan has a program and native code where native code computes the result.",
    source="language reference, plan",
)

Replan = Callable[[tuple[OperandType, ...], OperandType | None], "Plan"]


def _not_called(*_operands: Any, **_keywords: Any) -> Never:
    raise AssertionError("expected a plan that has been made callable")


class Plan(ProcessBound, msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An einsum bound to code. Call it: ``plan(a, b)`` or ``plan(a, b, out=c)``.

    The result is in ``out`` if given, else in a new C-contiguous array. A call raises TeirError
    before anything is written: operands that do not fit the plan (TEIR641), an ``out`` that cannot
    be written directly (TEIR630 to TEIR636). ``plan(a, b, out=a, overlap="copy")`` copies operands
    that share bytes with ``out`` first.

    Immutable; may be called from any thread. Arrays with other strides than planned for are
    computed by a plan of their own. Equal and hashed by identity, as functions are: native code
    has no equality that would tell more.
    """

    problem: Problem
    steps: tuple[StepNote, ...]
    decidable: Decidable | None
    chosen: Chosen | None
    executable: Executable | None
    entry: Callable[..., Any] | None
    """Native call ``entry(*operands, out)``: NotImplemented for arrays it was not made for. None
    where there can be none, and before a plan is called again."""
    is_callable: bool
    """Whether ``entry`` and the call itself were made."""
    known: Callable[..., Any] | None
    """Native call ``known(*operands)``: a new result, NotImplemented where ``entry`` gives it. None
    where ``entry`` is."""
    indirect: Indirect | None
    """Makes a new result where operands are copied first, or NumPy computes; None before a plan is
    called again."""
    direct: Callable[[tuple[int, ...]], None] | None
    """Runs on the addresses of the operands themselves; None where some are copied first."""
    replan: Replan
    memory_limit: int | None
    """What a call may allocate, in bytes."""
    __call__: Callable[..., Any] = _not_called
    """The call, in a slot of each plan: where it is native code, a tiny product takes half the time
    that a method of Python would."""

    def __repr__(self) -> str:
        """A line; `explain` has the rest."""
        problem = self.problem
        operands = ", ".join(f"{one.dtype} {one.shape}" for one in problem.operands)
        return (
            f"<Plan {str(problem.subscripts)!r}: {operands} -> {problem.out.dtype} "
            f"{problem.bound.output_shape}, {problem.route.value}, {self.threads} thread(s)>"
        )

    def call_planned(self, operands: Sequence[np.ndarray[Any, Any]], out: Any) -> Any:
        """As a call, on arrays known to have the types, shapes and strides planned for."""
        result = self.call_known(operands, out)
        return self.call_declined(operands, out) if result is NotImplemented else result

    def call_declined(self, operands: Sequence[np.ndarray[Any, Any]], out: Any) -> Any:
        """As `call_planned`, after native code declined: that may have been the call from which on
        specialised code pays."""
        direct = self.direct
        if out is not None or direct is None:
            return self._call_indirect(operands, out)
        result = _new_result(self)
        addresses = [address_of(operand) for operand in operands]
        direct((*addresses, address_of(result)))
        return result if result.shape else result[()]

    def _call_indirect(self, operands: Sequence[np.ndarray[Any, Any]], out: Any) -> Any:
        indirect = self.indirect
        if out is None and indirect is not None:
            try:
                result = indirect(operands)
            except MemoryError:
                raise no_room(self.problem.out) from None
            if result is not NotImplemented:
                return result
        return run_plan(self, operands, out)

    def call_known(self, operands: Sequence[Any], out: Any) -> Any:
        """As a call with any operands, by native code alone; NotImplemented where that declines."""
        if out is None:
            known = self.known
            return NotImplemented if known is None else known(*operands)
        entry = self.entry
        if entry is None or entry(*operands, out) is NotImplemented:
            return NotImplemented
        return out

    @property
    def threads(self) -> int:
        """How many threads may run at once."""
        return 1 if self.executable is None else self.executable.threads

    @property
    def memory_bytes(self) -> int:
        """Bytes a call allocates at most besides its result: scratch, and copies of operands."""
        if self.executable is None:
            return 0
        executable = self.executable
        scratch = scratch_bytes(executable.kernel_program, executable.threads)
        return scratch + self.problem.copied_bytes

    @property
    def program(self) -> Program:
        """The TEIR program. Raises TeirError (TEIR642) where there is none."""
        return self._compiled().program

    def explain(self, measure: bool = False) -> str:
        """What runs, and why, in words: operands, copies, steps, time, decisions, kernels, program.

        With ``measure`` the program is run on drawn operands, and this machine's peaks are
        measured where they are not on file: a second or so.
        """
        from teir.pipeline.explain import explain_plan

        return explain_plan(self, measure)

    def llvm(self, form: Form = Form.SPECIALISED) -> str:
        """The LLVM IR of the program as one function, or of the kernels its table calls."""
        from teir.pipeline.explain import plan_llvm

        return plan_llvm(self._compiled(), form)

    def assembly(self, form: Form = Form.SPECIALISED) -> str:
        """The machine code of what `llvm` shows, as assembly text."""
        from teir.pipeline.explain import plan_assembly

        return plan_assembly(self._compiled(), form)

    def save(self, path: str | Path) -> None:
        """Write the program to ``path``; the ending chooses the form, as in `teir.save`."""
        from teir.ir.load import save

        save(self.program, path)

    def _compiled(self) -> Executable:
        if self.executable is None:
            refuse(
                NO_PROGRAM,
                "plan",
                "a result computed by native code",
                f"one computed by {self.problem.route.value}",
            )
        return self.executable


def call_plan(plan: Plan, *operands: Any, out: Any = None, overlap: str = "refuse") -> Any:
    """A call of ``plan`` that its native call does not serve."""
    if operands and type(overlap) is str and overlap == "refuse":
        call = call_on_tensors if is_tensor(operands[0]) else _call_on_numbers
        result = call(plan, operands, out)
        if result is not NotImplemented:
            return result
    return run_plan(plan, read_apart(operands, out, overlap), out)


def call_on_tensors(plan: Plan, tensors: Sequence[Any], out: Any) -> Any:
    """A call that native code declined, by native code on the memory of plain tensors, the result a
    tensor; NotImplemented where one of them is no plain one, or that declines again."""
    executable, planned = plan.executable, plan.problem.out
    if executable is None or plan.entry is None or planned.data_type is None:
        return NotImplemented
    if takes_tensors(executable.isa):
        return NotImplemented
    if learn_tensors(executable.isa):
        return plan.call_known(tensors, out)
    arrays = as_arrays(tensors)
    if arrays is None:
        return NotImplemented
    result = new_tensor(planned) if out is None else out
    target = as_arrays((result,))
    if target is None or plan.call_known(arrays, target[0]) is NotImplemented:
        return NotImplemented
    if out is not None:
        tell_written(out)
    return result


def call_declined_on_tensors(plan: Plan, arrays: Sequence[np.ndarray[Any, Any]], out: Any) -> Any:
    """As `Plan.call_declined`, on the memory of tensors of the types planned for, the result a
    tensor; NotImplemented where each array must be looked at."""
    if out is not None or plan.direct is None:
        return NotImplemented
    result = new_tensor(plan.problem.out)
    target = as_arrays((result,))
    if target is None:
        return NotImplemented
    plan.direct(tuple(map(address_of, (*arrays, *target))))
    return result


def _call_on_numbers(plan: Plan, operands: Sequence[Any], out: Any) -> Any:
    """By native code, numbers among the operands made arrays; NotImplemented where that declines,
    or there are none."""
    arrays = arrays_of_numbers(operands)
    return NotImplemented if arrays is None else plan.call_known(arrays, out)


def _new_result(plan: Plan) -> np.ndarray[Any, Any]:
    planned = plan.problem.out
    try:
        return np.empty(planned.shape, planned.dtype)
    except MemoryError:
        raise no_room(planned) from None


def run_plan(plan: Plan, operands: Sequence[Any], out: Any) -> Any:
    """Run after looking at every array: the way for first calls and for unusual arrays."""
    views = [view_array(f"operand {place}", value) for place, value in enumerate(operands)]
    target = None if out is None else view_out(plan.problem, out)
    return run_views(plan, views, target)


def run_views(plan: Plan, views: Sequence[ArrayView], out: ArrayView | None) -> Any:
    """As `run_plan`, for arrays already viewed."""
    types = tuple(operand_type(view) for view in views)
    if types == plan.problem.operands:
        return run_planned(plan, views, out)
    require_planned(plan.problem, types)
    replanned = plan.replan(types, None if out is None else operand_type(out))
    return _run(replanned, views, out)


def run_planned(plan: Plan, views: Sequence[ArrayView], out: ArrayView | None) -> Any:
    """As `run_views`, for operands known to be those planned for."""
    if out is not None:
        out_type = operand_type(out)
        if out_type != plan.problem.out:
            plan = plan.replan(plan.problem.operands, out_type)
    return _run(plan, views, out)


def _run(plan: Plan, views: Sequence[ArrayView], out: ArrayView | None) -> Any:
    if out is None:
        return _computed(plan, views, None)
    require_apart(views, out)
    result = _computed(plan, views, out)
    tell_written(result)
    return result


def _computed(plan: Plan, views: Sequence[ArrayView], out: ArrayView | None) -> Any:
    problem = plan.problem
    match problem.route:
        case Route.NUMPY:
            return run_numpy(problem, plan.indirect, plan.memory_limit is not None, views, out)
        case Route.ZEROS:
            return run_zeros(problem, views, out)
        case Route.NATIVE:
            return run_native(problem, plan._compiled(), views, out)
