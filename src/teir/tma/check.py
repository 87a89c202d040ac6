"""Everything that is checked of a transfer, stage by stage.

Rules and order: the verbs (raised, a schedule that is none), the consumer's loops, inference, the
descriptor, shared memory, strong correctness where it is asked for. Within a stage all findings are
collected; a stage that finds something ends the check, for the next one presumes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from teir.errors import Finding
from teir.tma.bulk_copy import BulkCopy, infer_bulk_copy
from teir.tma.correctness import require_strong
from teir.tma.derive import derive_domains
from teir.tma.inference import Inferred, infer
from teir.tma.nodes import Instruction, Transfer
from teir.tma.refusal import Refusal, Stage
from teir.tma.shared_memory import check_shared, check_tile_capacity
from teir.tma.steps import check_steps
from teir.tma.tensor_map import check_tensor_map


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a transfer means and what is wrong with it.

    ``inferred`` is None where inference fails or the instruction needs no tensor map; ``bulk_copy``
    is set for a legal copy without one.
    """

    transfer: Transfer
    inferred: Inferred | None
    bulk_copy: BulkCopy | None
    refusals: tuple[Refusal, ...]

    @property
    def ok(self) -> bool:
        return not self.refusals


def check(transfer: Transfer, strides_must_ascend: bool = False) -> Report:
    """Check ``transfer``. Raises TeirError (TEIR901 to TEIR903) where a verb cannot be applied.

    ``strides_must_ascend`` is a fact of the driver: whether it takes strides in any order.
    """
    domains = derive_domains(transfer)
    steps = check_steps(transfer, domains)
    if steps or transfer.instruction is Instruction.PLAIN:
        return Report(transfer=transfer, inferred=None, bulk_copy=None, refusals=steps)
    if transfer.instruction is Instruction.BULK:
        return _check_bulk_copy(transfer)
    inferred = infer(transfer)
    if isinstance(inferred, Refusal):
        return Report(transfer=transfer, inferred=None, bulk_copy=None, refusals=(inferred,))
    concerned = tuple(dimension.raw for dimension in inferred.dimensions)
    refusals = check_tensor_map(inferred.tensor_map, concerned, strides_must_ascend)
    if not refusals and transfer.shared is not None:
        refusals = check_tile_capacity(inferred) or check_shared(inferred)
    if not refusals and transfer.strong:
        refusals = _check_strong(inferred)
    return Report(transfer=transfer, inferred=inferred, bulk_copy=None, refusals=refusals)


def _check_strong(inferred: Inferred) -> tuple[Refusal, ...]:
    found = require_strong(inferred)
    if not isinstance(found, Finding):
        return ()
    return (Refusal(stage=Stage.DESCRIPTOR, reason=found.found, finding=found),)


def _check_bulk_copy(transfer: Transfer) -> Report:
    found = infer_bulk_copy(transfer)
    if isinstance(found, BulkCopy):
        return Report(transfer=transfer, inferred=None, bulk_copy=found, refusals=())
    return Report(transfer=transfer, inferred=None, bulk_copy=None, refusals=found)
