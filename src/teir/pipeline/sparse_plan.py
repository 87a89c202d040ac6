"""Sparse products and index notation: from text and arrays to a result.

    text, arrays -> assignment, held operands -> a term per product -> schedule -> program -> run

A dense result is computed term by term and summed. The pattern of a sparse one is assembled first;
every term then adds into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Never

import numpy as np

from teir.arrays.levels import Format, dense_format, parse_format
from teir.arrays.sparse import Sparse, owned
from teir.arrays.sparse_adapters import is_sparse
from teir.dtypes import DataType, data_type_of
from teir.errors import ArgumentPlace, Finding, Rule, TeirError
from teir.expr.check import bind_shapes
from teir.expr.index_notation import Access, Assignment, Product
from teir.expr.index_notation_check import index_extents
from teir.expr.nodes import Subscripts
from teir.ir.nodes import Program
from teir.pipeline.assemble import assemble
from teir.pipeline.executable import Executable, thread_count
from teir.pipeline.problem import asked_type
from teir.pipeline.sparse_operands import Array, Conversion, Held, hold
from teir.pipeline.sparse_rules import (
    OUT_LEVELS,
    SPARSE_OPERANDS,
    SPARSE_OUT,
    SPARSE_TYPE,
)
from teir.pipeline.sparse_schedule import Scheduled, index_type_of, scheduled
from teir.pipeline.sparse_terms import Term, term_of

_COMPUTED = {
    DataType.BF16: DataType.FP32,
    DataType.FP16: DataType.FP32,
    DataType.TF32: DataType.FP32,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparsePlan:
    """A sparse product, or a sum of them, for operands of given shapes, types and formats.

    Call it: ``plan(b, c)`` or ``plan(b, c, out=a)``. Immutable; may be called from any thread.
    Which positions the operands store may differ from call to call.
    """

    assignment: Assignment
    extents: Mapping[str, int]
    operands: tuple[str, ...]
    """What every operand has to be: type, shape and format in words."""
    output_format: Format
    has_sparse_result: bool
    result_type: DataType
    threads: int
    outlines: tuple[Outline, ...]
    """The products as planned; operands in other orders of memory are scheduled when they come."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.extents[index] for index in self.assignment.output.indices)

    @property
    def programs(self) -> tuple[Program, ...]:
        """One program per product that a program computes."""
        chosen = (outline.scheduled for outline in self.outlines)
        return tuple(one.executable.program for one in chosen if one is not None)

    @property
    def program(self) -> Program:
        """The program of a single product. Raises ValueError where there are none or several."""
        (program,) = self.programs
        return program

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        """The result: a new array, ``out``, or with compressed levels a new `teir.Sparse`.

        Raises TeirError before anything is written: operands other than planned for (TEIR688),
        index arrays that are none (TEIR672 to TEIR674), a wrong ``out`` (TEIR686).
        """
        held = hold_all(self.assignment, operands)
        found = tuple(_text_of(one) for one in held.values())
        if found != self.operands:
            raise TeirError(tuple(_differences(self.operands, found)))
        return _run(self, held, _steps(self, held), out)

    def explain(self, measure: bool = False) -> str:
        """What runs, and why, in words: operands, conversions, schedules, programs."""
        from teir.pipeline.sparse_explain import explain_sparse

        return explain_sparse(self, measure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What is known of a product without its operands; no schedule where nothing is added."""

    text: str
    notes: tuple[Conversion, ...]
    scheduled: Scheduled | None
    is_negative: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One product with its operands."""

    term: Term
    scheduled: Scheduled | None
    is_negative: bool

    @property
    def outline(self) -> Outline:
        return Outline(
            text=" * ".join(str(factor.access) for factor in self.term.factors),
            notes=self.term.notes,
            scheduled=self.scheduled,
            is_negative=self.is_negative,
        )


def plan_sparse(
    assignment: Assignment,
    held: Mapping[str, Held],
    extents: Mapping[str, int],
    *,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
) -> SparsePlan:
    """The plan for these operands. Raises TeirError."""
    plan = _bare_plan(assignment, held, extents, out_levels, dtype, threads)
    return replace(plan, outlines=tuple(step.outline for step in _steps(plan, held)))


def run_sparse(
    assignment: Assignment,
    held: Mapping[str, Held],
    extents: Mapping[str, int],
    *,
    out: Any,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
) -> Any:
    """The result for these operands, planned and computed. Raises TeirError."""
    plan = _bare_plan(assignment, held, extents, out_levels, dtype, threads)
    return _run(plan, held, _steps(plan, held), out)


def _bare_plan(
    assignment: Assignment,
    held: Mapping[str, Held],
    extents: Mapping[str, int],
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
) -> SparsePlan:
    rank = len(assignment.output.indices)
    output_format = dense_format(rank) if out_levels is None else _output_format(out_levels, rank)
    return SparsePlan(
        assignment=assignment,
        extents=extents,
        operands=tuple(_text_of(one) for one in held.values()),
        output_format=output_format,
        has_sparse_result=out_levels is not None,
        result_type=_result_type(held, dtype),
        threads=thread_count(threads),
        outlines=(),
    )


def _run(plan: SparsePlan, held: Mapping[str, Held], steps: Sequence[_Step], out: Any) -> Any:
    """The result for operands that fit the plan."""
    target = None if out is None else _require_out(plan, held, out)
    if plan.assignment.accumulates and target is None:
        _refuse(SPARSE_OUT, "out", "the array that += adds into", "none")
    if plan.has_sparse_result:
        return _run_sparse(plan, steps)
    whole = _run_dense(plan, steps, None if plan.assignment.accumulates else target)
    if target is not None:
        if plan.assignment.accumulates:
            np.add(target, whole, out=target, casting="unsafe")
        elif whole is not target:
            target[...] = whole
        return out
    whole = whole.astype(plan.result_type.numpy_dtype(), copy=False)
    return _in_kind(whole, held)


def hold_all(assignment: Assignment, operands: Sequence[Any]) -> dict[str, Held]:
    """Every operand by the name of its tensor. Raises TeirError."""
    names = tuple(assignment.inputs)
    if len(names) != len(operands):
        expected = f"{len(names)} operands: {', '.join(names)}"
        _refuse(SPARSE_OPERANDS, "operands", expected, f"{len(operands)}")
    findings: list[Finding] = []
    held: dict[str, Held] = {}
    for name, value in zip(names, operands, strict=True):
        try:
            held[name] = hold(name, value)
        except TeirError as error:
            findings += error.findings
    if findings:
        raise TeirError(tuple(findings))
    return held


def assignment_of(subscripts: Subscripts, operands: Sequence[Any]) -> Assignment:
    """An einsum as an assignment: operands in0, in1, ..., the result out. Raises TeirError."""
    bound = bind_shapes(
        subscripts, [np.shape(one) if not is_sparse(one) else tuple(one.shape) for one in operands]
    )
    names = _index_names(bound.einsum.indices)
    factors = tuple(
        Access(tensor=f"in{number}", indices=tuple(names[index] for index in term))
        for number, term in enumerate(bound.einsum.inputs)
    )
    output = Access(tensor="out", indices=tuple(names[index] for index in bound.einsum.output))
    product = Product(factors=factors)
    return Assignment(output=output, products=(product,), text=str(subscripts))


def extents_of(assignment: Assignment, held: Mapping[str, Held]) -> dict[str, int]:
    """The extent of every index; those of an einsum may repeat along 1. Raises TeirError."""
    shapes = {name: one.shape for name, one in held.items()}
    if "=" in (assignment.text or "="):
        return index_extents(assignment, shapes)
    extents: dict[str, int] = {}
    for name, access in assignment.inputs.items():
        for index, extent in zip(access.indices, shapes[name], strict=True):
            extents[index] = extent if extents.get(index, 1) == 1 else extents[index]
    return {index: extents[index] for index in assignment.indices}


def _index_names(indices: Sequence[str]) -> dict[str, str]:
    """Words for the indices of an einsum: its letters where they are letters."""
    names = {index: index for index in indices if index.isidentifier()}
    for number, index in enumerate(indices):
        if index not in names:
            wish = f"x{number}"
            while wish in names.values():
                wish += "_"
            names[index] = wish
    return names


def _output_format(out_levels: str, rank: int) -> Format:
    if not isinstance(out_levels, str):
        _refuse(OUT_LEVELS, "out_levels", "a text such as 'ds'", repr(out_levels))
    fmt = parse_format(out_levels, "out_levels")
    if len(fmt.levels) != rank:
        _refuse(OUT_LEVELS, "out_levels", f"{rank} levels", repr(out_levels))
    return fmt


def _result_type(held: Mapping[str, Held], dtype: Any) -> DataType:
    if dtype is not None:
        asked = asked_type(dtype)
        if not isinstance(asked, DataType):
            _refuse(SPARSE_TYPE, "dtype", "a floating-point or complex type", str(asked))
        return asked
    dtypes = [_value_type(one) for one in held.values()]
    found = data_type_of(np.result_type(*dtypes))
    if found is None or found.is_index:
        return DataType.FP64
    return found


def _value_type(held: Held) -> np.dtype[Any]:
    dtype = held.array.dtype
    data_type = data_type_of(dtype)
    is_computed = data_type is not None and not data_type.is_index
    if is_computed:
        return dtype
    if dtype.kind not in "biu":
        return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
    return np.dtype(np.float64)


def _steps(plan: SparsePlan, held: Mapping[str, Held]) -> list[_Step]:
    """Every product with its schedule."""
    compute = _COMPUTED.get(plan.result_type, plan.result_type)
    made = []
    for number, product in enumerate(plan.assignment.products):
        operands = [held[factor.tensor] for factor in product.factors]
        term = term_of(
            product.factors, operands, plan.assignment.output, plan.output_format, plan.extents
        )
        chosen = None
        if not _is_empty(term):
            index_type = index_type_of(
                [factor.stored.index_dtype for factor in term.factors if factor.stored]
            )
            name = plan.assignment.text or str(plan.assignment)
            title = name if len(plan.assignment.products) == 1 else f"{name} #{number + 1}"
            chosen = scheduled(term, compute, index_type, plan.threads, title)
        made.append(_Step(term=term, scheduled=chosen, is_negative=product.is_negative))
    return made


def _is_empty(term: Term) -> bool:
    """True where nothing is added: an extent of 0, or a factor that stores nothing."""
    if 0 in term.extents.values():
        return True
    return any(factor.stored is not None and factor.stored.nnz == 0 for factor in term.factors)


def _run_dense(plan: SparsePlan, steps: Sequence[_Step], out: Array | None) -> Array:
    """The sum of the terms in the type they are computed in, directly in ``out`` if it can be."""
    compute = _COMPUTED.get(plan.result_type, plan.result_type).numpy_dtype()
    shape = plan.shape
    total: Array | None = None
    for step in steps:
        if step.scheduled is None:
            continue
        is_direct = total is None and out is not None and out.dtype == compute
        result = out if is_direct and out is not None else np.empty(shape, compute)
        _execute(step, step.scheduled, [result.reshape(-1)])
        if total is None:
            total = np.negative(result, out=result) if step.is_negative else result
        elif step.is_negative:
            total -= result
        else:
            total += result
    return np.zeros(shape, compute) if total is None else total


def _run_sparse(plan: SparsePlan, steps: Sequence[_Step]) -> Sparse:
    """The pattern first, then every term into it."""
    compute = _COMPUTED.get(plan.result_type, plan.result_type).numpy_dtype()
    live = [step for step in steps if step.scheduled is not None]
    products = [
        [
            (factor.access.indices, factor.stored)
            for factor in step.term.factors
            if factor.stored is not None
        ]
        for step in live
    ]
    result = assemble(
        plan.assignment.output.indices,
        plan.output_format,
        products,
        plan.extents,
        compute,
        plan.threads,
    )
    total: Array | None = None
    for step in live if result.nnz else ():
        assert step.scheduled is not None
        values = np.empty(result.nnz, compute)
        arrays = [values, *(a for level in result.stored if level for a in (level.pos, level.crd))]
        _execute(step, step.scheduled, arrays)
        if total is None:
            total = np.negative(values, out=values) if step.is_negative else values
        elif step.is_negative:
            total -= values
        else:
            total += values
    if total is None:
        total = np.zeros(result.nnz, compute)
    values = total.astype(plan.result_type.numpy_dtype(), copy=False)
    return owned(result.shape, result.format, result.stored, values)


def _execute(step: _Step, chosen: Scheduled, output: Sequence[Array]) -> None:
    """Run one program: the arrays of its tensors in their order, the output's last."""
    program = chosen.executable.program
    given = [array for factor in step.term.factors for array in _arrays(factor.held.array)]
    dtypes = [tensor.data_type.numpy_dtype() for tensor in program.tensors]
    arrays = [
        array if array.dtype == dtype else array.astype(dtype)
        for array, dtype in zip((*given, *output), dtypes, strict=True)
    ]
    if isinstance(chosen.executable, Executable):
        addresses = tuple(array.__array_interface__["data"][0] for array in arrays)
        chosen.executable.run_addresses(addresses)
        return
    names = [tensor.name for tensor in program.tensors]
    chosen.executable.run(dict(zip(names, arrays, strict=True)))


def _arrays(array: Sparse | Array) -> list[Array]:
    """Values, then pos and crd of every compressed level, as the program names them."""
    if not isinstance(array, Sparse):
        order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        return [array.transpose(order).reshape(-1)]
    levels = [part for level in array.stored if level for part in (level.pos, level.crd)]
    return [array.values, *levels]


def _require_out(plan: SparsePlan, held: Mapping[str, Held], out: Any) -> Array:
    if plan.has_sparse_result:
        _refuse(SPARSE_OUT, "out", "no out: a sparse result is a new array", type(out).__name__)
    is_torch = type(out).__module__.split(".")[0] == "torch"
    array = out.numpy() if is_torch and hasattr(out, "numpy") else out
    if not isinstance(array, np.ndarray) or not array.flags.writeable:
        _refuse(SPARSE_OUT, "out", "a writable array", type(out).__name__)
    dtype = plan.result_type.numpy_dtype()
    is_laid_out = array.flags.c_contiguous
    if array.shape != plan.shape or array.dtype != dtype or not is_laid_out:
        expected = f"{dtype} of shape {plan.shape}, C-contiguous"
        found = f"{array.dtype} of shape {array.shape}, strides {array.strides}"
        _refuse(SPARSE_OUT, "out", expected, found)
    for name, one in held.items():
        parts = _arrays(one.array) if isinstance(one.array, Sparse) else [one.array]
        if any(np.may_share_memory(array, part) for part in parts):
            _refuse(SPARSE_OUT, "out", "memory apart from the operands", f"bytes of {name}")
    return array


def _in_kind(result: Array, held: Mapping[str, Held]) -> Any:
    """In the library of the operands: PyTorch's where one is a tensor, else NumPy's."""
    if any(one.is_torch for one in held.values()):
        import torch

        if result.dtype.name == "bfloat16":
            return torch.from_numpy(result.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(np.ascontiguousarray(result))
    return result[()] if result.ndim == 0 else result


def _text_of(held: Held) -> str:
    array = held.array
    if isinstance(array, Sparse):
        blocks = f", blocks of {array.blocks}" if array.blocks else ""
        return f"{array.dtype} of shape {array.shape}, levels {array.format}{blocks}"
    return f"{array.dtype} of shape {array.shape}"


def _differences(planned: Sequence[str], found: Sequence[str]) -> list[Finding]:
    return [
        Finding(
            rule=SPARSE_OPERANDS,
            place=ArgumentPlace(name=f"operand {number}"),
            expected=wanted,
            found=given,
        )
        for number, (wanted, given) in enumerate(zip(planned, found, strict=True))
        if wanted != given
    ]


def _refuse(rule: Rule, name: str, expected: str, found: str) -> Never:
    place = ArgumentPlace(name=name)
    finding = Finding(rule=rule, place=place, expected=expected, found=found)
    raise TeirError((finding,))
