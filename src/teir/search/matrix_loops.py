"""The loops of one matrix-like step, shared by threads or not, around the blocks of its sum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from teir.ir.nodes import Tensor
from teir.search.blocks import ProductBlocks
from teir.search.choice import Choice, Sharing
from teir.search.copies import emit_copy
from teir.search.default_choice import parts_of
from teir.search.division import Division
from teir.search.emission import Body, Emission
from teir.search.followed_batches import FollowedBatches, followed_batches
from teir.search.machine import Machine
from teir.search.pair_panels import turns_columns
from teir.search.reductions import Reductions, reductions_of
from teir.search.shape import ProductShape
from teir.search.sharing import shares_batch
from teir.search.step import Span, Step, normalise


def emit_contraction(
    emission: Emission, shape: ProductShape, machine: Machine, choice: Choice
) -> Body:
    """The nodes of a matrix-like step; a narrow output summed in parts is summed in FP32."""
    division = parts_of(shape, machine) if choice.sharing is Sharing.PARTS else None
    if division is not None:
        return _emit_division(emission, division, machine, choice)
    reductions = reductions_of(shape, choice.depth)
    if shape.out.data_type.is_narrow and not reductions.is_one_block:
        return _through_wide_output(emission, shape, machine, choice)
    turns = turns_columns(shape, machine)
    blocks = ProductBlocks(emission, shape, choice, machine.writes_lines, turns)
    if not shape.c:
        return blocks.reductions(reductions, ())
    followed = followed_batches(shape, machine)
    is_shared = shares_batch(shape, machine)
    if followed is None:
        return emission.loops(shape.c, partial(blocks.reductions, reductions, ()), is_shared)
    return emission.loops(
        tuple(axis for axis in shape.c if axis not in followed.axes),
        lambda: _emit_followed(blocks, reductions, followed, is_shared),
        is_shared,
    )


def _emit_division(
    emission: Emission, division: Division, machine: Machine, choice: Choice
) -> Body:
    """The nodes of the parts, then of what they leave."""
    alone, own = replace(machine, threads=1), replace(choice, sharing=Sharing.NONE)
    body = emission.loops(
        division.loops,
        lambda: emit_contraction(emission, division.part, alone, own),
        parallel=True,
    )
    for rest in division.rests:
        body += emit_contraction(emission, rest, alone, own)
    return body


def _emit_followed(
    blocks: ProductBlocks, reductions: Reductions, followed: FollowedBatches, is_shared: bool
) -> Body:
    """The nodes of blocks of batches, each inside the blocks of the sum."""

    def together(tile: Span) -> Body:
        inside = replace(blocks, batches=(tile, *followed.inside))
        return inside.reductions(reductions, ())

    return blocks.emission.blocks(followed.cut, followed.size, together, is_shared)


def _through_wide_output(
    emission: Emission, shape: ProductShape, machine: Machine, choice: Choice
) -> Body:
    """Sum into FP32 scratch, dense in the order of the output, then copy (and round) once."""
    wide = Tensor(name=emission.name("sum"), data_type=shape.out.data_type.accumulator)
    stride = wide.data_type.width
    strides: dict[int, int] = {}
    free = [axis for axis in (*shape.c, *shape.m_outer, shape.m, *shape.n_outer, shape.n) if axis]
    for axis in sorted(free, key=lambda axis: axis.stride(shape.out.name)):
        strides[id(axis)] = stride
        stride *= axis.extent

    def moved(axis: Span) -> Span:
        kept = {name: value for name, value in axis.strides.items() if name != shape.out.name}
        offsets = {name: value for name, value in axis.offsets.items() if name != shape.out.name}
        return Span(axis.label, axis.extent, {**kept, wide.name: strides[id(axis)]}, offsets)

    summed = replace(
        shape,
        out=wide,
        c=tuple(map(moved, shape.c)),
        m=shape.m and moved(shape.m),
        m_outer=tuple(map(moved, shape.m_outer)),
        n=shape.n and moved(shape.n),
        n_outer=tuple(map(moved, shape.n_outer)),
    )
    copied = tuple(_copied(axis, shape.out, wide, strides) for axis in free)
    rounded = normalise(Step((wide,), shape.out, copied))
    body = emit_contraction(emission, summed, machine, choice)
    body += emission.loops(
        _starts(copied), lambda: emit_copy(emission, rounded, machine), parallel=False
    )
    return Body(body.nodes, (*body.scratch, wide))


def _starts(axes: Sequence[Span]) -> tuple[Span, ...]:
    """Loops of one turn to where axes of one index begin, which are no axes of a step."""
    single = [axis for axis in axes if axis.extent == 1 and axis.offsets]
    return tuple(Span(axis.label, 1, {}, axis.offsets) for axis in single)


def _copied(axis: Span, out: Tensor, wide: Tensor, strides: dict[int, int]) -> Span:
    offsets = {out.name: axis.offsets[out.name]} if out.name in axis.offsets else {}
    return Span(
        axis.label,
        axis.extent,
        {out.name: axis.stride(out.name), wide.name: strides[id(axis)]},
        offsets,
    )
