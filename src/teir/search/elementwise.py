"""Steps that are no matrix product: element-wise and outer products, and sums of one input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from teir.dtypes import DataType
from teir.ir.nodes import Operation, Tensor
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import cut
from teir.search.shape import extent_of, outermost_first, some
from teir.search.step import Span, Step
from teir.search.unit_tiles import (
    GRANULE,
    SIDE,
    emit_unit_tiles,
    loops_around,
    shared_piece,
    turned_inputs,
)
from teir.target import LINE_BYTES

_TURNED_IN_L1 = 2
"""Turned tiles that L1 holds: one waits there beside what it is read from and meets."""
_TURNED = 256
"""Elements of a tile from which turning it first is worth a copy."""


def emit_product(emission: Emission, step: Step, machine: Machine) -> Body:
    """An element-wise or outer product of two inputs, or an element-wise one of more.

    Nothing is summed, so nothing is zeroed.
    """
    output, data_type = step.output.name, step.inputs[0].data_type

    def leaf(tile: Roles) -> Body:
        body, inputs, tile = _unturned(emission, step, tile)
        names = tuple(tensor.name for tensor in inputs)
        if len(names) > 2:
            tile = Roles(m=(*tile.n, *tile.m))
        elif data_type is step.output.data_type is not DataType.TF32:
            return body + emission.leaf(Operation.MUL, names, output, tile)
        # Only a Contraction takes more inputs, rounds those of its products to TF32, or keeps
        # products of narrow numbers in FP32.
        body += emission.leaf(Operation.ZERO, (), output, tile)
        return body + emission.leaf(Operation.CONTRACTION, names, output, tile, data_type=data_type)

    width = max(tensor.data_type.width for tensor in step.inputs)
    rows = min(SIDE, machine.l1_bytes // (_TURNED_IN_L1 * SIDE * width))
    return emit_unit_tiles(emission, step, machine, leaf, max(GRANULE, rows), SIDE)


def _unturned(
    emission: Emission, step: Step, tile: Roles
) -> tuple[Body, tuple[Tensor, ...], Roles]:
    """Inputs that lie turned on a tile copied to scratch: gathers cost more than the copies."""
    axes = outermost_first((*tile.m, *tile.n), step.output)
    if len(axes) != 2 or extent_of(axes) < _TURNED:
        return Body(), step.inputs, tile
    across, along = axes
    turned = turned_inputs(across, along, step.inputs)
    body, inputs = Body(), []
    for tensor in step.inputs:
        if tensor not in turned:
            inputs.append(tensor)
            continue
        copy = Tensor(name=emission.name(f"{tensor.name}_turned"), data_type=tensor.data_type)
        width = tensor.data_type.width
        along = along.on(copy.name, width)
        across = across.on(copy.name, along.extent * width + LINE_BYTES)
        roles = Roles(m=(across,), n=(along,))
        body += emission.leaf(Operation.COPY, (tensor.name,), copy.name, roles)
        body = Body(body.nodes, (*body.scratch, copy))
        inputs.append(copy)
    return body, tuple(inputs), Roles(m=(across,), n=(along,)) if turned else tile


def emit_sum(emission: Emission, step: Step, machine: Machine) -> Body:
    """The sum of one input over some axes: Zero, then a Contraction with one input."""
    moving = [axis for axis in step.axes if axis.stride(step.output.name)]
    free = outermost_first(moving, step.output)
    near = min(
        free,
        key=lambda axis: (axis.stride(step.inputs[0].name), axis.stride(step.output.name)),
        default=None,
    )
    return _emit_reduction(emission, step, machine, free, near)


def _emit_reduction(
    emission: Emission, step: Step, machine: Machine, free: Sequence[Span], lanes: Span | None
) -> Body:
    """Loops over the free axes but ``lanes``; all reductions inside one invocation.

    The kernel keeps sums of narrow types wide however many reductions it is given.
    """
    (first,) = step.inputs
    k = tuple(sorted(step.reductions, key=lambda axis: axis.stride(first.name), reverse=True))
    outer = [axis for axis in free if axis is not lanes]

    def leaf(tile: Span | None) -> Body:
        along = some(tile)
        zero = emission.leaf(Operation.ZERO, (), step.output.name, Roles(m=along))
        roles = Roles(m=along, k=k)
        return zero + emission.leaf(
            Operation.CONTRACTION, (first.name,), step.output.name, roles, data_type=first.data_type
        )

    work = extent_of(step.axes)
    if lanes is not None and not outer and machine.threads > 1 and work >= machine.threaded_work:
        body = Body()
        for piece in cut(lanes, shared_piece(lanes, machine)):
            body += emission.loops(piece.loops, partial(leaf, piece.tile), parallel=True)
        return body
    return loops_around(emission, machine, outer, work, lambda: leaf(lanes))
