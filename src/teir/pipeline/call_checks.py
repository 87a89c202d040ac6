"""What a call of a plan asks of its operands and of ``out``, before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from teir.arrays.adapters import ArrayView, Kind, memory_of, view_array
from teir.errors import Rule, TeirError, at_argument, refuse
from teir.pipeline.operand_types import OperandType
from teir.pipeline.overlap import meet, span_of
from teir.pipeline.problem import Problem

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
    code="TEIR635",
    sentence="out shares no byte with an operand, unless overlap is 'copy'.",
    source="docs/safety.md G10",
)
CALL_RULES = (PLAN_OPERANDS, OUT_SHAPE, OUT_TYPE, OUT_WRITABLE, OUT_APART)

_OVERLAP_WORK = 10_000
"""Steps of the exact overlap search before an operand counts as overlapping."""


def view_out(problem: Problem, out: Any) -> ArrayView:
    """``out`` as strided memory. Raises TeirError when it cannot hold the result."""
    view = view_array("out", out)
    findings = []
    shape = problem.bound.output_shape
    if view.kind is Kind.NUMBER:
        refuse(OUT_WRITABLE, "out", "a writable array", type(out).__name__)
    if not view.writable:
        findings.append(at_argument(OUT_WRITABLE, "out", "a writable array", "a read-only array"))
    if view.shape != shape:
        findings.append(at_argument(OUT_SHAPE, "out", f"shape {shape}", f"shape {view.shape}"))
    if view.dtype != problem.out.dtype:
        expected = f"dtype {problem.out.dtype}"
        hint = "pass dtype= to compute in the type of out"
        findings.append(at_argument(OUT_TYPE, "out", expected, f"dtype {view.dtype}", hint))
    if findings:
        raise TeirError(tuple(findings))
    return view


def require_planned(problem: Problem, types: Sequence[OperandType]) -> None:
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


def require_apart(views: Sequence[ArrayView], out: ArrayView) -> None:
    written = span_of(out)
    for place, view in enumerate(views):
        if meet(span_of(view), written) and _overlaps(view, out):
            refuse(
                OUT_APART,
                "out",
                "memory apart from the operands",
                f"bytes shared with operand {place}",
                "pass overlap='copy', or leave out away",
            )


def _overlaps(view: ArrayView, out: ArrayView) -> bool:
    one, other = memory_of(view), memory_of(out)
    try:
        return bool(np.shares_memory(one, other, max_work=_OVERLAP_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
