"""Are these index arrays what a compressed level is? Every wrong place is named (G11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from teir.arrays.sparse_rules import INDEX_TYPE, INDICES, POINTERS, VALUES
from teir.arrays.sparse_storage import Compressed, Stored, position_count
from teir.errors import Finding, TeirError, at_argument

Array = np.ndarray[Any, np.dtype[Any]]

_BLOCK = 1 << 22


def require_levels(name: str, stored: Stored, extents: Sequence[int], values: Array) -> None:
    """Raises TeirError with the first wrong place of every level and of the values."""
    findings: list[Finding] = []
    fibres = 1
    for place, (extent, level) in enumerate(zip(extents, stored, strict=True)):
        if level is None:
            fibres *= extent
            continue
        findings += level_findings(name, place, level, fibres, extent)
        fibres = level.crd.size
    if not findings and values.shape != (position_count(stored, extents),):
        expected = f"a vector of {position_count(stored, extents)} values"
        findings.append(at_argument(VALUES, f"values of {name}", expected, f"shape {values.shape}"))
    if findings:
        raise TeirError(tuple(findings))


def level_findings(
    name: str, place: int, level: Compressed, fibres: int, extent: int, *, in_order: bool = True
) -> list[Finding]:
    """What is wrong with one compressed level of ``fibres`` fibres, at most one finding per array.

    With ``in_order`` False coordinates may stand in any order and be repeated.
    """
    pos_name, crd_name = f"pos of level {place} of {name}", f"crd of level {place} of {name}"
    findings = [
        *_type_findings(pos_name, level.pos),
        *_type_findings(crd_name, level.crd),
    ]
    if not findings:
        findings = _pointer_findings(pos_name, level, fibres)
    if not findings:
        findings = _index_findings(crd_name, level, extent, in_order)
    return findings


def _type_findings(name: str, array: Array) -> list[Finding]:
    is_vector = array.ndim == 1 and array.flags.c_contiguous
    if is_vector and array.dtype.isnative and array.dtype in (np.int32, np.int64):
        return []
    found = f"dtype {array.dtype.str}, shape {array.shape}, strides {array.strides}"
    return [at_argument(INDEX_TYPE, name, "a contiguous vector of int32 or int64", found)]


def _pointer_findings(name: str, level: Compressed, fibres: int) -> list[Finding]:
    pos, stored = level.pos, level.crd.size
    if pos.size != fibres + 1:
        return [at_argument(POINTERS, name, f"{fibres + 1} entries", f"{pos.size}")]
    if pos[0] != 0:
        return [at_argument(POINTERS, name, "0 at position 0", f"{pos[0]}")]
    falls = pos[1:] < pos[:-1]
    if falls.any():
        place = int(np.argmax(falls)) + 1
        expected = f"at least {pos[place - 1]} at position {place}"
        return [at_argument(POINTERS, name, expected, f"{pos[place]}")]
    if pos[-1] != stored:
        expected = f"{stored}, the length of crd, at position {fibres}"
        return [at_argument(POINTERS, name, expected, f"{pos[-1]}")]
    return []


def _index_findings(name: str, level: Compressed, extent: int, in_order: bool) -> list[Finding]:
    crd = level.crd
    for start in range(0, crd.size, _BLOCK):
        part = crd[start : start + _BLOCK]
        wrong = (part < 0) | (part >= extent)
        if wrong.any():
            place = start + int(np.argmax(wrong))
            expected = f"0 to {extent - 1} at position {place}"
            return [at_argument(INDICES, name, expected, f"{crd[place]}")]
    if not in_order:
        return []
    falls = crd[1:] <= crd[:-1]
    begins = level.pos[(level.pos > 0) & (level.pos < crd.size)]
    falls[begins - 1] = False
    if not falls.any():
        return []
    place = int(np.argmax(falls)) + 1
    expected = f"more than {crd[place - 1]} at position {place}"
    return [at_argument(INDICES, name, expected, f"{crd[place]}", "sort, and sum duplicates")]
