"""The expressions between the loops and the TMA domain, trivial ones included.

Those inside a tile are left out: the instruction ignores how tiles are transformed further. Those
above the TMA domain are a view of memory and make no holes.
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
    bulk = bulk_closure(inferred)
    found: list[Expression] = []
    for expression in domains.loop_expressions:
        inputs, outputs = inputs_of(expression), outputs_of(expression)
        if not any(one in reached for one in inputs):
            reached |= {one for one in outputs if domains.original(one) in below}
            continue
        reached |= set(outputs)
        if not all(one in bulk for one in inputs):
            found.append(expression)
    kept = {step.expression for step in explained}
    found += [
        one
        for one in domains.allocation_expressions
        if is_trivial(one) or original(domains, one) in kept
    ]
    return tuple(dict.fromkeys(found))


def bulk_closure(inferred: Inferred) -> frozenset[IterDomain]:
    """The IterDomains of the loop domain's making that only Bulk loops run."""
    domains = inferred.domains
    positions = bulk_positions(inferred.transfer, len(domains.loop))
    found = {domains.loop[at] for at in positions}
    for expression in reversed(domains.loop_expressions):
        if all(one in found for one in outputs_of(expression)):
            found |= set(inputs_of(expression))
    return frozenset(found)
