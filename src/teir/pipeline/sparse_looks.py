"""Index arrays that others can write: compiled code looks at them before every use."""

from __future__ import annotations

from dataclasses import dataclass

from teir.arrays.sparse import Sparse
from teir.backends.llvm.fibre_unions import addresses
from teir.backends.llvm.index_check import Check, index_check
from teir.pipeline.executable import default_isa
from teir.pipeline.sparse_operands import Array


@dataclass(frozen=True, slots=True)
class Looked:
    """The index arrays of one level."""

    pos: Array
    crd: Array
    arguments: tuple[int, int, int, int, int]
    """Where both lie, and how long they are, as the check takes them."""
    check: Check

    def is_walkable(self) -> bool:
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
        made.append(Looked(pos, crd, (at[0], fibres, at[1], crd.size, extent), check))
        fibres = level.crd.size
    return tuple(made)
