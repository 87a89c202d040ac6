"""The expressions between the loops and the TMA domain, trivial ones included.

Those inside a tile are left out: the instruction ignores how tiles are transformed further. Those
above the TMA domain are a view of memory and make no holes; what is made of an extent of 1 beside
the way from memory to the loops is kept, for it may overrun.
"""

from __future__ import annotations

from teir.tma.domain import Expression, IterDomain, inputs_of, outputs_of
from teir.tma.identify import is_trivial, original
from teir.tma.inference import Inferred, bulk_positions


def below_expressions(inferred: Inferred) -> tuple[Expression, ...]:
    """Expressions of the loop domain, then of a derived allocation domain, memory's end first."""
    domains = inferred.domains
    explained = inferred.roles.explained
    below = {one.domain for one in inferred.raw}
    below |= {one for step in explained for one in (*step.from_, *step.to)}
    reached = {one for one in below if one in domains.logical}
    inside = _inside_tiles(inferred)
    above = {step.expression for step in inferred.roles.view}
    above |= {original(domains, one) for one in domains.allocation_expressions}
    found: list[Expression] = []
    for expression in domains.loop_expressions:
        inputs, outputs = inputs_of(expression), outputs_of(expression)
        beside = not is_trivial(expression) and original(domains, expression) not in above
        if not beside and not any(one in reached for one in inputs):
            reached |= {one for one in outputs if domains.original(one) in below}
            continue
        reached |= set(outputs)
        if not all(one in inside for one in inputs):
            found.append(expression)
    kept = {step.expression for step in explained}
    found += [
        one
        for one in domains.allocation_expressions
        if is_trivial(one) or original(domains, one) in kept
    ]
    return tuple(dict.fromkeys(found))


def beside_tiles(inferred: Inferred) -> frozenset[IterDomain]:
    """Bulk IterDomains that are no part of a tile: what trivial expressions split off.

    The instruction moves position 0 of them.
    """
    domains = inferred.domains
    positions = bulk_positions(inferred.transfer, len(domains.loop))
    found = {domains.loop[at] for at in positions}
    inside = _inside_tiles(inferred)
    for expression in reversed(domains.loop_expressions):
        inputs, outputs = inputs_of(expression), outputs_of(expression)
        if is_trivial(expression) and any(one in inside for one in inputs):
            kept = {domains.original(one) for one in inputs}
            outputs = tuple(one for one in outputs if domains.original(one) in kept)
        if all(one in found for one in outputs):
            found |= set(inputs)
    return frozenset(found - inside)


def _inside_tiles(inferred: Inferred) -> set[IterDomain]:
    """The IterDomains that tiles are made of, and what they become."""
    domains = inferred.domains
    tiles = {one for dimension in inferred.dimensions for one in dimension.tiles}
    every = (*domains.logical, *(x for e in domains.loop_expressions for x in outputs_of(e)))
    found = {one for one in every if domains.original(one) in tiles}
    for expression in domains.loop_expressions:
        if not is_trivial(expression) and any(one in found for one in inputs_of(expression)):
            found |= {*outputs_of(expression)}
            found |= {one for one in every if domains.original(one) in found}
    return found
