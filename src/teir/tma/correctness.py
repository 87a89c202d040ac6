"""Which holes of a tile hold data: weak and strong correctness (tile loads, section 1.5).

The instruction writes 0 for what lies out of bounds, so everything valid is right: *weakly
correct*, always. *Strongly correct*: every hole is 0. That is automatic where every expression that
makes holes has a protected input; else it needs a predicate; and where a tile straddles valid items
and in-bounds holes, it is impossible (the fundamental theorem of TMA correctness).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from teir.errors import Finding, Part, ProgramPlace
from teir.tma.below import below_expressions, beside_tiles
from teir.tma.dimensions import Dimension
from teir.tma.domain import (
    Expression,
    Index,
    IterDomain,
    MergeExpression,
    ResizeExpression,
    SplitExpression,
    SwizzleExpression,
    inputs_of,
    makes_holes,
    names,
    outputs_of,
)
from teir.tma.inference import Inferred
from teir.tma.rules import STRONG
from teir.tma.walk import Walk, count_elements, tile_count, walk

EXHAUSTIVE_TILES = 2**23
WALKED_AT_ONCE = 2**16


class StrongCorrectness(Enum):
    """How holes come to hold the fill value."""

    AUTOMATIC = "automatic"
    NEEDS_PREDICATE = "needs predicate"
    UNACHIEVABLE = "unachievable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """``0 <= index of domain < extent``, asked once per tile.

    Where it is false, the copy is issued at coordinate ``-box`` in every dimension: all elements
    are out of bounds, the tile is filled and the barrier counts the same bytes.
    """

    domain: IterDomain
    index: str
    """The index in loop variables: ``i3`` runs over I3."""

    def __str__(self) -> str:
        return f"0 <= {self.index} < {self.domain.extent}"


def straddles(dimension: Dimension) -> bool:
    """The fundamental theorem: e < B < S and e does not divide B."""
    stride, box, size = dimension.element_stride, dimension.box, dimension.size
    return stride < box < size and box % stride != 0


def classify(inferred: Inferred) -> StrongCorrectness:
    """Strong correctness of the whole schedule, by an exhaustive walk where theory leaves doubt.

    Beyond 2^23 tiles doubt counts as a need: a predicate that was not needed does no harm.
    """
    if any(straddles(dimension) for dimension in inferred.dimensions):
        return StrongCorrectness.UNACHIEVABLE
    if is_protected_throughout(inferred):
        return StrongCorrectness.AUTOMATIC
    total = tile_count(inferred)
    if total > EXHAUSTIVE_TILES:
        return StrongCorrectness.NEEDS_PREDICATE
    for first in range(0, total, WALKED_AT_ONCE):
        linear = np.arange(first, min(first + WALKED_AT_ONCE, total), dtype=np.int64)
        if count_elements(walk(inferred, linear)).hole_data:
            return StrongCorrectness.NEEDS_PREDICATE
    return StrongCorrectness.AUTOMATIC


def require_strong(inferred: Inferred) -> tuple[Predicate, ...] | Finding:
    """The predicates that make the load strongly correct; none where it already is.

    A finding (TEIR960) where that is impossible.
    """
    for dimension in inferred.dimensions:
        if straddles(dimension):
            found = (
                f"e={dimension.element_stride}, B={dimension.box}, S={dimension.size} in "
                f"{names(dimension.raw)}"
            )
            return Finding(
                rule=STRONG,
                place=ProgramPlace(part=Part.ITER_DOMAIN, name=names(dimension.raw)),
                expected="e >= B, B >= S, or e divides B",
                found=found,
                hint="choose a box the element stride divides, or initialise and mask what is read",
            )
    if classify(inferred) is StrongCorrectness.AUTOMATIC:
        return ()
    return predicates(inferred)


def protected(inferred: Inferred) -> frozenset[IterDomain]:
    """The IterDomains whose overrun the instruction's own bounds catch.

    Those are the outermost of every dimension of the instruction, and from there on: the outer
    output of a split, the result of a merge by its outer input, a resize that grows, the x output
    of a swizzle.
    """
    found = {_outermost(dimension) for dimension in inferred.dimensions}
    for expression in below_expressions(inferred):
        match expression:
            case SplitExpression():
                if expression.source in found:
                    found.add(expression.outer)
            case MergeExpression():
                if expression.outer in found:
                    found.add(expression.result)
            case ResizeExpression():
                if expression.source in found and min(expression.left, expression.right) >= 0:
                    found.add(expression.result)
            case SwizzleExpression():
                if expression.x in found:
                    found.add(expression.result_x)
    return frozenset(found)


def is_protected_throughout(inferred: Inferred) -> bool:
    """True where every expression that makes holes has protected inputs."""
    safe = protected(inferred)
    return all(
        one in safe
        for expression in below_expressions(inferred)
        if makes_holes(expression)
        for one in inputs_of(expression)
    )


def predicates(inferred: Inferred) -> tuple[Predicate, ...]:
    """One predicate per unprotected IterDomain that overruns; they only ask loop indices.

    Where one of them overruns inside a tile, protection no longer holds for the others: then those
    that are the same for a whole tile are asked as well.
    """
    safe = protected(inferred)
    holes = [one for one in below_expressions(inferred) if makes_holes(one)]
    overrun = tuple(dict.fromkeys(one for expression in holes for one in inputs_of(expression)))
    asked = [one for one in overrun if one not in safe]
    varying = _varying_in_tiles(inferred)
    if any(one in varying for one in asked):
        asked += [one for one in overrun if one in safe and one not in varying]
    spelled = _spelled(inferred)
    return tuple(Predicate(domain=one, index=spelled[one]) for one in asked)


def predicate_values(walked: Walk, asked: tuple[Predicate, ...]) -> Index:
    """Per tile walked, True where every predicate holds: at element 0 of the tile."""
    holds = np.ones(walked.tiles, dtype=bool)
    for predicate in asked:
        value = walked.values[predicate.domain]
        first = value.reshape(value.shape[0], -1)[:, 0]
        holds &= (first >= 0) & (first < predicate.domain.extent)
    return holds


def _varying_in_tiles(inferred: Inferred) -> set[IterDomain]:
    """The IterDomains whose index differs between elements of one tile."""
    found = {one for dimension in inferred.dimensions for one in dimension.tiles if one.extent > 1}
    for expression in reversed(below_expressions(inferred)):
        if any(one in found for one in outputs_of(expression)):
            found |= set(inputs_of(expression))
    return found


def _outermost(dimension: Dimension) -> IterDomain:
    return next((one for one in dimension.raw if one.extent > 1), dimension.raw[0])


def _spelled(inferred: Inferred) -> dict[IterDomain, str]:
    """The index of every IterDomain below the TMA domain in loop variables, tiles at element 0."""
    spelled = {one: f"i{one.number}" for one in inferred.not_tile}
    spelled |= dict.fromkeys(beside_tiles(inferred), "0")
    for dimension in inferred.dimensions:
        spelled |= dict.fromkeys(dimension.tiles, "0")
    for expression in reversed(below_expressions(inferred)):
        _spell(expression, spelled)
    return spelled


def _spell(expression: Expression, spelled: dict[IterDomain, str]) -> None:
    match expression:
        case SplitExpression(source=source, outer=outer, inner=inner):
            if outer in spelled and inner in spelled:
                left, right = _factor(spelled[outer]), spelled[inner]
                product = f"{left} * {inner.extent}"
                text = right if left == "0" else product if right == "0" else f"{product} + {right}"
                spelled.setdefault(source, text)
        case MergeExpression(outer=outer, inner=inner, result=result):
            if result in spelled:
                index = _factor(spelled[result])
                spelled.setdefault(outer, f"{index} / {inner.extent}")
                spelled.setdefault(inner, f"{index} % {inner.extent}")
        case SwizzleExpression():
            if expression.result_x in spelled and expression.result_y in spelled:
                x, y = spelled[expression.result_x], spelled[expression.result_y]
                spelled.setdefault(expression.x, x)
                spelled.setdefault(expression.y, f"{_factor(x)} ^ {_factor(y)}")
        case ResizeExpression():
            if expression.result in spelled:
                index = spelled[expression.result]
                spelled.setdefault(expression.source, f"{_factor(index)} - {expression.left}")


def _factor(index: str) -> str:
    return index if index.isalnum() else f"({index})"
