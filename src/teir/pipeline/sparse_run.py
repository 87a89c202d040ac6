"""Computing a sparse product: a program per product of the sum, run on the operands' arrays.

A dense result is computed term by term and summed. The pattern of a sparse one is assembled first;
every term then adds into it. Where rows are short, compiled code does both in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from teir.arrays.adapters import view_array
from teir.arrays.numpy_fields import address_of
from teir.arrays.sparse import Sparse, owned
from teir.arrays.sparse_adapters import torch_values
from teir.arrays.torch_plain import is_tensor
from teir.dtypes import DataType
from teir.errors import refuse
from teir.expr.index_notation import Number
from teir.ir.nodes import Program
from teir.pipeline.assemble import assemble, zeros_of
from teir.pipeline.dense_terms import dense_schedule
from teir.pipeline.executable import Executable
from teir.pipeline.kept_patterns import kept_pattern
from teir.pipeline.operand_types import contiguous
from teir.pipeline.room import no_room
from teir.pipeline.row_sums import RowSum, row_sum
from teir.pipeline.sparse_factors import Factor, flat_arrays
from teir.pipeline.sparse_memory import spare_bytes
from teir.pipeline.sparse_numbers import in_type, multiply_by
from teir.pipeline.sparse_operands import Array, Held
from teir.pipeline.sparse_problem import SparseProblem
from teir.pipeline.sparse_rings import ring_of
from teir.pipeline.sparse_room import Room
from teir.pipeline.sparse_rules import SPARSE_OUT
from teir.pipeline.sparse_schedule import Scheduled, index_type_of, scheduled, scheduled_rows
from teir.pipeline.sparse_sharing import shared_factor, shared_levels
from teir.pipeline.sparse_sizes import require_computable
from teir.pipeline.sparse_terms import Term, term_of
from teir.pipeline.sparse_vectors import vector_sum
from teir.pipeline.tensor_views import as_tensor


class PatternSource(Enum):
    """Where a sparse result has its index arrays from."""

    KEPT = "an operand that is multiplied by a number"
    SHARED = "an operand whose index arrays the program walks for both"
    AT_ONCE = "rows whose numbers are computed with it"
    VECTORS = "vectors whose numbers are computed with it"
    ASSEMBLED = "the patterns of the operands"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Products that one program computes, each with its coefficient.

    No schedule where nothing is added. The program multiplies its terms by the operands ``scales``,
    which are numbers; its result is to be multiplied by ``coefficient``.
    """

    terms: tuple[tuple[Term, Number], ...]
    scheduled: Scheduled | None
    coefficient: Number = 1.0
    scales: tuple[Number, ...] = ()

    @property
    def factors(self) -> tuple[Factor, ...]:
        return tuple(factor for term, _ in self.terms for factor in term.factors)


def steps_of(
    problem: SparseProblem, held: Mapping[str, Held], room: Room | None = None
) -> list[Step]:
    """All products with their schedules: rows of a sparse result together, else one by one.

    Raises TeirError where there is no ``room`` for them (TEIR643), or no program (TEIR679).
    """
    assignment = problem.assignment
    terms = []
    for product in assignment.products:
        operands = [held[factor.tensor] for factor in product.factors]
        term = term_of(
            product.factors, operands, assignment.output, problem.output_format, problem.extents
        )
        terms.append((term, product.coefficient))
    live = [pair for pair in terms if not _is_empty(pair[0])]
    for term, _ in live:
        require_computable(term.statement, term.extents, problem.computed_type.width)
    spare = None if room is None else spare_bytes(problem, live, room)
    name = assignment.text or str(assignment)
    alone = shared_factor(live[0][0]) if problem.has_sparse_result and len(live) == 1 else None
    if problem.has_sparse_result and live and alone is None:
        index_type = _index_type([term for term, _ in live])
        scales = tuple(dict.fromkeys(number for _, number in live if number != 1))
        numbered = [(term, None if one == 1 else scales.index(one)) for term, one in live]
        rows = scheduled_rows(numbered, problem.computed_type, index_type, problem.threads, name)
        if rows is not None:
            _require_scratch(problem, rows, spare, room)
            return [Step(terms=tuple(live), scheduled=rows, scales=scales)]
    made = []
    for number, (term, coefficient) in enumerate(terms):
        chosen = None
        if not _is_empty(term):
            title = name if len(terms) == 1 else f"{name} #{number + 1}"
            index_type = _index_type([term])
            shares = None if alone is None else alone.access.tensor
            chosen = _dense(problem, term, title, spare) or scheduled(
                term,
                problem.computed_type,
                index_type,
                problem.threads,
                title,
                shares,
                problem.deterministic,
                spare,
            )
            _require_scratch(problem, chosen, spare, room)
        pair = (term, coefficient)
        made.append(Step(terms=(pair,), scheduled=chosen, coefficient=coefficient))
    return made


def _dense(problem: SparseProblem, term: Term, title: str, spare: int | None) -> Scheduled | None:
    """The einsum that a term of dense factors with a dense result is."""
    if problem.has_sparse_result:
        return None
    return dense_schedule(
        term, problem.computed_type, problem.threads, title, problem.deterministic, spare
    )


def _require_scratch(
    problem: SparseProblem, chosen: Scheduled, spare: int | None, room: Room | None
) -> None:
    """Raises TeirError (TEIR643) where the scratch of a program does not fit beside the rest."""
    if room is None or spare is None:
        return
    rest = room.left_bytes - spare
    room.require(rest + chosen.scratch_bytes, f"{problem.assignment.output} and its temporaries")


def _index_type(terms: Sequence[Term]) -> DataType:
    stored = (factor.stored for term in terms for factor in term.factors)
    return index_type_of([one.index_dtype for one in stored if one is not None])


def _is_empty(term: Term) -> bool:
    """True where nothing is added: an extent of 0, or a factor that stores nothing."""
    if 0 in term.extents.values():
        return True
    return any(factor.stored is not None and factor.stored.nnz == 0 for factor in term.factors)


def run_steps(
    problem: SparseProblem, held: Mapping[str, Held], steps: Sequence[Step], out: Any
) -> Any:
    """The result for operands that fit the problem. Raises TeirError for a wrong ``out``."""
    if problem.assignment.accumulates and problem.has_sparse_result:
        refuse(SPARSE_OUT, "out_levels", "none, as += adds into a dense out", "a sparse result")
    target = None if out is None else _require_out(problem, held, out)
    if problem.assignment.accumulates and target is None:
        refuse(SPARSE_OUT, "out", "the array that += adds into", "none")
    if problem.has_sparse_result:
        return run_sparse(problem, steps)
    whole = _run_dense(problem, steps, None if problem.assignment.accumulates else target)
    if target is not None:
        if problem.assignment.accumulates:
            np.add(target, whole, out=target, casting="unsafe")
        elif whole is not target:
            target[...] = whole
        return out
    whole = in_type(whole, problem.result_type.numpy_dtype())
    return _in_kind(whole, held)


def _run_dense(problem: SparseProblem, steps: Sequence[Step], out: Array | None) -> Array:
    """The sum of the terms in the type they are computed in, directly in ``out`` if it can be."""
    compute = problem.computed_type.numpy_dtype()
    total: Array | None = None
    term: Array | None = None
    for step in steps:
        if step.scheduled is None:
            continue
        if total is None:
            is_direct = out is not None and out.dtype == compute
            result = out if is_direct and out is not None else _new_result(problem)
        else:
            result = term = _new_result(problem) if term is None else term
        _run_term(problem, step, step.scheduled, result.reshape(-1))
        total = _added(total, result, step.coefficient)
    return _new_result(problem, np.zeros) if total is None else total


def _new_result(problem: SparseProblem, make: Callable[..., Array] = np.empty) -> Array:
    """A dense array in the type that is computed with. Raises TeirError (TEIR648)."""
    try:
        return make(problem.shape, problem.computed_type.numpy_dtype())
    except MemoryError:
        raise no_room(contiguous(problem.computed_type, problem.shape)) from None


def _added(total: Array | None, term: Array, coefficient: Number) -> Array:
    """The total, or the first term itself, in place."""
    if total is None:
        return multiply_by(term, coefficient)
    if coefficient == -1:
        return np.subtract(total, term, out=total)
    return np.add(total, multiply_by(term, coefficient), out=total)


def _run_term(problem: SparseProblem, step: Step, chosen: Scheduled, result: Array) -> None:
    """One product of a dense sum, written into ``result``."""
    is_bounded = problem.memory_limit is not None
    ring = None if is_bounded else ring_of(step.terms[0][0], problem.computed_type)
    sums = None if ring is None else ring.sums(problem.threads)
    if sums is None:
        _execute(step, chosen, [result])
        return
    result[...] = sums


def run_sparse(problem: SparseProblem, steps: Sequence[Step]) -> Sparse:
    """The pattern first, then every term into it."""
    compute = problem.computed_type.numpy_dtype()
    live = [step for step in steps if step.scheduled is not None]
    kept = kept_pattern(problem, [pair for step in live for pair in step.terms])
    if kept is not None:
        return kept.result(problem)
    at_once = sum_at_once(problem, live)
    if at_once is not None:
        return run_at_once(problem, at_once)
    vectors = vector_sum(problem, [pair for step in live for pair in step.terms])
    if vectors is not None:
        return vectors.result(problem)
    result = pattern_of(problem, live)
    total: Array | None = None
    for step in live if result.nnz else ():
        assert step.scheduled is not None
        values = np.empty(result.nnz, compute)
        arrays = [values, *(a for level in result.stored if level for a in (level.pos, level.crd))]
        _execute(step, step.scheduled, arrays)
        total = _added(total, values, step.coefficient)
    if total is None:
        total = np.zeros(result.nnz, compute)
    values = in_type(total, problem.result_type.numpy_dtype())
    return owned(result.shape, result.format, result.stored, values)


def pattern_source(problem: SparseProblem, steps: Sequence[Step]) -> PatternSource:
    """What `run_sparse` does for these steps."""
    if kept_pattern(problem, [pair for step in steps for pair in step.terms]) is not None:
        return PatternSource.KEPT
    if _shared(steps) is not None:
        return PatternSource.SHARED
    if sum_at_once(problem, steps) is not None:
        return PatternSource.AT_ONCE
    vectors = vector_sum(problem, [pair for step in steps for pair in step.terms])
    return PatternSource.ASSEMBLED if vectors is None else PatternSource.VECTORS


def sum_at_once(problem: SparseProblem, steps: Sequence[Step]) -> RowSum | None:
    """All products as rows whose numbers are computed with their pattern; None where none are."""
    if _shared(steps) is not None:
        return None
    return row_sum(
        [term for step in steps for term in step.terms],
        problem.assignment.output.indices,
        problem.output_format,
        problem.extents,
        problem.computed_type,
    )


def run_at_once(problem: SparseProblem, rows: RowSum) -> Sparse:
    """The sparse result of a problem whose products are such rows."""
    made = rows.result(
        problem.assignment.output.indices,
        problem.output_format,
        problem.extents,
        problem.computed_type,
        problem.threads,
    )
    dtype = problem.result_type.numpy_dtype()
    return made if made.dtype == dtype else made.with_values(in_type(made.values, dtype))


def pattern_of(problem: SparseProblem, steps: Sequence[Step]) -> Sparse:
    """A result with the levels these products give it."""
    shared = _shared(steps)
    if shared is not None:
        levels = shared_levels(shared, problem.output_format.sparse_prefix)
        return zeros_of(
            problem.assignment.output.indices,
            problem.output_format,
            levels,
            problem.extents,
            problem.computed_type.numpy_dtype(),
        )
    products = [
        [
            (factor.access.indices, factor.stored)
            for factor in term.factors
            if factor.stored is not None
        ]
        for step in steps
        for term, _ in step.terms
    ]
    return assemble(
        problem.assignment.output.indices,
        problem.output_format,
        products,
        problem.extents,
        problem.computed_type.numpy_dtype(),
        problem.threads,
    )


def _shared(steps: Sequence[Step]) -> Sparse | None:
    """The operand whose index arrays are the result's too."""
    for step in steps:
        shares = None if step.scheduled is None else step.scheduled.shares
        for factor in step.factors if shares is not None else ():
            if factor.access.tensor == shares:
                return factor.stored
    return None


def arrays_of(step: Step, program: Program, output: Sequence[Array]) -> list[Array]:
    """The arrays of a program's tensors in their order, the output's last; copies where needed.

    Of an output that shares its index arrays with an input, the program has the values only.
    """
    given = [array for factor in step.factors for array in flat_arrays(factor.held.array)]
    given += [np.full(1, number) for number in step.scales]
    dtypes = [tensor.data_type.numpy_dtype() for tensor in program.tensors]
    own = output[: len(dtypes) - len(given)]
    return [in_type(array, dtype) for array, dtype in zip((*given, *own), dtypes, strict=True)]


def _execute(step: Step, chosen: Scheduled, output: Sequence[Array]) -> None:
    """Run one program."""
    program = chosen.executable.program
    arrays = arrays_of(step, program, output)
    if isinstance(chosen.executable, Executable):
        addresses = tuple(address_of(array) for array in arrays)
        chosen.executable.run_addresses(addresses)
        return
    names = [tensor.name for tensor in program.tensors]
    chosen.executable.run(dict(zip(names, arrays, strict=True)))


def _require_out(problem: SparseProblem, held: Mapping[str, Held], out: Any) -> Array:
    if problem.has_sparse_result:
        refuse(SPARSE_OUT, "out", "no out: a sparse result is a new array", type(out).__name__)
    array = out
    if is_tensor(out):
        view_array("out", out)
        array = torch_values(out)
    if not isinstance(array, np.ndarray):
        refuse(SPARSE_OUT, "out", "an array of NumPy or PyTorch", type(out).__name__)
    if not array.flags.writeable:
        refuse(SPARSE_OUT, "out", "a writable array", "a read-only array")
    dtype = problem.result_type.numpy_dtype()
    is_laid_out = array.flags.c_contiguous
    if array.shape != problem.shape or array.dtype != dtype or not is_laid_out:
        expected = f"{dtype} of shape {problem.shape}, C-contiguous"
        found = f"{array.dtype} of shape {array.shape}, strides {array.strides}"
        refuse(SPARSE_OUT, "out", expected, found)
    for name, one in held.items():
        parts = flat_arrays(one.array) if isinstance(one.array, Sparse) else [one.array]
        if any(np.may_share_memory(array, part) for part in parts):
            found = f"bytes of {name}"
            hint = "pass overlap='copy', or leave out away"
            refuse(SPARSE_OUT, "out", "memory apart from the operands", found, hint)
    return array


def _in_kind(result: Array, held: Mapping[str, Held]) -> Any:
    """In the library of the operands: PyTorch's where one is a tensor, else NumPy's."""
    if any(one.is_torch for one in held.values()):
        return as_tensor(result)
    return result[()] if result.ndim == 0 else result
