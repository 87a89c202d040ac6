"""Which calls of einsum and plan are sparse products or index notation, and what they become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from teir.arrays.sparse_adapters import is_sparse
from teir.dtypes import DataType
from teir.errors import ArgumentPlace, Finding, TeirError
from teir.expr.index_notation import Assignment
from teir.expr.index_notation_parsing import is_index_notation, parse_index_notation
from teir.expr.nodes import Subscripts
from teir.pipeline.problem import asked_type
from teir.pipeline.sparse_plan import (
    SparsePlan,
    assignment_of,
    extents_of,
    hold_all,
    plan_sparse,
    run_sparse,
)
from teir.pipeline.sparse_rules import SPARSE_KEYWORDS


def takes(subscripts: Any, operands: Sequence[Any], out_levels: str | None) -> bool:
    """True for index notation, a sparse operand, or a sparse result."""
    if out_levels is not None:
        return True
    if isinstance(subscripts, str) and is_index_notation(subscripts):
        return True
    return any(is_sparse(operand) for operand in operands)


def sparse_einsum(
    subscripts: str | Subscripts,
    operands: Sequence[Any],
    *,
    out: Any,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
) -> Any:
    """The result. Raises TeirError."""
    assignment = _assignment(subscripts, operands)
    held = hold_all(assignment, operands)
    extents = extents_of(assignment, held)
    return run_sparse(
        assignment,
        held,
        extents,
        out=out,
        out_levels=out_levels,
        dtype=dtype,
        threads=threads,
    )


def sparse_plan(
    subscripts: str | Subscripts,
    given: Sequence[Any],
    *,
    out_levels: str | None,
    dtype: Any,
    threads: int | None,
) -> SparsePlan:
    """The plan; shapes stand for dense arrays of ``dtype``, float64 by default."""
    kind = np.float64 if dtype is None else dtype
    operands = [_stand_in(one, kind) if isinstance(one, tuple) else one for one in given]
    assignment = _assignment(subscripts, operands)
    held = hold_all(assignment, operands)
    extents = extents_of(assignment, held)
    return plan_sparse(
        assignment, held, extents, out_levels=out_levels, dtype=dtype, threads=threads
    )


def require_usual(wishes: dict[str, bool]) -> None:
    """Raises TeirError (TEIR687) for keywords that sparse products do not take."""
    findings = tuple(
        Finding(
            rule=SPARSE_KEYWORDS,
            place=ArgumentPlace(name=name),
            expected="its default",
            found="another value",
        )
        for name, is_usual in wishes.items()
        if not is_usual
    )
    if findings:
        raise TeirError(findings)


def _assignment(subscripts: str | Subscripts, operands: Sequence[Any]) -> Assignment:
    if isinstance(subscripts, str):
        return parse_index_notation(subscripts)
    return assignment_of(subscripts, operands)


def _stand_in(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of a shape without memory of its own size."""
    asked = asked_type(dtype)
    kind = asked.numpy_dtype() if isinstance(asked, DataType) else asked
    return np.empty(shape, kind)
