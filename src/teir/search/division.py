"""Parts of one matrix-like step, one for every thread, which packs what its own part reads.

    parallel over parts of the rows, parallel over parts of the columns { the step on one part }
    the step on the rows that are left, if any; the step on the columns that are left

Threads that pack together read lines the others have written, which come by way of the third cache,
and wait for each other at every block; blocks of rows that are few come out uneven. Equal parts
have nothing of this. What several parts read is packed by each.

Parts of an axis that others lie around in the output end within its lines, many times: two threads
write such a line in turns. Another axis is cut instead, even where some of it is left.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import structs

from teir.passes.cache_blocks import FEWEST_COLUMNS
from teir.search.machine import Machine
from teir.search.packing import follow
from teir.search.shape import ProductShape, extent_of, some
from teir.search.step import Span
from teir.target import LINE_BYTES

_PACKED = 24
_READ = 4
"""Products of a vector in whose time one of an operand is packed, or read where it lies."""
_MOST_COST = 1.25
"""How much longer all parts together may take than the step on one thread."""
_EDGE = 1000
"""Products of a vector in whose time two threads both write a line. Measured on Golden Cove, drawn
ones on two threads: 0.72 of one thread's time in the mean where edges are free, 0.57 at this price,
which may be half or four times that."""
_AGAIN = 30
"""Products of a vector in whose time an element comes that is left in a part of a line:
`aed,edcb->cab` with 31 ``c`` took 2.0 of one thread's time, shared otherwise 0.7; from 62 on others
lost."""
_FEWEST_VECTORS = 1.5


class Division(msgspec.Struct, frozen=True, gc=False):
    """The loops over the parts, which the threads share, the step on one part, and on what is left.

    ``edges``: lines of the output that two parts may meet in; ``again``: elements of far operands
    that are left in parts of lines.
    """

    loops: tuple[Span, ...]
    part: ProductShape
    rests: tuple[ProductShape, ...]
    edges: int
    again: int


class Packs(msgspec.Struct, frozen=True, gc=False):
    """Which operands are packed."""

    a: bool
    b: bool


def division_of(shape: ProductShape, machine: Machine, packs: Packs) -> Division | None:
    """The cheapest division into as many equal parts as there are threads; None for none."""
    most = _MOST_COST * _cost(shape, packs, machine)
    found = [
        (cost + _EDGE * one.edges / extent_of(shape.k), one)
        for one in every_division(shape, machine)
        if (cost := _cost_of_all(one, packs, machine)) <= most
    ]
    return min(found, key=lambda one: one[0])[1] if found else None


def _cost_of_all(one: Division, packs: Packs, machine: Machine) -> float:
    """The time of all threads: while one does what is left the others wait."""
    left = sum(_cost(rest, packs, machine) for rest in one.rests)
    left += _AGAIN * one.again / extent_of(one.part.k)
    return machine.threads * (_cost(one.part, packs, machine) + left)


def every_division(shape: ProductShape, machine: Machine) -> Iterator[Division]:
    """All ways to divide the rows and the columns, parts of the rows first."""
    threads = machine.threads
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    for across in range(1, threads + 1):
        if threads % across:
            continue
        for rows in _cuts((*shape.m_outer, *some(shape.m)), threads // across, shape, machine):
            for columns in _cuts((*shape.n_outer, *some(shape.n)), across, shape, machine):
                one = _divided(shape, rows, columns)
                if rows.loop and one.part.rows < _FEWEST_VECTORS * lanes:
                    continue
                if columns.loop and one.part.columns < FEWEST_COLUMNS:
                    continue
                yield one


class _Cut(msgspec.Struct, frozen=True, gc=False):
    """The loop over the parts of a side, if there are several, and the axes of one part, of all
    parts, and of what is left; ``edges`` and ``again`` as in `Division`."""

    loop: tuple[Span, ...]
    part: tuple[Span, ...]
    parts: tuple[Span, ...]
    rest: tuple[Span, ...]
    edges: int
    again: int


def _divided(shape: ProductShape, rows: _Cut, columns: _Cut) -> Division:
    rests: tuple[ProductShape, ...] = ()
    if rows.rest:
        rests = (_with_rows(shape, rows.rest),)
    if columns.rest:
        rests = (*rests, _with_columns(_with_rows(shape, rows.parts), columns.rest))
    part = _with_columns(_with_rows(shape, rows.part), columns.part)
    loops, edges = (*rows.loop, *columns.loop), rows.edges + columns.edges
    return Division(loops, part, rests, edges, rows.again + columns.again)


def _with_rows(shape: ProductShape, axes: tuple[Span, ...]) -> ProductShape:
    return structs.replace(shape, m_outer=axes[:-1], m=axes[-1] if axes else None)


def _with_columns(shape: ProductShape, axes: tuple[Span, ...]) -> ProductShape:
    return structs.replace(shape, n_outer=axes[:-1], n=axes[-1] if axes else None)


def _cuts(
    axes: tuple[Span, ...], parts: int, shape: ProductShape, machine: Machine
) -> Iterator[_Cut]:
    """The side with each axis cut in equal parts; as it is for one part."""
    if parts == 1:
        yield _Cut((), axes, axes, (), 0, 0)
        return
    for place, axis in enumerate(axes):
        size = axis.extent // parts
        if size == 0:
            continue
        before, after = axes[:place], axes[place + 1 :]
        loop, inside = axis.split(size)
        is_needed = size > 1 or len(axes) == 1
        left = axis.extent % parts
        rest = (*before, axis.rest(parts * size), *after) if left else ()
        yield _Cut(
            (loop,),
            (*before, *((inside,) if is_needed else ()), *after),
            (*before, Span(axis.label, parts * size, axis.strides, axis.offsets), *after),
            rest,
            (parts - 1) * _places_outside(axis, shape),
            _left_in_lines(axis, left, shape, machine),
        )


def _places_outside(axis: Span, shape: ProductShape) -> int:
    """How often the output walks over ``axis``: the points of the axes with longer steps."""
    out = shape.out.name
    free = (*shape.c, *shape.m_outer, *some(shape.m), *shape.n_outer, *some(shape.n))
    return extent_of([one for one in free if one.stride(out) > axis.stride(out)])


def _left_in_lines(axis: Span, left: int, shape: ProductShape, machine: Machine) -> int:
    """Elements in ``left`` of an axis, of operands that the second cache loses, if these are parts
    of lines."""
    axes = (*shape.c, *shape.m_outer, *some(shape.m), *shape.n_outer, *some(shape.n), *shape.k)
    elements = 0
    for tensor in (shape.a, shape.b):
        points = extent_of([one for one in axes if one.stride(tensor.name)])
        is_far = points * tensor.data_type.width > machine.l2_bytes
        if is_far and 0 < left * axis.stride(tensor.name) < LINE_BYTES:
            elements += points // axis.extent * left
    return elements


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
