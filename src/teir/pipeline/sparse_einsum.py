"""Which calls of einsum and plan are sparse products or index notation, and what they become."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from teir.arrays.sparse_adapters import is_sparse
from teir.arrays.sparse_shapes import checked_shape
from teir.dtypes import DataType
from teir.errors import refuse
from teir.expr.index_notation import Assignment
from teir.expr.index_notation_parsing import is_index_notation, parse_index_notation
from teir.expr.nodes import Subscripts
from teir.pipeline.determinism import Determinism
from teir.pipeline.operand_types import asked_type
from teir.pipeline.problem import require_dense
from teir.pipeline.progress import Advance
from teir.pipeline.room import no_room_for
from teir.pipeline.sparse_blocked import KnownBlocks, asks_for_blocks, with_blocks_apart
from teir.pipeline.sparse_calls import SparseCalls, call_of
from teir.pipeline.sparse_plan import SparsePlan, plan_sparse
from teir.pipeline.sparse_problem import assignment_of, hold_all, sparse_problem
from teir.pipeline.sparse_results import KnownResult
from teir.pipeline.sparse_room import Room
from teir.pipeline.sparse_rules import SPARSE_KEYWORDS
from teir.pipeline.sparse_run import run_steps
from teir.pipeline.sparse_stages import stages_of
from teir.pipeline.sparse_tuning import TunedProduct, tune_products, tune_sparse
from teir.pipeline.tensor_views import in_tensors
from teir.runtime.runtime import current


def takes(subscripts: Any, operands: Sequence[Any], out_levels: str | None) -> bool:
    """True for index notation, a sparse operand, or a sparse result."""
    if out_levels is not None:
        return True
    if isinstance(subscripts, str):
        return is_index_notation(subscripts) or any(map(is_sparse, operands))
    return any(map(is_sparse, (subscripts, *operands)))


def sparse_einsum(
    subscripts: str | Subscripts,
    operands: Sequence[Any],
    asked: str | None,
    *,
    out: Any,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
    tune: bool,
    deterministic: Determinism,
    memory_limit: int | None = None,
) -> Any:
    """The result; the call is known by the text ``asked`` from then on. Raises TeirError."""
    is_known = asked is not None and dtype is None and memory_limit is None

    def computed(given: Sequence[Any], target: Any) -> Any:
        key = (asked, threads, out_levels, deterministic.value)
        # Operands that are not views of tensors were looked up before this was called.
        if is_known and given is not operands and not tune:
            result = sparse_calls().run(key, given, target)
            if result is not NotImplemented:
                return result
        assignment = _assignment(subscripts, given)
        room = None if memory_limit is None else Room(memory_limit, target is not None)
        held = hold_all(assignment, given, room)
        has_blocks = asks_for_blocks(assignment, out_levels)
        if has_blocks:
            assignment, held = with_blocks_apart(assignment, held)
        problem = sparse_problem(
            assignment,
            held,
            out_levels=out_levels,
            dtype=dtype,
            threads=threads,
            deterministic=deterministic,
            memory_limit=memory_limit,
        )
        if tune:
            tune_sparse(problem, held, room)
            sparse_calls().kinds.clear()
        *_, stage = stages_of(problem, held, room)
        result = run_steps(stage.problem, held, stage.steps, target)
        if is_known and stage.problem is problem:
            call = call_of(problem, given, held, stage.steps)
            if has_blocks:
                call = KnownBlocks(call) if isinstance(call, KnownResult) else None
            sparse_calls().keep(key, given, call)
        return result.join_blocks() if has_blocks else result

    return in_tensors(operands, out, computed)


def sparse_calls() -> SparseCalls:
    """Calls with sparse operands, by (text, threads, levels, determinism), of default types."""
    return current().once("sparse calls", SparseCalls)


def sparse_plan(
    subscripts: str | Subscripts,
    given: Sequence[Any],
    *,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
    tune: bool,
    deterministic: Determinism,
    memory_limit: int | None = None,
) -> SparsePlan:
    """The plan; shapes stand for dense arrays of ``dtype``, float64 by default."""
    kind = np.float64 if dtype is None else dtype
    operands = [
        _stand_in(f"operand {number}", one, kind) if isinstance(one, tuple) else one
        for number, one in enumerate(given)
    ]
    assignment = _assignment(subscripts, operands)
    if tune:
        room = None if memory_limit is None else Room(memory_limit)
        held = hold_all(assignment, operands, room)
        stated = assignment
        if asks_for_blocks(assignment, out_levels):
            stated, held = with_blocks_apart(assignment, held)
        problem = sparse_problem(
            stated,
            held,
            out_levels=out_levels,
            dtype=dtype,
            threads=threads,
            deterministic=deterministic,
            memory_limit=memory_limit,
        )
        tune_sparse(problem, held, room)
        sparse_calls().kinds.clear()
    return plan_sparse(
        assignment,
        operands,
        out_levels=out_levels,
        dtype=dtype,
        threads=threads,
        deterministic=deterministic,
        memory_limit=memory_limit,
    )


def tune_operands(
    subscripts: str,
    operands: Sequence[Any],
    *,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
    tell: Advance,
    found: list[TunedProduct],
) -> None:
    """Measure index notation on these operands anew; what was measured goes to ``found``.

    Raises TeirError as `sparse_plan` does.
    """
    assignment = _assignment(subscripts, operands)
    held = hold_all(assignment, operands)
    problem = sparse_problem(assignment, held, out_levels=out_levels, dtype=dtype, threads=threads)
    tune_products(stages_of(problem, held), found, anew=True, tell=tell)


def require_no_path(optimize: Any) -> None:
    """Raises TeirError (TEIR687) for a path or its finder: sparse products choose their own."""
    if not isinstance(optimize, (str, bool)):
        expected = "its default, 'auto'"
        refuse(SPARSE_KEYWORDS, "optimize", expected, f"a value of type {type(optimize).__name__}")


def _assignment(subscripts: str | Subscripts, operands: Sequence[Any]) -> Assignment:
    if isinstance(subscripts, str):
        return parse_index_notation(subscripts)
    return assignment_of(subscripts, operands)


def _stand_in(name: str, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of a shape, which only measuring reads.

    It has the strides that callers' arrays are expected to have, so it takes addresses, if no
    memory. Raises TeirError for shapes of no array, and of none that fits.
    """
    checked_shape(shape, name)
    asked = asked_type(dtype)
    kind = np.dtype(asked.numpy_dtype() if isinstance(asked, DataType) else asked)
    require_dense(name, shape, kind.itemsize)
    try:
        return np.empty(shape, kind)
    except MemoryError:
        what = f"a dense operand of shape {shape}"
        raise no_room_for(name, what, prod(shape) * kind.itemsize) from None
