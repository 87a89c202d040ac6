"""Domains with trivial expressions left out: the identity, where nothing runs out of range.

Splits by 1 or by the whole extent and merges with an extent of 1 rename an IterDomain. Roles are
inferred without them; walks keep them, for an extent of 1 may be split further and then overrun.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from teir.tma.derive import Domains
from teir.tma.domain import (
    Expression,
    MergeExpression,
    ResizeExpression,
    SplitExpression,
    SwizzleExpression,
)


def identified(domains: Domains) -> Domains:
    """``domains`` over originals only, without trivial expressions."""
    return replace(
        domains,
        loop=tuple(domains.original(one) for one in domains.loop),
        allocation=tuple(domains.original(one) for one in domains.allocation),
        loop_expressions=_identified(domains, domains.loop_expressions),
        allocation_expressions=_identified(domains, domains.allocation_expressions),
    )


def is_trivial(expression: Expression) -> bool:
    """True for the identity of one IterDomain, up to an extent of 1 beside it."""
    match expression:
        case SplitExpression():
            halves = (expression.outer.extent, expression.inner.extent)
            return expression.divides and expression.source.extent in halves
        case MergeExpression():
            return 1 in (expression.outer.extent, expression.inner.extent)
        case ResizeExpression() | SwizzleExpression():
            return False
        case _:
            assert_never(expression)


def original(domains: Domains, expression: Expression) -> Expression:
    """``expression`` between originals."""
    at = domains.original
    match expression:
        case SplitExpression():
            return replace(
                expression,
                source=at(expression.source),
                outer=at(expression.outer),
                inner=at(expression.inner),
            )
        case MergeExpression():
            return replace(
                expression,
                outer=at(expression.outer),
                inner=at(expression.inner),
                result=at(expression.result),
            )
        case SwizzleExpression():
            return replace(
                expression,
                x=at(expression.x),
                y=at(expression.y),
                result_x=at(expression.result_x),
                result_y=at(expression.result_y),
            )
        case ResizeExpression():
            return replace(expression, source=at(expression.source), result=at(expression.result))
        case _:
            assert_never(expression)


def _identified(domains: Domains, expressions: tuple[Expression, ...]) -> tuple[Expression, ...]:
    return tuple(original(domains, one) for one in expressions if not is_trivial(one))
