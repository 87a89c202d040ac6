"""The global allocation domain seen through the expressions no role explains: the raw TMA domain.

Each IterDomain in memory has an extent, a stride and a flag: contiguous, where its stride is the
extent times the stride of its inner neighbour. A view keeps memory in place:

    split (e, s, c) by d, d divides e     -> (e / d, s * d, contiguous), (d, s, c)
    merge (e0, s0, contiguous), (e1, s1, c) -> (e0 * e1, s1, c)
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.tma.derive import Domains
from teir.tma.domain import (
    Expression,
    IterDomain,
    MergeExpression,
    ResizeExpression,
    SplitExpression,
    SwizzleExpression,
    inputs_of,
    outputs_of,
)
from teir.tma.nodes import Transfer
from teir.tma.path import Step
from teir.tma.refusal import Refusal, Stage, refusal
from teir.tma.rules import MIXED, VIEW_CONTIGUOUS, VIEW_DIVIDES, VIEW_ONLY, VIEW_PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """An IterDomain in global memory."""

    domain: IterDomain
    stride_elements: int
    contiguous: bool


Frontier = tuple[Placed, ...]


def allocation_frontier(transfer: Transfer, domains: Domains) -> Frontier | Refusal:
    """The allocation domain in memory, outermost first; what a broadcast made is left out.

    A contiguity flag counts only where the strides bear it out. A derived allocation domain takes
    its flags from the strides. An extent of 1 that a merge took in has no place in memory.
    """
    frontier = tuple(
        Placed(domain=one, stride_elements=stride, contiguous=False)
        for one, stride in zip(domains.logical, transfer.strides_elements, strict=True)
    )
    for expression in domains.allocation_expressions:
        found = _derive(frontier, expression)
        if isinstance(found, Refusal):
            return found
        frontier = found
    by_domain = {one.domain: one for one in frontier}
    skipped = {domains.logical[axis] for axis in transfer.broadcast}
    ordered = [by_domain[one] for one in domains.allocation if one in by_domain]
    used = {*domains.loop, *(x for one in domains.loop_expressions for x in inputs_of(one))}
    kept = tuple(
        one
        for one in ordered
        if one.domain not in skipped and (one.domain.extent > 1 or one.domain in used)
    )
    if transfer.allocation is not None:
        promised = {one.domain: True for one in kept}
    else:
        promised = dict(zip(domains.logical, transfer.contiguous, strict=True))
    return tuple(
        Placed(
            domain=one.domain,
            stride_elements=one.stride_elements,
            contiguous=promised[one.domain] and _adjoins(kept, at),
        )
        for at, one in enumerate(kept)
    )


def _adjoins(frontier: Frontier, at: int) -> bool:
    """True where stride ``at`` continues what lies inside it; an extent of 1 has no stride."""
    inner = [one for one in frontier[at + 1 :] if one.domain.extent > 1]
    expected = inner[0].domain.extent * inner[0].stride_elements if inner else 1
    return frontier[at].domain.extent == 1 or frontier[at].stride_elements == expected


def _derive(frontier: Frontier, expression: Expression) -> Frontier | Refusal:
    """One verb of the allocation domain; merges ask the strides, not the order."""
    by_domain = {one.domain: one for one in frontier}
    match expression:
        case SplitExpression():
            if not expression.divides:
                return _indivisible(expression)
            return _split(frontier, expression.source, expression.outer, expression.inner)
        case MergeExpression():
            outer, inner = by_domain[expression.outer], by_domain[expression.inner]
            if outer.stride_elements != inner.domain.extent * inner.stride_elements:
                return _discontiguous(inputs_of(expression))
            merged = Placed(
                domain=expression.result, stride_elements=inner.stride_elements, contiguous=False
            )
            return tuple(merged if one is inner else one for one in frontier if one is not outer)
        case SwizzleExpression() | ResizeExpression():
            return no_view(expression)


def raw_domain(frontier: Frontier, view: tuple[Step, ...], domains: Domains) -> Frontier | Refusal:
    """The raw TMA domain: ``frontier`` after the steps ``view``, taken from memory's end.

    A swizzle no role explains joins what is Bulk and what is not. So does a merge of what splits
    made, unless it happens to be a view. What can be no view with any extents is told first.
    """
    given = {*domains.logical, *domains.allocation}
    for step in reversed(view):
        if isinstance(step.expression, SwizzleExpression):
            return _mixed(step, _NO_VIEW)
        if not isinstance(step.expression, SplitExpression | MergeExpression):
            return no_view(step.expression)
    for step in reversed(view):
        move = _one_to_two if len(step.to) == 1 else _two_to_one
        found = move(frontier, step)
        if isinstance(found, Refusal):
            made = isinstance(step.expression, MergeExpression) and not given >= set(step.to)
            return _mixed(step, found.reason) if made else found
        frontier = found
    return frontier


def _one_to_two(frontier: Frontier, step: Step) -> Frontier | Refusal:
    source = step.to[0]
    if all(one.domain != source for one in frontier):
        return _off_path((source,))
    if isinstance(step.expression, SplitExpression) and not step.expression.divides:
        return _indivisible(step.expression)
    return _split(frontier, source, *step.from_)


def _split(
    frontier: Frontier, source: IterDomain, outer: IterDomain, inner: IterDomain
) -> Frontier:
    placed: list[Placed] = []
    for one in frontier:
        if one.domain != source:
            placed.append(one)
            continue
        stride = one.stride_elements * inner.extent
        placed.append(Placed(domain=outer, stride_elements=stride, contiguous=True))
        placed.append(
            Placed(domain=inner, stride_elements=one.stride_elements, contiguous=one.contiguous)
        )
    return tuple(placed)


def _two_to_one(frontier: Frontier, step: Step) -> Frontier | Refusal:
    outer, inner = step.to
    at = next((at for at, one in enumerate(frontier) if one.domain == outer), None)
    if at is None or all(one.domain != inner for one in frontier):
        return _off_path((outer, inner))
    neighbours = at + 1 < len(frontier) and frontier[at + 1].domain == inner
    if not neighbours or not frontier[at].contiguous:
        return _discontiguous((outer, inner))
    below = frontier[at + 1]
    merged = Placed(
        domain=step.from_[0],
        stride_elements=below.stride_elements,
        contiguous=below.contiguous,
    )
    return (*frontier[:at], merged, *frontier[at + 2 :])


def _indivisible(expression: SplitExpression) -> Refusal:
    extent = expression.source.extent
    return refusal(
        Stage.INFER,
        VIEW_DIVIDES,
        (expression.source,),
        f"a multiple of {expression.factor}",
        f"Invalid view in TMA: extent {extent} must be divisible by {expression.factor}",
    )


def _discontiguous(pair: tuple[IterDomain, ...]) -> Refusal:
    return refusal(
        Stage.INFER,
        VIEW_CONTIGUOUS,
        pair,
        "contiguous neighbours in memory",
        "Can not merge discontiguous dimensions",
    )


def _off_path(lost: tuple[IterDomain, ...]) -> Refusal:
    return refusal(
        Stage.INFER,
        VIEW_PATH,
        lost,
        "IterDomains of the allocation domain or views of them",
        "The TMA domain must be equivalent to the allocation domain of the gmem tensor",
    )


_NO_VIEW = "TMA domain must be a view of the allocation domain of the gmem tensor"


def _mixed(step: Step, reason: str) -> Refusal:
    expected = "tile and non-tile IterDomains apart, or a view of memory"
    return refusal(Stage.INFER, MIXED, (*step.to, *step.from_), expected, reason)


def no_view(expression: Expression) -> Refusal:
    """The refusal of an expression that keeps no memory in place."""
    return refusal(
        Stage.INFER,
        VIEW_ONLY,
        (*inputs_of(expression), *outputs_of(expression)),
        "splits and merges only",
        _NO_VIEW,
    )
