"""Parts of one matrix-like step, one for every thread, which packs what its own part reads.

    parallel over parts of the rows, parallel over parts of the columns { the step on one part }

Threads that pack together read lines the others have written, which come by way of the third cache,
and wait for each other at every block; blocks of rows that are few come out uneven. Equal parts
have nothing of this. What several parts read is packed by each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import structs

from teir.passes.cache_blocks import FEWEST_COLUMNS
from teir.search.machine import Machine
from teir.search.packing import follow
from teir.search.shape import ProductShape, some
from teir.search.step import Span

_PACKED = 24
_READ = 4
"""Products of a vector in whose time one of an operand is packed, or read where it lies."""
_MOST_COST = 1.25
"""How much longer all parts together may take than the step on one thread."""
_FEWEST_VECTORS = 1.5


class Division(msgspec.Struct, frozen=True, gc=False):
    """The loops over the parts, which the threads share, and the step on one part."""

    loops: tuple[Span, ...]
    part: ProductShape


class Packs(msgspec.Struct, frozen=True, gc=False):
    """Which operands are packed."""

    a: bool
    b: bool


def division_of(shape: ProductShape, machine: Machine, packs: Packs) -> Division | None:
    """The cheapest division into as many equal parts as there are threads; None for none."""
    most = _MOST_COST * _cost(shape, packs, machine)
    found = [
        (cost, one)
        for one in _divisions(shape, machine)
        if (cost := machine.threads * _cost(one.part, packs, machine)) <= most
    ]
    return min(found, key=lambda one: one[0])[1] if found else None


def _divisions(shape: ProductShape, machine: Machine) -> Iterator[Division]:
    """All ways to divide the rows and the columns, parts of the rows first."""
    threads = machine.threads
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    for across in range(1, threads + 1):
        if threads % across:
            continue
        rows = _cut((*shape.m_outer, *some(shape.m)), threads // across)
        columns = _cut((*shape.n_outer, *some(shape.n)), across)
        if rows is None or columns is None:
            continue
        part = structs.replace(
            shape,
            m_outer=rows.inside[:-1],
            m=rows.inside[-1] if rows.inside else None,
            n_outer=columns.inside[:-1],
            n=columns.inside[-1] if columns.inside else None,
        )
        if rows.loop and part.rows < _FEWEST_VECTORS * lanes:
            continue
        if columns.loop and part.columns < FEWEST_COLUMNS:
            continue
        yield Division((*rows.loop, *columns.loop), part)


class _Cut(msgspec.Struct, frozen=True, gc=False):
    """The loop over the parts of a side, if there are several, and the axes of one part."""

    loop: tuple[Span, ...]
    inside: tuple[Span, ...]


def _cut(axes: Sequence[Span], parts: int) -> _Cut | None:
    """The outermost axis that divides in parts; None where no axis does."""
    if parts == 1:
        return _Cut((), tuple(axes))
    for place, axis in enumerate(axes):
        if axis.extent % parts:
            continue
        loop, inside = axis.split(axis.extent // parts)
        is_needed = inside.extent > 1 or len(axes) == 1
        kept = (inside,) if is_needed else ()
        return _Cut((loop,), (*axes[:place], *kept, *axes[place + 1 :]))
    return None


def _cost(shape: ProductShape, packs: Packs, machine: Machine) -> float:
    """Products of vectors per step of the sum, with the time that the operands take."""
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    a = _PACKED if packs.a else _READ
    b = _PACKED if packs.b else _READ
    return _vectors(shape, lanes) * (shape.columns + a + b * shape.columns / shape.rows)


def _vectors(shape: ProductShape, lanes: int) -> int:
    """Vectors that hold all rows, which lie side by side where they follow in the output."""
    if shape.m is None:
        return 1
    together = shape.m.extent
    if shape.m_outer and follow(shape.m_outer[-1], shape.m, shape.out.name):
        together *= shape.m_outer[-1].extent
    return shape.rows // together * -(-together // lanes)
