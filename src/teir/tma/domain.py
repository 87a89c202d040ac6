"""IterDomains and the transformations between them: extent maps, index maps, and their inverses.

    transformation     extents                       index map                    inverse
    inner split by d   n -> (ceil(n/d), d)           i -> (i div d, i mod d)      o*d + r
    outer split by d   n -> (d, c), c = ceil(n/d)    i -> (i div c, i mod c)      o*c + r
    merge              (a, b) -> a*b                 (x, y) -> x*b + y            (i div b, i mod b)
    swizzle            unchanged                     (x, y) -> (x, x xor y)       itself
    resize by (l, r)   n -> n + l + r                i -> i + l                   i - l

Division is Euclidean. A split that does not divide is a resize by (0, pad) and then a split that
does: positions at or beyond the extent of an IterDomain are holes. What is trivial is the identity
and yields no expression: splits by 1 and by the whole extent, merges with extent 1, resizes by 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class IterDomain:
    """A loop that somebody may run. ``number`` tells it from others of one extent."""

    number: int
    extent: int

    def __str__(self) -> str:
        return f"I{self.number}{{{self.extent}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitExpression:
    """``source`` seen as ``outer`` and ``inner``; the inner extent is the divisor of the index.

    ``factor`` is what the schedule said: the inner extent of an inner split, the outer one of an
    outer split.
    """

    source: IterDomain
    outer: IterDomain
    inner: IterDomain
    factor: int

    @property
    def divides(self) -> bool:
        return self.outer.extent * self.inner.extent == self.source.extent


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeExpression:
    """``outer`` and ``inner`` seen as ``result``."""

    outer: IterDomain
    inner: IterDomain
    result: IterDomain


@dataclass(frozen=True, slots=True, kw_only=True)
class SwizzleExpression:
    """``y`` seen as ``result_y = x xor y``; ``result_x`` equals ``x``."""

    x: IterDomain
    y: IterDomain
    result_x: IterDomain
    result_y: IterDomain


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeExpression:
    """``source`` with ``left`` more positions before it and ``right`` more behind it."""

    source: IterDomain
    result: IterDomain
    left: int
    right: int


Expression = SplitExpression | MergeExpression | SwizzleExpression | ResizeExpression


def inputs_of(expression: Expression) -> tuple[IterDomain, ...]:
    """The IterDomains a transformation consumes, outermost first."""
    match expression:
        case SplitExpression() | ResizeExpression():
            return (expression.source,)
        case MergeExpression():
            return (expression.outer, expression.inner)
        case SwizzleExpression():
            return (expression.x, expression.y)
        case _:
            assert_never(expression)


def outputs_of(expression: Expression) -> tuple[IterDomain, ...]:
    """The IterDomains a transformation makes, outermost first."""
    match expression:
        case SplitExpression():
            return (expression.outer, expression.inner)
        case MergeExpression() | ResizeExpression():
            return (expression.result,)
        case SwizzleExpression():
            return (expression.result_x, expression.result_y)
        case _:
            assert_never(expression)


def forward(expression: Expression, indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Indices of the outputs from indices of the inputs: integers or arrays of them."""
    match expression:
        case SplitExpression():
            inner = expression.inner.extent
            return (indices[0] // inner, indices[0] % inner)
        case MergeExpression():
            return (indices[0] * expression.inner.extent + indices[1],)
        case SwizzleExpression():
            return (indices[0], indices[0] ^ indices[1])
        case ResizeExpression():
            return (indices[0] + expression.left,)
        case _:
            assert_never(expression)


def backward(expression: Expression, indices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Indices of the inputs from indices of the outputs: integers or arrays of them."""
    match expression:
        case SplitExpression():
            return (indices[0] * expression.inner.extent + indices[1],)
        case MergeExpression():
            inner = expression.inner.extent
            return (indices[0] // inner, indices[0] % inner)
        case SwizzleExpression():
            return (indices[0], indices[0] ^ indices[1])
        case ResizeExpression():
            return (indices[0] - expression.left,)
        case _:
            assert_never(expression)


def makes_holes(expression: Expression) -> bool:
    """True where an output in range may stand for an input that is not."""
    match expression:
        case SplitExpression():
            return not expression.divides
        case ResizeExpression():
            return expression.left > 0 or expression.right > 0
        case MergeExpression() | SwizzleExpression():
            return False
        case _:
            assert_never(expression)


def names(domain: tuple[IterDomain, ...]) -> str:
    """IterDomains as findings name them: ``I3{4}, I5{2}``."""
    return ", ".join(str(one) for one in domain)
