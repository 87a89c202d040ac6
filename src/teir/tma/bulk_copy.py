"""The bulk copy without a tensor map: one contiguous run of bytes, no bounds, its own rules.

There is no limit of 256 elements; the size and both addresses are multiples of 16 bytes, exactly
one loop IterDomain is Bulk, every split divides (nothing checks bounds), and the copy stands in a
warp-specialised circular buffer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from teir.tma.derive import Domains, derive_domains
from teir.tma.domain import IterDomain, SplitExpression
from teir.tma.identify import identified
from teir.tma.inference import bulk_positions
from teir.tma.nodes import Transfer
from teir.tma.path import path_to_allocation
from teir.tma.refusal import Refusal, Stage, refusal
from teir.tma.roles import Roles, infer_roles
from teir.tma.rules import (
    BULK_ADDRESS,
    BULK_BYTES,
    BULK_CONTIGUOUS,
    BULK_DIVIDES,
    BULK_ONE,
    BULK_PIPELINE,
)
from teir.tma.view import Frontier, allocation_frontier, raw_domain

UNIT_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkCopy:
    """A run of ``elements`` starting at every multiple of ``elements`` of the allocation domain."""

    domain: IterDomain
    elements: int
    size_bytes: int
    copies: int


def infer_bulk_copy(transfer: Transfer) -> BulkCopy | tuple[Refusal, ...]:
    """The copy ``transfer`` means, or every rule it breaks.

    Raises TeirError (TEIR901 to TEIR903) where a verb cannot be applied.
    """
    domains = derive_domains(transfer)
    wrong = tuple(_findings(transfer, domains))
    if wrong:
        return wrong
    bulk = _bulk(transfer, domains)[0]
    return BulkCopy(
        domain=bulk,
        elements=bulk.extent,
        size_bytes=bulk.extent * transfer.element_type.width,
        copies=math.prod(one.extent for one in domains.loop) // bulk.extent,
    )


def _findings(transfer: Transfer, domains: Domains) -> Iterator[Refusal]:
    bulk = _bulk(transfer, domains)
    if len(bulk) != 1:
        reason = f"{len(bulk)} Bulk IterDomains, not one"
        yield refusal(Stage.INFER, BULK_ONE, bulk or domains.loop, "exactly one", reason)
    for expression in domains.loop_expressions:
        if isinstance(expression, SplitExpression) and not expression.divides:
            extent, factor = expression.source.extent, expression.factor
            reason = f"extent {extent} must be divisible by {factor}: no bounds are checked"
            expected = f"a multiple of {factor}"
            yield refusal(Stage.INFER, BULK_DIVIDES, (expression.source,), expected, reason)
    if len(bulk) == 1:
        yield from _run(transfer, domains, bulk[0])
    if transfer.base_address_mod_128 % UNIT_BYTES:
        reason = f"global address not {UNIT_BYTES}-byte aligned"
        yield refusal(Stage.DESCRIPTOR, BULK_ADDRESS, (), f"a multiple of {UNIT_BYTES}", reason)
    pipeline = transfer.circular_buffer
    if pipeline is None or not pipeline.warp_specialised:
        reason = "no warp-specialised circular buffer"
        yield refusal(
            Stage.INFER, BULK_PIPELINE, domains.loop, "a warp-specialised circular buffer", reason
        )


def _run(transfer: Transfer, domains: Domains, bulk: IterDomain) -> Iterator[Refusal]:
    """What moves is one contiguous run of a multiple of 16 bytes."""
    width = transfer.element_type.width
    size = bulk.extent * width
    if size % UNIT_BYTES:
        reason = f"copy of {size} B not a multiple of {UNIT_BYTES}"
        yield refusal(Stage.DESCRIPTOR, BULK_BYTES, (bulk,), f"a multiple of {UNIT_BYTES}", reason)
    if not _is_one_run(transfer, domains, bulk):
        reason = f"{bulk} is not one contiguous run of memory"
        yield refusal(Stage.INFER, BULK_CONTIGUOUS, (bulk,), "contiguous elements", reason)


def _is_one_run(transfer: Transfer, domains: Domains, bulk: IterDomain) -> bool:
    plain = identified(domains)
    box = plain.original(bulk)
    others = frozenset(one for one in plain.loop if one != box)
    roles = infer_roles(path_to_allocation(plain), frozenset((box,)), others)
    frontier = allocation_frontier(transfer, plain)
    raw = frontier if isinstance(frontier, Refusal) else raw_domain(frontier, roles.view, plain)
    if isinstance(raw, Refusal):
        return False
    return _covers_innermost(raw, bulk.extent, roles)


def _covers_innermost(raw: Frontier, elements: int, roles: Roles) -> bool:
    """True where what is Bulk is the innermost ``elements`` of ``raw``, gaplessly."""
    inner = raw[-1]
    boxed = next((one for one in roles.boxed if one.partitioned == inner.domain), None)
    if boxed is not None:
        dense = boxed.stride is None and boxed.box_extent == elements
        return dense and inner.contiguous
    covered = 1
    for one in reversed(raw):
        if one.domain not in roles.bulk or not one.contiguous:
            break
        covered *= one.domain.extent
    return covered == elements


def _bulk(transfer: Transfer, domains: Domains) -> tuple[IterDomain, ...]:
    return tuple(domains.loop[at] for at in sorted(bulk_positions(transfer, len(domains.loop))))
