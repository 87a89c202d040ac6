"""Scheduling the consumer: how tile and non-tile IterDomains run (tile loads, section 1.8).

Tile IterDomains are Bulk, a loop the hardware runs. The others say which block gets which tile
(BIDx, BIDy, BIDz), which thread issues it (TIDx, TIDy, TIDz), and what one thread loops over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from teir.tma.derive import Domains
from teir.tma.domain import IterDomain, inputs_of, outputs_of
from teir.tma.inference import Inferred
from teir.tma.nodes import Instruction, Parallel, Transfer
from teir.tma.refusal import Refusal, Stage, refusal
from teir.tma.rules import (
    BULK_OFF_TMA,
    BULK_ON_BROADCAST,
    CIRCULAR_THREADS,
    ELECTION,
    ONE_AXIS_EACH,
    VECTORIZE_ON_TMA,
)

ELECTING_THREADS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """Who issues which tile: loop IterDomains in loop order."""

    blocks: tuple[tuple[Parallel, IterDomain], ...]
    threads: tuple[tuple[Parallel, IterDomain], ...]
    serial: tuple[IterDomain, ...]

    @property
    def elects(self) -> bool:
        """True where one thread of the block issues every tile."""
        return not self.threads


def mapping_of(inferred: Inferred) -> Mapping:
    """How the non-tile loops run."""
    return _mapping(inferred.transfer, inferred.domains)


def check_steps(transfer: Transfer, domains: Domains) -> tuple[Refusal, ...]:
    """Every rule of the consumer's loops that ``transfer`` breaks, in loop order."""
    return (
        *_bulk_places(transfer, domains),
        *_illegal_on_tma(transfer, domains),
        *_shared_indices(transfer, domains),
        *_issuers(transfer, domains),
    )


def _mapping(transfer: Transfer, domains: Domains) -> Mapping:
    rank = len(domains.loop)
    kinds = {axis % rank: kind for axis, kind in transfer.parallel}
    loops = [(kinds.get(at, Parallel.SERIAL), one) for at, one in enumerate(domains.loop)]
    return Mapping(
        blocks=tuple((kind, one) for kind, one in loops if kind.is_block),
        threads=tuple((kind, one) for kind, one in loops if kind.is_thread),
        serial=tuple(one for kind, one in loops if kind in (Parallel.SERIAL, Parallel.UNROLL)),
    )


def _run_as(
    transfer: Transfer, domains: Domains, kinds: tuple[Parallel, ...]
) -> tuple[IterDomain, ...]:
    return tuple(domains.loop[axis] for axis, kind in transfer.parallel if kind in kinds)


def _bulk_places(transfer: Transfer, domains: Domains) -> Iterator[Refusal]:
    bulk = _run_as(transfer, domains, (Parallel.BULK,))
    if bulk and transfer.instruction is Instruction.PLAIN:
        reason = "Bulk is only for operations of the tensor memory accelerator"
        yield refusal(Stage.INFER, BULK_OFF_TMA, bulk, "no Bulk", reason)
    broadcast = _made_of(domains, frozenset(domains.logical[one] for one in transfer.broadcast))
    wrong = tuple(one for one in bulk if one in broadcast)
    if wrong:
        reason = "Bulk on a broadcast IterDomain"
        yield refusal(Stage.INFER, BULK_ON_BROADCAST, wrong, "iterated IterDomains", reason)


def _made_of(domains: Domains, sources: frozenset[IterDomain]) -> frozenset[IterDomain]:
    """The IterDomains made of ``sources`` only, ``sources`` included."""
    found = set(sources)
    for expression in domains.loop_expressions:
        if all(one in found for one in inputs_of(expression)):
            found |= set(outputs_of(expression))
    return frozenset(found)


def _illegal_on_tma(transfer: Transfer, domains: Domains) -> Iterator[Refusal]:
    if transfer.instruction is Instruction.PLAIN:
        return
    wrong = _run_as(transfer, domains, (Parallel.VECTORIZE, Parallel.UNROLL))
    if wrong:
        reason = "Vectorize on a TMA operation"
        yield refusal(Stage.INFER, VECTORIZE_ON_TMA, wrong, "Bulk, a block, a thread", reason)


def _shared_indices(transfer: Transfer, domains: Domains) -> Iterator[Refusal]:
    by_kind: dict[Parallel, list[IterDomain]] = {}
    for axis, kind in transfer.parallel:
        if kind.is_block or kind.is_thread:
            by_kind.setdefault(kind, []).append(domains.loop[axis])
    for kind, sharing in by_kind.items():
        if len(sharing) > 1:
            reason = f"{kind.value} runs {len(sharing)} IterDomains"
            yield refusal(Stage.INFER, ONE_AXIS_EACH, tuple(sharing), "one IterDomain", reason)


def _issuers(transfer: Transfer, domains: Domains) -> Iterator[Refusal]:
    if transfer.instruction is Instruction.PLAIN:
        return
    mapping = _mapping(transfer, domains)
    threads = tuple(one for _, one in mapping.threads if one.extent > 1)
    if transfer.circular_buffer is not None and threads:
        reason = "circular buffering with block parallelisation of the TMA consumer"
        yield refusal(Stage.INFER, CIRCULAR_THREADS, threads, "one issuing thread", reason)
    few = transfer.threads is not None and transfer.threads < ELECTING_THREADS
    if few and mapping.elects:
        reason = f"election among {transfer.threads} threads needs {ELECTING_THREADS}"
        expected = f"blockDim.x of {ELECTING_THREADS} or more"
        yield refusal(Stage.INFER, ELECTION, domains.loop, expected, reason)
