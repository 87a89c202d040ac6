"""Loops over a matrix in the order it lies in memory, summed axes outside others, by threads.

    loops { part of the rows }                                     one thread
    parallel free { the other loops { part of the rows } }         a free axis long enough
    parallel pieces of the rows { loops { part of a piece } }      none

A matrix is read so, results part by part, where a result formed at once would come from many runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from teir.passes.extents import even_block
from teir.search.emission import Body, Emission
from teir.search.machine import Machine
from teir.search.packing import cut
from teir.search.shape import FEWEST_RUNS, extent_of
from teir.search.step import Span

_SHARES = 2
"""For each thread: few, so that each reads long runs."""

Nest = Callable[[Sequence[Span], Span], Body]
"""The nodes of some loops around the parts of some rows."""


def comes_in_few_runs(loops: Sequence[Span], summed: Sequence[Span]) -> bool:
    """True where those of ``loops`` that are ``summed`` lie outside all others, and are short: the
    matrix is then a few long runs, all of which every result is formed from."""
    outside = [axis for axis in loops if axis in summed]
    return list(loops[: len(outside)]) == outside and extent_of(outside) < FEWEST_RUNS


def emit_parts(
    emission: Emission,
    loops: Sequence[Span],
    cut_axis: Span | None,
    size: int,
    summed: tuple[Span, ...],
    part: Callable[[tuple[Span, ...]], Body],
) -> Body:
    """``loops``, outermost first, around the ``part`` that sums along the given axes: ``summed``,
    outside of which blocks of ``size`` of the ``cut_axis`` where it is one of the loops."""
    if not loops:
        return part(summed)
    first, *inside = loops
    if first is not cut_axis:
        return emission.loop(
            first, lambda _: emit_parts(emission, inside, cut_axis, size, summed, part)
        )
    return emission.blocks(
        first,
        even_block(first.extent, size),
        lambda block: emit_parts(emission, inside, None, size, (block, *summed), part),
    )


def emit_in_memory_order(
    emission: Emission,
    loops: Sequence[Span],
    free: Sequence[Span],
    rows: Span,
    machine: Machine,
    nest: Nest,
) -> Body:
    """``loops`` outermost first; threads share one of ``free``, which move the result, or rows."""
    if machine.threads == 1:
        return nest(loops, rows)
    shares = _SHARES * machine.threads
    shared = next((axis for axis in loops if axis in free and axis.extent >= shares), None)
    if shared is not None:
        inside = [axis for axis in loops if axis is not shared]
        return emission.loop(shared, lambda _: nest(inside, rows), parallel=True)
    body = Body()
    for piece in cut(rows, even_block(rows.extent, -(-rows.extent // shares))):
        assert piece.tile is not None
        body += emission.loops(piece.loops, partial(nest, loops, piece.tile), parallel=True)
    return body
