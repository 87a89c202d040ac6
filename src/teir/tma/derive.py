"""Domains from verbs: each verb replaces IterDomains of a domain by others.

The same transformation of the same IterDomains gives the same IterDomains, in whichever domain it
is written, so that the loop domain and an allocation domain know where they agree.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from teir.errors import Finding, Part, ProgramPlace, Rule, TeirError
from teir.tma.domain import (
    Expression,
    IterDomain,
    MergeExpression,
    ResizeExpression,
    SplitExpression,
    SwizzleExpression,
)
from teir.tma.nodes import Flatten, Merge, Reorder, Resize, Split, Swizzle, Transfer, Verb
from teir.tma.rules import AXIS_POSITION, FACTOR, XOR_EXTENTS
from teir.tma.text import verb_text

Domain = tuple[IterDomain, ...]
LARGEST_DOMAIN = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Domains:
    """The domains of a transfer and the expressions that lead to each from the logical domain.

    Expressions stand in the order in which they were applied. ``shared`` is None where the
    transfer gives no shared layout. ``same`` leads from an IterDomain to the one it is identical
    to: trivial splits, merges and resizes are the identity for all but out-of-range indices.
    """

    logical: Domain
    loop: Domain
    allocation: Domain
    shared: Domain | None
    loop_expressions: tuple[Expression, ...]
    allocation_expressions: tuple[Expression, ...]
    shared_expressions: tuple[Expression, ...]
    same: Mapping[IterDomain, IterDomain]

    def original(self, domain: IterDomain) -> IterDomain:
        """The IterDomain nearest to the logical domain that ``domain`` is identical to."""
        return self.same.get(domain, domain)


@dataclass(slots=True)
class _Forest:
    """The transformations met so far, by what they were applied to."""

    made: dict[Hashable, Expression] = field(default_factory=dict)
    same: dict[IterDomain, IterDomain] = field(default_factory=dict)
    count: int = 0

    def fresh(self, extent: int) -> IterDomain:
        self.count += 1
        return IterDomain(number=self.count, extent=extent)

    def identify(self, new: IterDomain, old: IterDomain) -> None:
        self.same[new] = self.same.get(old, old)


def derive_domains(transfer: Transfer) -> Domains:
    """All domains of ``transfer``; every position it names is one of theirs.

    Raises TeirError (TEIR901, TEIR902, TEIR903).
    """
    forest = _Forest()
    logical = tuple(forest.fresh(extent) for extent in transfer.shape)
    loop, loop_expressions = _apply_all(forest, logical, transfer.schedule)
    positions(loop, tuple(axis for axis, _ in transfer.parallel), "parallel")
    allocation, allocation_expressions = _apply_all(forest, logical, transfer.allocation or ())
    shared: Domain | None = None
    shared_expressions: tuple[Expression, ...] = ()
    if transfer.shared is not None:
        if transfer.shared.verbs is None:
            shared, shared_expressions = loop, loop_expressions
        else:
            shared, shared_expressions = _apply_all(forest, logical, transfer.shared.verbs)
        positions(shared, transfer.shared.unallocated, "unallocated")
    return Domains(
        logical=logical,
        loop=loop,
        allocation=allocation,
        shared=shared,
        loop_expressions=loop_expressions,
        allocation_expressions=allocation_expressions,
        shared_expressions=shared_expressions,
        same=dict(forest.same),
    )


def apply_verbs(
    extents: tuple[int, ...], verbs: tuple[Verb, ...]
) -> tuple[Domain, Domain, tuple[Expression, ...]]:
    """The domain of ``extents``, the one ``verbs`` make of it, and the expressions between.

    Raises TeirError (TEIR901, TEIR902, TEIR903).
    """
    forest = _Forest()
    logical = tuple(forest.fresh(extent) for extent in extents)
    derived, expressions = _apply_all(forest, logical, verbs)
    return logical, derived, expressions


def _apply_all(
    forest: _Forest, domain: Domain, verbs: tuple[Verb, ...]
) -> tuple[Domain, tuple[Expression, ...]]:
    expressions: list[Expression] = []
    for verb in verbs:
        domain = _apply(forest, domain, verb, expressions)
        if math.prod(one.extent for one in domain) >= LARGEST_DOMAIN:
            _refuse(FACTOR, domain, "a domain of fewer than 2^62 positions", "more")
    return domain, tuple(expressions)


def _apply(forest: _Forest, domain: Domain, verb: Verb, expressions: list[Expression]) -> Domain:
    match verb:
        case Split():
            (axis,) = positions(domain, (verb.axis,), verb)
            pair = _split(forest, domain[axis], verb, expressions)
            return (*domain[:axis], *pair, *domain[axis + 1 :])
        case Merge():
            outer, inner = positions(domain, (verb.outer, verb.inner), verb)
            result = _merge(forest, domain[outer], domain[inner], expressions)
            first, second = sorted((outer, inner))
            return (*domain[:first], result, *domain[first + 1 : second], *domain[second + 1 :])
        case Reorder():
            return _reorder(domain, verb)
        case Flatten():
            first, last = positions(domain, (verb.first, verb.last), verb, distinct=False)
            result = domain[first]
            for inner_domain in domain[first + 1 : last + 1]:
                result = _merge(forest, result, inner_domain, expressions)
            return (*domain[:first], result, *domain[max(first, last) + 1 :])
        case Swizzle():
            x, y = positions(domain, (verb.x, verb.y), verb)
            pair = _swizzle(forest, domain[x], domain[y], expressions)
            replaced = {x: pair[0], y: pair[1]}
            return tuple(replaced.get(at, one) for at, one in enumerate(domain))
        case Resize():
            (axis,) = positions(domain, (verb.axis,), verb)
            result = _resize(forest, domain[axis], verb, expressions)
            return (*domain[:axis], result, *domain[axis + 1 :])
        case _:
            assert_never(verb)


def positions(
    domain: Domain, wanted: tuple[int, ...], where: Verb | str, distinct: bool = True
) -> tuple[int, ...]:
    """The positions ``wanted`` of ``domain``, counted from 0. Raises TeirError (TEIR901)."""
    rank = len(domain)
    found = tuple(axis + rank if axis < 0 else axis for axis in wanted)
    if any(not 0 <= axis < rank for axis in found) or (distinct and len(set(found)) < len(found)):
        listed = ", ".join(map(str, wanted))
        named = f"{listed} in {where}" if isinstance(where, str) else verb_text(where)
        _refuse(AXIS_POSITION, domain, f"positions below {rank}, each once", named)
    return found


def _split(
    forest: _Forest, source: IterDomain, verb: Split, expressions: list[Expression]
) -> Domain:
    if verb.factor < 1:
        _refuse(FACTOR, (source,), "a factor of 1 or more", str(verb.factor))
    rest = -(-source.extent // verb.factor)
    outer_extent, inner_extent = (verb.factor, rest) if verb.outer else (rest, verb.factor)
    key = ("split", source, outer_extent, inner_extent)
    if key not in forest.made:
        forest.made[key] = SplitExpression(
            source=source,
            outer=forest.fresh(outer_extent),
            inner=forest.fresh(inner_extent),
            factor=verb.factor,
        )
    expression = forest.made[key]
    assert isinstance(expression, SplitExpression)
    if expression.divides and inner_extent == source.extent:
        forest.identify(expression.inner, source)
    elif expression.divides and outer_extent == source.extent:
        forest.identify(expression.outer, source)
    expressions.append(expression)
    return (expression.outer, expression.inner)


def _merge(
    forest: _Forest, outer: IterDomain, inner: IterDomain, expressions: list[Expression]
) -> IterDomain:
    key = ("merge", outer, inner)
    if key not in forest.made:
        result = forest.fresh(outer.extent * inner.extent)
        forest.made[key] = MergeExpression(outer=outer, inner=inner, result=result)
    expression = forest.made[key]
    assert isinstance(expression, MergeExpression)
    if outer.extent == 1:
        forest.identify(expression.result, inner)
    elif inner.extent == 1:
        forest.identify(expression.result, outer)
    expressions.append(expression)
    return expression.result


def _reorder(domain: Domain, verb: Reorder) -> Domain:
    old = positions(domain, tuple(move[0] for move in verb.moves), verb)
    new = positions(domain, tuple(move[1] for move in verb.moves), verb)
    placed = {place: domain[axis] for axis, place in zip(old, new, strict=True)}
    rest = iter([one for at, one in enumerate(domain) if at not in old])
    return tuple(placed[at] if at in placed else next(rest) for at in range(len(domain)))


def _swizzle(
    forest: _Forest, x: IterDomain, y: IterDomain, expressions: list[Expression]
) -> Domain:
    if x.extent != y.extent or x.extent & (x.extent - 1):
        expected = "two equal extents, a power of two"
        _refuse(XOR_EXTENTS, (x, y), expected, f"{x.extent} and {y.extent}")
    if x.extent == 1:
        return (x, y)
    key = ("swizzle", x, y)
    if key not in forest.made:
        forest.made[key] = SwizzleExpression(
            x=x, y=y, result_x=forest.fresh(x.extent), result_y=forest.fresh(y.extent)
        )
    expression = forest.made[key]
    assert isinstance(expression, SwizzleExpression)
    expressions.append(expression)
    return (expression.result_x, expression.result_y)


def _resize(
    forest: _Forest, source: IterDomain, verb: Resize, expressions: list[Expression]
) -> IterDomain:
    extent = source.extent + verb.left + verb.right
    if extent < 1:
        _refuse(FACTOR, (source,), "an extent of 1 or more", str(extent))
    if verb.left == verb.right == 0:
        return source
    key = ("resize", source, verb.left, verb.right)
    if key not in forest.made:
        forest.made[key] = ResizeExpression(
            source=source, result=forest.fresh(extent), left=verb.left, right=verb.right
        )
    expression = forest.made[key]
    assert isinstance(expression, ResizeExpression)
    expressions.append(expression)
    return expression.result


def _refuse(rule: Rule, domain: Domain, expected: str, found: str) -> None:
    place = ProgramPlace(part=Part.ITER_DOMAIN, name=", ".join(str(one) for one in domain))
    raise TeirError((Finding(rule=rule, place=place, expected=expected, found=found),))
