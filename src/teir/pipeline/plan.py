"""A plan: an einsum compiled for arrays of given types, shapes and strides, to be called often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Never

import msgspec
import numpy as np

from teir.arrays.adapters import ArrayView, Kind, in_kind, new_array, view_array
from teir.errors import Rule, TeirError, at_argument, refuse
from teir.ir.nodes import Program
from teir.pipeline.choosing import Chosen, Decidable
from teir.pipeline.executable import Executable, Form
from teir.pipeline.indirect_calls import Indirect
from teir.pipeline.memory import scratch_bytes
from teir.pipeline.operand_types import OperandType
from teir.pipeline.problem import Problem, Route
from teir.pipeline.process_bound import ProcessBound
from teir.pipeline.room import no_room
from teir.search.tree import StepNote

PLAN_OPERANDS = Rule(
    code="TEIR641",
    sentence="A plan is called with arrays of the types and shapes it was made for.",
    source="language reference, plan",
)
OUT_SHAPE = Rule(
    code="TEIR630", sentence="out has the shape of the result.", source="docs/safety.md G9"
)
OUT_TYPE = Rule(
    code="TEIR631", sentence="out has the type of the result.", source="docs/safety.md G9"
)
OUT_WRITABLE = Rule(code="TEIR632", sentence="out is a writable array.", source="docs/safety.md G9")
OUT_APART = Rule(
    code="TEIR635", sentence="out shares no byte with an operand.", source="docs/safety.md G10"
)
NUMPY_OPERANDS = Rule(
    code="TEIR644",
    sentence="Where NumPy computes the result there are at most 60 operands.",
    source="numpy.einsum",
)
NO_PROGRAM = Rule(
    code="TEIR642",
    sentence="A plan has a program and native code where native code computes the result.",
    source="language reference, plan",
)
RULES = (PLAN_OPERANDS, OUT_SHAPE, OUT_TYPE, OUT_WRITABLE, OUT_APART, NO_PROGRAM, NUMPY_OPERANDS)

_OVERLAP_WORK = 10_000
"""Steps of the exact overlap search before an operand counts as overlapping."""

_MOST_NUMPY_OPERANDS = 60

Replan = Callable[[tuple[OperandType, ...], OperandType | None], "Plan"]


def _not_called(*_operands: Any, **_keywords: Any) -> Never:
    raise AssertionError("expected a plan that has been made callable")


class Plan(ProcessBound, msgspec.Struct, frozen=True, kw_only=True):
    """An einsum bound to code. Call it: ``plan(a, b)`` or ``plan(a, b, out=c)``.

    The result is in ``out`` if given, else in a new C-contiguous array. A call raises TeirError
    before anything is written: operands that do not fit the plan (TEIR641), an ``out`` that cannot
    be written directly (TEIR630 to TEIR636).

    Immutable; may be called from any thread. Arrays with other strides than planned for are
    computed by a plan of their own.
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
        planned = self.problem.out
        try:
            result = np.empty(planned.shape, planned.dtype)
        except MemoryError:
            raise no_room(planned) from None
        addresses = [operand.__array_interface__["data"][0] for operand in operands]
        direct((*addresses, result.__array_interface__["data"][0]))
        return result if planned.shape else result[()]

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
        scratch = scratch_bytes(self.executable.kernel_program, self.threads)
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


def call_plan(plan: Plan, *operands: Any, out: Any = None) -> Any:
    """A call of ``plan`` that its native call does not serve."""
    return run_plan(plan, operands, out)


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
    _require_planned(plan.problem, types)
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
    if out is not None:
        _require_apart(views, out)
    match plan.problem.route:
        case Route.NUMPY:
            return _run_numpy(plan, views, out)
        case Route.ZEROS:
            return _run_zeros(plan.problem, views, out)
        case Route.NATIVE:
            return _run_native(plan, views, out)


def operand_type(view: ArrayView) -> OperandType:
    return OperandType(view.data_type, view.dtype, view.shape, view.strides_bytes)


def view_out(problem: Problem, out: Any) -> ArrayView:
    """``out`` as strided memory. Raises TeirError when it cannot hold the result."""
    view = view_array("out", out)
    findings = []
    shape = problem.bound.output_shape
    if view.kind is Kind.NUMBER or not view.writable:
        found = "a read-only array" if view.kind is not Kind.NUMBER else type(out).__name__
        findings.append(at_argument(OUT_WRITABLE, "out", "a writable array", found))
    if view.shape != shape:
        findings.append(at_argument(OUT_SHAPE, "out", f"shape {shape}", f"shape {view.shape}"))
    if view.dtype != problem.out.dtype:
        expected = f"dtype {problem.out.dtype}"
        hint = "pass dtype= to compute in the type of out"
        findings.append(at_argument(OUT_TYPE, "out", expected, f"dtype {view.dtype}", hint))
    if findings:
        raise TeirError(tuple(findings))
    return view


def _require_planned(problem: Problem, types: Sequence[OperandType]) -> None:
    planned = problem.operands
    if len(types) != len(planned):
        refuse(PLAN_OPERANDS, "plan", f"{len(planned)} operands", f"{len(types)}")
    findings = [
        at_argument(
            PLAN_OPERANDS,
            f"operand {place}",
            f"{wanted.dtype} of shape {wanted.shape}",
            f"{given.dtype} of shape {given.shape}",
        )
        for place, (wanted, given) in enumerate(zip(planned, types, strict=True))
        if wanted.dtype != given.dtype or wanted.shape != given.shape
    ]
    if findings:
        raise TeirError(tuple(findings))


def _require_apart(views: Sequence[ArrayView], out: ArrayView) -> None:
    low, high = out.span_bytes
    for place, view in enumerate(views):
        begin, end = view.span_bytes
        apart = view.address - out.address
        if begin + apart < high and low < end + apart and _overlaps(view, out):
            refuse(
                OUT_APART,
                "out",
                "memory apart from the operands",
                f"bytes shared with operand {place}",
                "pass a copy of the operand, or leave out away",
            )


def _overlaps(view: ArrayView, out: ArrayView) -> bool:
    if view.array is None or out.array is None:
        return True
    try:
        return bool(np.shares_memory(view.array, out.array, max_work=_OVERLAP_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _like(views: Sequence[ArrayView]) -> ArrayView:
    """The operand whose kind the result takes."""
    return next((view for view in views if view.kind is not Kind.NUMBER), views[0])


def _run_native(plan: Plan, views: Sequence[ArrayView], out: ArrayView | None) -> Any:
    assert plan.executable is not None
    problem = plan.problem
    result: Any = None
    if out is None:
        assert problem.out.data_type is not None
        try:
            result = new_array(_like(views).kind, problem.bound.output_shape, problem.out.data_type)
        except MemoryError:
            raise no_room(problem.out) from None
        target = view_array("out", result)
    else:
        target = out
    keep: list[Any] = []
    addresses = []
    assert problem.contraction is not None
    for view, copied, factor in zip(views, problem.copied, problem.contraction.inputs, strict=True):
        if not copied:
            addresses.append(view.address)
            continue
        assert view.array is not None
        copy = np.ascontiguousarray(view.array, factor.tensor.data_type.numpy_dtype())
        if copy is view.array:
            copy = copy.copy()
        keep.append(copy)
        addresses.append(copy.__array_interface__["data"][0])
    plan.executable.run_addresses((*addresses, target.address))
    if out is not None:
        return out.owner
    like = _like(views)
    if like.kind is Kind.TORCH:
        return result
    return _finished(result, like)


def _finished(result: np.ndarray[Any, Any], like: ArrayView) -> Any:
    """As NumPy's einsum does, a result without axes is a scalar."""
    if like.kind is Kind.OTHER:
        return in_kind(result, like)
    return result[()] if result.ndim == 0 else result


def _run_zeros(problem: Problem, views: Sequence[ArrayView], out: ArrayView | None) -> Any:
    if out is None:
        assert problem.out.data_type is not None
        try:
            result = new_array(_like(views).kind, problem.bound.output_shape, problem.out.data_type)
        except MemoryError:
            raise no_room(problem.out) from None
        result[...] = 0
        return result if _like(views).kind is Kind.TORCH else _finished(result, _like(views))
    out.owner[...] = 0
    return out.owner


def _run_numpy(plan: Plan, views: Sequence[ArrayView], out: ArrayView | None) -> Any:
    problem = plan.problem
    if len(views) > _MOST_NUMPY_OPERANDS:
        expected = f"at most {_MOST_NUMPY_OPERANDS} for {problem.out.dtype}"
        hint = "pass dtype= to compute in a floating-point type"
        refuse(NUMPY_OPERANDS, "operands", expected, f"{len(views)}", hint)
    if out is None and plan.indirect is not None and all(_is_plain(view) for view in views):
        made = plan.indirect([view.owner for view in views])
        if made is not NotImplemented:
            return made
    einsum = problem.bound.einsum
    number = {index: place for place, index in enumerate(einsum.indices)}
    arguments: list[Any] = []
    # Intermediates of a path have no bound that holds; one nest of loops has none.
    optimize = len(views) > 2 and plan.memory_limit is None
    for view, term in zip(views, einsum.inputs, strict=True):
        # A path promotes pair by pair: two factors of bool would meet as bool, whatever dtype says.
        array = np.asarray(view.array, problem.out.dtype) if optimize else view.array
        assert array is not None
        arguments += [array, [number[index] for index in term]]
    arguments.append([number[index] for index in einsum.output])
    if out is None:
        dtype = problem.out.dtype
        try:
            result = np.einsum(*arguments, dtype=dtype, casting="unsafe", optimize=optimize)
            # NumPy gives a view of a single operand that is not summed, whatever type is asked for.
            is_view = len(views) == 1
            result = np.array(result, dtype, order="C", copy=True if is_view else None)
        except MemoryError:
            raise no_room(problem.out) from None
        like = _like(views)
        if like.kind in (Kind.TORCH, Kind.OTHER):
            return in_kind(result, like)
        return result[()]
    np.einsum(
        *arguments,
        out=out.array,
        dtype=problem.out.dtype,
        casting="unsafe",
        optimize=optimize,
    )
    return out.owner


def _is_plain(view: ArrayView) -> bool:
    return type(view.owner) is np.ndarray
