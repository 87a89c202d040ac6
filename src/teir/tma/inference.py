"""From a transfer to its tensor map: path, roles, view, compositing, in this order."""

from __future__ import annotations

from dataclasses import dataclass

from teir.tma.derive import Domains, derive_domains
from teir.tma.dimensions import Dimension, dimensions_of
from teir.tma.domain import IterDomain
from teir.tma.identify import identified
from teir.tma.nodes import Parallel, Transfer
from teir.tma.path import loops_of, moved_off_path, path_to_allocation
from teir.tma.refusal import Refusal, Stage, refusal
from teir.tma.roles import Roles, infer_roles
from teir.tma.rules import INNERMOST_CONTIGUOUS, INNERMOST_DENSE, VIEW_PATH
from teir.tma.tensor_map import TensorMap, tensor_map_of
from teir.tma.view import Frontier, allocation_frontier, no_view, raw_domain


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """What a schedule means to the tile instruction.

    ``raw`` is the TMA domain before compositing, outermost first; ``dimensions`` are innermost
    first. Both name originals: IterDomains up to trivial expressions.
    """

    transfer: Transfer
    domains: Domains
    roles: Roles
    raw: Frontier
    dimensions: tuple[Dimension, ...]
    tensor_map: TensorMap

    @property
    def not_tile(self) -> tuple[IterDomain, ...]:
        """The loop IterDomains that are not Bulk, in loop order."""
        bulk = bulk_positions(self.transfer, len(self.domains.loop))
        return tuple(one for at, one in enumerate(self.domains.loop) if at not in bulk)


def infer(transfer: Transfer) -> Inferred | Refusal:
    """Infer the TMA domain, roles and tensor map of ``transfer``.

    Raises TeirError (TEIR901 to TEIR903) where a verb cannot be applied.
    """
    domains = derive_domains(transfer)
    plain = identified(domains)
    bulk = bulk_positions(transfer, len(plain.loop))
    path = path_to_allocation(plain)
    tile = frozenset(one for at, one in enumerate(plain.loop) if at in bulk)
    for moved in moved_off_path(path, plain):
        if tile & loops_of(moved, plain):
            return no_view(moved.expression)
    roles = infer_roles(path, tile, frozenset(plain.loop) - tile)
    frontier = allocation_frontier(transfer, plain)
    if isinstance(frontier, Refusal):
        return frontier
    raw = raw_domain(frontier, roles.view, plain)
    if isinstance(raw, Refusal):
        return raw
    wrong = _innermost(raw, roles)
    if wrong is not None:
        return wrong
    width = transfer.element_type.width
    dimensions = dimensions_of(raw, roles, transfer.swizzle_bytes // width)
    if isinstance(dimensions, Refusal):
        return dimensions
    return Inferred(
        transfer=transfer,
        domains=domains,
        roles=roles,
        raw=raw,
        dimensions=dimensions,
        tensor_map=tensor_map_of(
            dimensions,
            transfer.element_type,
            transfer.base_address_mod_128,
            transfer.swizzle_bytes,
        ),
    )


def bulk_positions(transfer: Transfer, rank: int) -> frozenset[int]:
    """Positions of the loop domain that run as Bulk, counted from 0."""
    return frozenset(axis % rank for axis, kind in transfer.parallel if kind is Parallel.BULK)


def _innermost(raw: Frontier, roles: Roles) -> Refusal | None:
    if not raw:
        reason = "The TMA domain has no IterDomain"
        return refusal(Stage.INFER, VIEW_PATH, (), "at least one IterDomain in memory", reason)
    inner = raw[-1]
    if not inner.contiguous:
        return refusal(
            Stage.INFER,
            INNERMOST_CONTIGUOUS,
            (inner.domain,),
            "stride 1",
            "The innermost dimension of the TMA domain must be contiguous",
        )
    strided = any(one.partitioned == inner.domain and one.stride is not None for one in roles.boxed)
    if strided:
        return refusal(
            Stage.INFER,
            INNERMOST_DENSE,
            (inner.domain,),
            "element stride 1",
            "first element of elementStrides must be one",
        )
    return None
