"""Loops around tiles of all axes of a step, some of which are cut and some of which are loops.

loops over whole axes { loops over blocks { tile };  the rest of an axis { tile } }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

from teir.ir.nodes import Operation, Tensor
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import cut
from teir.search.pair_tiles import Blocks
from teir.search.shape import dense, extent_of, outermost_first
from teir.search.step import Span, Step, normalise


def emit_tiles(
    emission: Emission,
    step: Step,
    along: Tensor,
    blocks: Blocks,
    machine: Machine,
    inside: Callable[[tuple[Span, ...]], Body],
) -> Body:
    """``inside`` for every tile of ``blocks``, in the order of ``along``.

    The threads share the loops over results, which then come first; sums keep their order.
    """
    out = step.output.name
    is_shared = machine.threads > 1 and extent_of(step.axes) >= machine.threaded_work
    if is_shared:
        blocks = _shared_blocks(step, blocks, machine.threads)

    def place(axis: Span) -> tuple[bool, bool]:
        return id(axis) in blocks, is_shared and not axis.stride(out)

    def around(left: tuple[Span, ...], tile: tuple[Span, ...]) -> Body:
        if not left:
            return inside(tile)
        axis, *rest = left
        is_parallel, body = is_shared and bool(axis.stride(out)), Body()
        for piece in cut(axis, blocks.get(id(axis), 1)):
            assert piece.tile is not None
            # An axis of one index is a loop: as part of a step it would lose its place.
            is_loop = piece.tile.extent == 1
            loops = (*piece.loops, piece.tile) if is_loop else piece.loops
            body += emission.loops(
                loops,
                partial(around, tuple(rest), tile if is_loop else (*tile, piece.tile)),
                parallel=is_parallel,
            )
        return body

    return around(tuple(sorted(outermost_first(step.axes, along), key=place)), ())


def emit_through_scratch(emission: Emission, step: Step, stem: str, order: Sequence[Span]) -> Body:
    """A tile of a copy in two: into dense scratch, whose name begins with ``stem``, its axes in
    this order, the outermost first; and from there to the output."""
    (source,), target = step.inputs, step.output
    scratch = Tensor(name=emission.name(f"{stem}_{source.name}"), data_type=target.data_type)
    strides = dense(order, target.data_type.width)
    into = tuple(axis.only(source.name).on(scratch.name, strides[id(axis)]) for axis in order)
    out = tuple(axis.only(target.name).on(scratch.name, strides[id(axis)]) for axis in order)
    body = _copy(emission, source, scratch, into) + _copy(emission, scratch, target, out)
    return Body(body.nodes, (*body.scratch, scratch))


def _copy(emission: Emission, source: Tensor, target: Tensor, axes: tuple[Span, ...]) -> Body:
    axes = outermost_first(normalise(Step((source,), target, axes)).axes, target)
    return emission.leaf(Operation.COPY, (source.name,), target.name, Roles(m=axes))


def _shared_blocks(step: Step, blocks: Blocks, threads: int) -> Blocks:
    """The blocks, of the longest axis of results one for every thread where there are not as many
    whole ones."""
    free = [axis for axis in step.axes if axis.stride(step.output.name)]
    if prod(axis.extent // blocks.get(id(axis), 1) for axis in free) >= threads:
        return blocks
    longest = max(free, key=lambda axis: blocks.get(id(axis), 1))
    return {**blocks, id(longest): max(1, longest.extent // threads)}
