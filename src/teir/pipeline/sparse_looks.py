"""Index arrays that others can write: compiled code looks at them before every use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from teir.arrays.sparse import Sparse
from teir.backends.llvm.fibre_unions import addresses
from teir.backends.llvm.index_check import Check, index_check
from teir.backends.llvm.index_seen import Still, still_level
from teir.pipeline.executable import default_isa
from teir.pipeline.sparse_operands import Array


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
