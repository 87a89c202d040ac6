"""Random transfers, valid by construction as far as the domain algebra goes.

Some have no tensor map all the same (a pitch that is no multiple of 16 bytes, a box beyond 256);
who asks for one with a map draws again.
"""

from __future__ import annotations

import math
import random

from teir.tma.element_types import ElementType
from teir.tma.nodes import (
    Direction,
    Instruction,
    Merge,
    Parallel,
    Reorder,
    Resize,
    Split,
    Transfer,
    Verb,
)

LARGEST_TENSOR = 4096
LARGEST_RANK = 4
LARGEST_LOOPS = 9


def draw_transfer(generator: random.Random) -> Transfer:
    """A load with random shape, order and pitches in memory, swizzle, verbs and Bulk loops."""
    rank = generator.randint(1, LARGEST_RANK)
    shape = tuple(generator.choice((1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)) for _ in range(rank))
    while math.prod(shape) > LARGEST_TENSOR:
        shape = shape[1:]
    order = list(range(len(shape)))
    if generator.random() < 0.25:
        generator.shuffle(order)
    ordered, flags = _draw_strides(generator, tuple(shape[axis] for axis in order))
    strides = tuple(ordered[order.index(axis)] for axis in range(len(shape)))
    permuted = order != sorted(order)
    moves = tuple((axis, place) for place, axis in enumerate(order))
    verbs, loops = _draw_verbs(generator, shape)
    bulk = _draw_bulk(generator, loops)
    return Transfer(
        name="drawn",
        direction=Direction.LOAD,
        instruction=Instruction.TENSOR,
        element_type=generator.choice((ElementType.F32, ElementType.F64, ElementType.F16)),
        shape=shape,
        strides_elements=strides,
        contiguous=flags,
        base_address_mod_128=16 * generator.randrange(8),
        allocation=(Reorder(moves=moves),) if permuted else None,
        broadcast=frozenset(),
        schedule=verbs,
        parallel=tuple((axis, Parallel.BULK) for axis in bulk),
        shared=None,
        swizzle_bytes=generator.choice((0, 0, 0, 32, 64, 128)),
        circular_buffer=None,
        strong=False,
        threads=None,
    )


def _draw_strides(
    generator: random.Random, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """Strides with a pitch here and there; the innermost is 1."""
    strides: list[int] = []
    contiguous: list[bool] = []
    step = 1
    for extent in reversed(shape):
        pitched = bool(strides) and generator.random() < 0.25
        stride = step + 8 * generator.randint(1, 3) if pitched else step
        strides.insert(0, stride)
        contiguous.insert(0, not pitched)
        step = stride * extent
    return tuple(strides), tuple(contiguous)


def _draw_verbs(
    generator: random.Random, shape: tuple[int, ...]
) -> tuple[tuple[Verb, ...], list[int]]:
    loops = list(shape)
    verbs: list[Verb] = []
    for _ in range(generator.randint(0, 6)):
        kind = generator.random()
        if kind < 0.08:
            axis = generator.randrange(len(loops))
            left, right = generator.randint(0, 2), generator.randint(0, 2)
            loops[axis] += left + right
            verbs.append(Resize(axis=axis, left=left, right=right))
        elif kind < 0.65 and len(loops) < LARGEST_LOOPS:
            axis = generator.randrange(len(loops))
            factor = generator.choice((1, 2, 3, 4, 5, 8, 16))
            outer = generator.random() < 0.1
            rest = -(-loops[axis] // factor)
            loops[axis : axis + 1] = [factor, rest] if outer else [rest, factor]
            verbs.append(Split(axis=axis, factor=factor, outer=outer))
        elif kind < 0.85 and len(loops) > 1:
            axis = generator.randrange(len(loops) - 1)
            loops[axis : axis + 2] = [loops[axis] * loops[axis + 1]]
            verbs.append(Merge(outer=axis, inner=axis + 1))
        elif len(loops) > 1:
            old, new = generator.sample(range(len(loops)), 2)
            loops.insert(new, loops.pop(old))
            verbs.append(Reorder(moves=((old, new),)))
    return tuple(verbs), loops


def _draw_bulk(generator: random.Random, loops: list[int]) -> tuple[int, ...]:
    """Which loops are Bulk: the last more often than others, at most 4096 elements together."""
    chosen: list[int] = []
    elements = 1
    for axis in reversed(range(len(loops))):
        likely = 0.8 if axis == len(loops) - 1 else 0.35
        if generator.random() < likely and elements * loops[axis] <= LARGEST_TENSOR:
            chosen.append(axis)
            elements *= loops[axis]
    return tuple(sorted(chosen))
