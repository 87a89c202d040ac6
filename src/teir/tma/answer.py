"""What a case expects, computed: the ``expect`` record of a case file.

The first finding decides ``rejected_at`` and ``reason``. Fields that need an earlier stage to hold
are left out where it does not.
"""

from __future__ import annotations

from typing import Any

from teir.errors import Finding, TeirError
from teir.tma.check import Report, check
from teir.tma.correctness import classify, straddles
from teir.tma.dimensions import tile_elements
from teir.tma.inference import Inferred
from teir.tma.nodes import Transfer
from teir.tma.refusal import Stage
from teir.tma.walk import count_elements, sampled_tiles, tile_count, walk

SAMPLED_TILES = 64
EXHAUSTIVE_ELEMENTS = 2**23
"""Up to so many elements in all tiles together strong correctness is told by a whole walk."""

Record = dict[str, Any]


def expectation(transfer: Transfer) -> Record:
    """The ``expect`` record of one case."""
    try:
        report = check(transfer)
    except TeirError as error:
        return refused_schedule(error.findings[0])
    return expectation_of(report)


def refused_schedule(finding: Finding) -> Record:
    """The record of a case that is no schedule: a verb or a field is wrong."""
    reason = f"{finding.place}: expected {finding.expected}, found {finding.found}"
    return {"valid": False, "rejected_at": Stage.INFER.value, "reason": reason}


def expectation_of(report: Report) -> Record:
    """The ``expect`` record of a checked transfer."""
    record: Record = {"valid": report.ok}
    if report.refusals:
        record["rejected_at"] = report.refusals[0].stage.value
        record["reason"] = report.refusals[0].reason
    if report.bulk_copy is not None:
        record["copy_bytes"] = report.bulk_copy.size_bytes
        record["copies"] = report.bulk_copy.copies
    inferred = report.inferred
    if inferred is None:
        return record
    record |= _map_record(inferred)
    if all(refusal.stage is Stage.SHARED for refusal in report.refusals):
        record |= _walk_record(inferred)
    return record


def _map_record(inferred: Inferred) -> Record:
    tensor_map = inferred.tensor_map
    return {
        "tensor_map": {
            "rank": tensor_map.rank,
            "globalDim": list(tensor_map.sizes),
            "globalStrides": list(tensor_map.strides_bytes),
            "boxDim": list(tensor_map.box),
            "elementStrides": list(tensor_map.element_strides),
            "swizzle": tensor_map.swizzle_bytes,
            "interleave": tensor_map.interleave_bytes,
        },
        "tile_bytes": tensor_map.tile_bytes,
        "raw_tma_domain": [one.domain.extent for one in inferred.raw],
    }


def _walk_record(inferred: Inferred) -> Record:
    total = tile_count(inferred)
    counts = count_elements(walk(inferred, sampled_tiles(total, SAMPLED_TILES)))
    record: Record = {
        "simulated": {
            "tiles": counts.tiles,
            "valid": counts.valid,
            "hole_zero": counts.hole_zero,
            "hole_data": counts.hole_data,
        }
    }
    small = total * tile_elements(inferred.dimensions) <= EXHAUSTIVE_ELEMENTS
    if small or any(straddles(dimension) for dimension in inferred.dimensions):
        record["strong_correctness"] = classify(inferred).value
    return record
