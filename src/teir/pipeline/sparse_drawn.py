"""Operands to measure with: those a plan was made with while they live, else drawn ones like them.

What is drawn has the same type, shape, levels and order of memory, and as many stored coordinates
in every level, spread evenly over the fibres.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from teir.arrays.levels import Format, Level
from teir.arrays.sparse import Sparse, owned
from teir.arrays.sparse_storage import Compressed, Stored, index_type
from teir.pipeline.sparse_operands import Array, Held

_DRAWN = 1 << 16
"""Numbers drawn; larger arrays repeat them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """What is known of an operand after it has gone.

    ``counts`` has the stored coordinates of every compressed level; ``order`` lists the axes of a
    dense array, the farthest apart in memory first.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    format: Format | None = None
    counts: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    blocks: tuple[int, ...] | None = None
    source: weakref.ref[Any] | None = None

    def operand(self, generator: np.random.Generator) -> Any:
        """The operand itself, or one like it."""
        alive = None if self.source is None else self.source()
        return self._drawn(generator) if alive is None else alive

    @property
    def is_drawn(self) -> bool:
        """True where the positions stored are drawn."""
        return self.format is not None and (self.source is None or self.source() is None)

    def _drawn(self, generator: np.random.Generator) -> Sparse | Array:
        if self.format is None:
            order = self.order or tuple(range(len(self.shape)))
            shape = [self.shape[axis] for axis in order]
            flat = _numbers(generator, int(np.prod(shape, dtype=np.int64)), self.dtype)
            return flat.reshape(shape).transpose(np.argsort(order))
        stored, positions = _levels(self._extents(), self.format, self.counts, generator)
        values = _numbers(generator, positions, self.dtype)
        return owned(self.shape, self.format, stored, values, self.blocks)

    def _extents(self) -> list[int]:
        assert self.format is not None
        shape = self.shape
        if self.blocks is not None:
            outer = [n // block for n, block in zip(shape, self.blocks, strict=True)]
            shape = (*outer, *self.blocks)
        return [shape[mode] for mode in self.format.mode_order]


def stand_in(held: Held) -> StandIn:
    """What has to be known of an operand to draw one like it."""
    array = held.array
    try:
        source = weakref.ref(held.source)
    except TypeError:
        source = None
    if not isinstance(array, Sparse):
        order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        return StandIn(shape=array.shape, dtype=array.dtype, order=tuple(order), source=source)
    return StandIn(
        shape=array.shape,
        dtype=array.dtype,
        format=array.format,
        counts=tuple(level.crd.size for level in array.stored if level),
        blocks=array.blocks,
        source=source,
    )


def _levels(
    extents: Sequence[int], fmt: Format, counts: Sequence[int], generator: np.random.Generator
) -> tuple[Stored, int]:
    """Index arrays with so many coordinates per compressed level, and the positions below."""
    left = list(counts)
    dtype = index_type(extents, max(left, default=0))
    stored: list[Compressed | None] = []
    fibres = 1
    for extent, level in zip(extents, fmt.levels, strict=True):
        if level is Level.DENSE:
            stored.append(None)
            fibres *= extent
            continue
        count = min(left.pop(0), fibres * extent)
        mean, rest = divmod(count, max(fibres, 1))
        places = np.arange(fibres + 1, dtype=np.int64)
        pos = places * mean + places * rest // max(fibres, 1)
        crd = _ascending(pos, extent, generator)
        stored.append(Compressed(pos=pos.astype(dtype), crd=crd.astype(dtype)))
        fibres = count
    return tuple(stored), fibres


def _ascending(pos: Array, extent: int, generator: np.random.Generator) -> Array:
    """Coordinates that ascend in every fibre, one from each of its equal parts of the extent."""
    lengths = np.repeat(np.diff(pos), np.diff(pos))
    number = np.arange(lengths.size) - np.repeat(pos[:-1], np.diff(pos))
    low, high = number * extent // lengths, (number + 1) * extent // lengths
    drawn: Array = low + (generator.random(lengths.size) * (high - low)).astype(np.int64)
    return drawn


def _numbers(generator: np.random.Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """Numbers between 1 and 2: none is slow because it is tiny, and no sum overflows."""
    block = (1 + generator.random(min(count, _DRAWN))).astype(dtype)
    return np.resize(block, count)
