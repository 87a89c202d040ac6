"""The factors of a product: held operands at their indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from teir.arrays.sparse import Sparse
from teir.expr.index_notation import Access
from teir.pipeline.room import no_room_for
from teir.pipeline.sparse_operands import Array, Held


def flat_arrays(array: Sparse | Array) -> list[Array]:
    """Values, then pos and crd of every compressed level, as the program names them."""
    if not isinstance(array, Sparse):
        order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        return [array.transpose(order).reshape(-1)]
    levels = [part for level in array.stored if level for part in (level.pos, level.crd)]
    return [array.values, *levels]


def plain_levels(access: Access, array: Sparse | Array) -> Sparse | None:
    """A sparse array without blocks at indices that are all different; None for every other."""
    if not isinstance(array, Sparse) or not array.format.is_sparse or array.blocks is not None:
        return None
    return array if len(set(access.indices)) == len(access.indices) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A tensor of the product at its indices, all different."""

    access: Access
    held: Held

    @property
    def stored(self) -> Sparse | None:
        """The levels of a factor that has a compressed one."""
        array = self.held.array
        return array if isinstance(array, Sparse) and array.format.is_sparse else None

    def with_array(self, array: Sparse | Array) -> Factor:
        return replace(self, held=replace(self.held, array=array))

    def with_copy(self, most_bytes: int, make: Callable[[], Array]) -> Factor:
        """With the array ``make`` makes, which takes so much.

        Raises TeirError (TEIR643, TEIR648).
        """
        room = self.held.room
        if room is not None:
            room.require(most_bytes, f"a copy of {self.held.name}")
        try:
            made = make()
        except MemoryError:
            name = self.held.name
            raise no_room_for(name, f"a copy of {name}", most_bytes) from None
        if room is not None:
            room.take(made)
        return self.with_array(made)
