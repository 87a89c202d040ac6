"""Memory that others can write: what tells before every use whether it is as it was.

Compiled code looks at index arrays that are walked; of what was copied in another form, whose
values count as well, the fingerprint is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.arrays.sparse import Sparse
from teir.backends.llvm.fibre_unions import addresses
from teir.backends.llvm.index_check import Check, index_check
from teir.backends.llvm.index_seen import Still, still_level
from teir.pipeline.executable import default_isa
from teir.pipeline.sparse_operands import Array, Version, version_of, version_of_copy


@dataclass(frozen=True, slots=True)
class Copied:
    """An operand that was copied in another form: what it has to be still."""

    operand: int
    version: Version

    def is_as_seen(self, operands: Sequence[Any]) -> bool:
        return version_of(operands[self.operand]) == self.version


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen of a level, in memory nobody else has: where its fibres begin and end."""

    kept: tuple[Array, Array]
    """The bounds, and a bit for each pair of neighbours."""
    arguments: tuple[int, int, int, int, int, int, int]
    still: Still


@dataclass(frozen=True, slots=True)
class Looked:
    """The index arrays of one level."""

    pos: Array
    crd: Array
    arguments: tuple[int, int, int, int, int]
    """Where both lie, and how long they are, as the check takes them."""
    check: Check
    seen: _Seen | None
    """None where they changed while they were looked at."""

    def is_walkable(self) -> bool:
        """Whether both are what they have to be; less work where fibres begin where they did."""
        seen = self.seen
        if seen is not None and not seen.still(*seen.arguments):
            return True
        return not self.check(*self.arguments)


def looked_at(stored: Sparse) -> tuple[Looked, ...]:
    """What has to be looked at of every compressed level."""
    made = []
    fibres = 1
    for extent, level in zip(stored.level_extents, stored.stored, strict=True):
        if level is None:
            fibres *= extent
            continue
        check = index_check(default_isa(), level.pos.dtype.itemsize)
        pos, crd = level.pos, level.crd
        at = addresses(pos, crd)
        arguments = (at[0], fibres, at[1], crd.size, extent)
        made.append(Looked(pos, crd, arguments, check, _seen(pos, arguments, check)))
        fibres = crd.size
    return tuple(made)


def _seen(pos: Array, arguments: tuple[int, int, int, int, int], check: Check) -> _Seen | None:
    """The bounds are looked at again as kept: those of others may have changed since."""
    bounds = pos.copy()
    (own,) = addresses(bounds)
    at, fibres, there, stored, extent = arguments
    if check(own, fibres, there, stored, extent):
        return None
    begins = np.zeros(stored, np.bool_)
    begins[bounds[:-1][bounds[:-1] < bounds[1:]]] = True
    starts = np.packbits(begins[1:], bitorder="little")
    still = still_level(default_isa(), pos.dtype.itemsize)
    given = (at, own, fibres + 1, there, stored, addresses(starts)[0], extent)
    return _Seen((bounds, starts), given, still)


def only_version(copies: Sequence[Sparse | Array]) -> Version | None:
    """What an operand was when these copies were made of it; None where that is not known."""
    versions = {version_of_copy(one) for one in copies}
    return versions.pop() if len(versions) == 1 else None
