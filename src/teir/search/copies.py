"""Copies, permutations, diagonals and repetitions: streams, one tile of all axes, or many tiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from teir.ir.memory_hints import MemoryHints
from teir.ir.nodes import Operation
from teir.passes.extents import even_block
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import cut
from teir.search.permutations import is_cells, is_large, is_permutation
from teir.search.shape import extent_of, outermost_first
from teir.search.shared_permutations import Shared, shared_parts
from teir.search.step import Span, Step, normalise
from teir.search.stepped_turns import (
    emit_dense_turn,
    fills_squares,
    innermost,
    is_far_turn,
    is_stepped_turn,
)
from teir.search.streamed_copies import is_streamed, shared_blocks
from teir.search.thin_copies import is_thin
from teir.search.tile_loops import emit_tiles
from teir.search.two_turns import emit_two_turns, two_turns_of
from teir.search.unit_tiles import GRANULE, SIDE, emit_unit_tiles, shared_piece
from teir.search.wide_copies import WideCopy, wide_copy_of
from teir.target import LINE_BYTES

_SIDE_LINES_BYTES = 6 * LINE_BYTES
"""Of L1 for each row of a transposing tile: the two lines a vector touches there, as much for what
is asked for next, and room. Sides of 128 where L1 holds 48 KB took 0.85 of the time of 64."""


def emit_copy(emission: Emission, step: Step, machine: Machine) -> Body:
    """A copy, permutation, diagonal or repetition; the type may change."""
    return _emit_elements(emission, wide_copy_of(step), machine)


def _emit_elements(emission: Emission, copy: WideCopy, machine: Machine) -> Body:
    step, target = copy.step, copy.step.output
    if is_stepped_turn(step):
        if fills_squares(step, machine):
            return _emit_picked(emission, copy, machine)
        if not copy.run:  # scratch of wide elements would be copied without their runs
            return emit_dense_turn(emission, step, machine)
    is_shared = machine.threads > 1 and extent_of(step.axes) >= machine.threaded_work
    permutes = is_permutation(step)
    if permutes and is_streamed(step, machine):
        leaf = _copying(emission, copy, streams=True)
        if not is_shared:
            return leaf(Roles(m=outermost_first(step.axes, target)))
        blocks = shared_blocks(step, machine.threads)
        if blocks is not None:
            return _shared_tiles(emission, copy, machine, blocks, leaf)
    in_one_tile = permutes and is_large(step, machine)
    turns = two_turns_of(step) if permutes and not (in_one_tile or copy.run) else None
    if turns is not None:
        return emit_two_turns(emission, turns, machine)
    leaf = _copying(emission, copy, streams=False)
    if in_one_tile or (permutes and is_cells(step)):
        if not is_thin(step, machine):
            return _emit_permutation(emission, copy, machine, leaf)
        if is_shared and len(step.axes) == 2:
            return _shared_pieces(emission, copy, machine)
    most = max(SIDE, machine.l1_bytes // _SIDE_LINES_BYTES)
    side = 1 << (most.bit_length() - 1)
    return emit_unit_tiles(emission, step, machine, leaf, side, side)


def _emit_picked(emission: Emission, copy: WideCopy, machine: Machine) -> Body:
    """A permutation of elements that kernels pick from rows as they turn them."""
    step, target = copy.step, copy.step.output
    leaf = _copying(emission, copy, streams=False)
    if is_far_turn(step):
        return _emit_permutation(emission, copy, machine, leaf)
    blocks = {id(axis): even_block(axis.extent, SIDE, GRANULE) for axis in innermost(step)}

    def inside(tile: tuple[Span, ...]) -> Body:
        return leaf(Roles(m=outermost_first(tile, target)))

    return emit_tiles(emission, step, target, blocks, machine, inside)


def _copying(emission: Emission, copy: WideCopy, *, streams: bool) -> Callable[[Roles], Body]:
    """The invocation for a tile; ``streams`` writes past the caches."""
    (source,), target = copy.step.inputs, copy.step.output
    hints = MemoryHints(streams=streams, prefetched=frozenset())

    def leaf(tile: Roles) -> Body:
        whole = replace(tile, m=(*tile.m, *copy.run)) if copy.run else tile
        return emission.leaf(Operation.COPY, (source.name,), target.name, whole, hints=hints)

    return leaf


def _shared_pieces(emission: Emission, copy: WideCopy, machine: Machine) -> Body:
    """A permutation in pieces of its long side, shared among the threads."""
    step = copy.step
    longest = max(step.axes, key=lambda axis: axis.extent)
    alone = replace(machine, threads=1)

    def part(tile: Span) -> Body:
        axes = tuple(tile if axis is longest else axis for axis in step.axes)
        return _emit_elements(emission, WideCopy(replace(step, axes=axes), copy.run), alone)

    body = Body()
    for piece in cut(longest, shared_piece(longest, machine)):
        assert piece.tile is not None
        body += emission.loops(piece.loops, partial(part, piece.tile), parallel=True)
    return body


def _emit_permutation(
    emission: Emission, copy: WideCopy, machine: Machine, leaf: Callable[[Roles], Body]
) -> Body:
    """One tile of all axes, which the lowering cuts; of a part where threads share an axis."""
    axes = outermost_first(copy.step.axes, copy.step.output)
    if machine.threads == 1 or extent_of(axes) < machine.threaded_work:
        return leaf(Roles(m=axes))
    shared = shared_parts(copy.step, machine.threads)
    return _shared_tiles(emission, copy, machine, shared, leaf)


def _shared_tiles(
    emission: Emission,
    copy: WideCopy,
    machine: Machine,
    shared: Shared,
    leaf: Callable[[Roles], Body],
) -> Body:
    """One tile of all axes for each part; what is left is copied as if it were alone."""
    step = copy.step
    rest = tuple(axis for axis in step.axes if axis is not shared.axis)
    loop, inside = shared.axis.split(shared.part)
    tile = Roles(m=outermost_first((*rest, *_longer_than_one(inside)), step.output))
    body = emission.loops((loop,), partial(leaf, tile), parallel=True)
    done = loop.extent * shared.part
    if done == shared.axis.extent:
        return body
    place, left = shared.axis.rest_in_loop(done)
    last = normalise(replace(step, axes=(*rest, *_longer_than_one(left))))
    alone = replace(machine, threads=1)
    left_over = WideCopy(last, copy.run)
    return body + emission.loops(
        (place,), lambda: _emit_elements(emission, left_over, alone), False
    )


def _longer_than_one(axis: Span) -> tuple[Span, ...]:
    return (axis,) if axis.extent > 1 else ()
