"""Loops around a tile of the axis adjacent on the output and the one adjacent on an input.

The leaf consumes one or two axes; the other axes are loops, the largest output stride outermost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from teir.ir.nodes import Tensor
from teir.passes.extents import even_block
from teir.passes.parallelise import shared_block
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import FROM_MEMORY, Machine
from teir.search.packing import cut
from teir.search.shape import extent_of, outermost_first, some
from teir.search.step import Span, Step

SIDE = 64
"""Elements of one side of a transposing tile that meets others in L1."""
GRANULE = 16
_FEWEST_IN_TILE = 16
"""Results of a tile of a product from which reading an input along its lines is worth leaving the
next ones for another tile. Measured on Zen 4: 0.2 to 1.3 of the time, in the mean 0.63 to 0.77."""
_RUNS_IN_L1, _RUNS_IN_L2 = 4, 2
"""Runs of a row that L1 holds where it is read again for every other row; and L2, where results go
to memory. Measured on Zen 4: 0.4 to 0.9 of the time there, up to 1.9 times as long elsewhere."""


def emit_unit_tiles(
    emission: Emission,
    step: Step,
    machine: Machine,
    leaf: Callable[[Roles], Body],
    rows: int,
    columns: int,
) -> Body:
    """Loops around a tile of the axis adjacent on the output and the one adjacent on an input.

    A transposing tile has at most ``rows`` rows of the output and ``columns`` columns.
    """
    axes = outermost_first(step.axes, step.output)
    if not axes:
        return leaf(Roles())
    along = axes[-1]
    rest = list(axes[:-1])
    across = _across(rest, along, step.inputs)
    outer = [axis for axis in rest if axis is not across]
    work = extent_of(axes)
    is_shared = machine.threads > 1 and work >= machine.threaded_work and not outer
    is_turned = across is not None and bool(turned_inputs(across, along, step.inputs))
    if across is None or not is_turned or _fits(along, across, machine):
        if is_shared:
            return _shared_runs(emission, machine, along, across, leaf)
        runs = partial(_near_runs, emission, step.inputs, machine, along, across, leaf, work)
        return loops_around(emission, machine, outer, work, runs)
    square = partial(_square, emission, along, across, rows, columns, leaf, is_shared)
    return loops_around(emission, machine, outer, work, square)


def _near_runs(
    emission: Emission,
    inputs: Sequence[Tensor],
    machine: Machine,
    along: Span,
    across: Span | None,
    leaf: Callable[[Roles], Body],
    results: int,
) -> Body:
    """One leaf; or one for each run of a row that is read again and again, so that it stays in L1
    beside what comes and goes; in L2 where all ``results`` go to memory, in rows that are followed
    where they are long."""
    body, run = Body(), along.extent
    for tensor in inputs:
        stays = across is not None and not across.stride(tensor.name)
        if stays and along.stride(tensor.name) == tensor.data_type.width:
            width = tensor.data_type.width
            is_far = results * width >= FROM_MEMORY * machine.l2_bytes
            held = machine.l2_bytes // _RUNS_IN_L2 if is_far else machine.l1_bytes // _RUNS_IN_L1
            lanes = machine.lanes(width)
            run = min(run, even_block(along.extent, max(lanes, held // width), lanes))
    for piece in cut(along, run):
        roles = Roles(m=some(piece.tile), n=some(across))
        body += emission.loops(piece.loops, partial(leaf, roles), parallel=False)
    return body


def _fits(along: Span, across: Span, machine: Machine) -> bool:
    """True where a transposing tile stays in L1, whatever the type."""
    return along.extent * across.extent * 16 <= machine.l1_bytes


def _shared_runs(
    emission: Emission,
    machine: Machine,
    along: Span,
    across: Span | None,
    leaf: Callable[[Roles], Body],
) -> Body:
    """Pieces of one or two axes, shared among the threads."""
    if across is not None and across.extent >= machine.threads:
        return emission.loops((across,), lambda: leaf(Roles(m=(along,))), parallel=True)
    body = Body()
    for piece in cut(along, shared_piece(along, machine)):
        roles = Roles(m=some(piece.tile), n=some(across))
        body += emission.loops(piece.loops, partial(leaf, roles), parallel=True)
    return body


def _square(
    emission: Emission,
    along: Span,
    across: Span,
    rows: int,
    columns: int,
    leaf: Callable[[Roles], Body],
    is_parallel: bool,
) -> Body:
    """Tiles of a transposition: blocks of both axes, those across outermost.

    Threads share the outer blocks, or the inner ones where all of ``across`` is one block.
    """
    body = Body()
    block = even_block(across.extent, rows, GRANULE)
    shares_columns = is_parallel and block >= across.extent
    for row in cut(across, block):

        def row_tiles(row_tile: Span | None = row.tile) -> Body:
            inner = Body()
            assert row_tile is not None
            for column in cut(along, even_block(along.extent, columns, GRANULE)):
                assert column.tile is not None
                roles = Roles(m=(row_tile,), n=(column.tile,))
                inner += emission.loops(column.loops, partial(leaf, roles), shares_columns)
            return inner

        body += emission.loops(row.loops, row_tiles, is_parallel)
    return body


def _across(axes: Sequence[Span], along: Span, inputs: Sequence[Tensor]) -> Span | None:
    """The second axis of a tile: one along which an input lies turned, else the innermost left."""
    for axis in axes:
        is_small = along.extent * axis.extent < _FEWEST_IN_TILE and axis.extent < axes[-1].extent
        if turned_inputs(axis, along, inputs) and not (len(inputs) > 1 and is_small):
            return axis
    return axes[-1] if axes else None


def turned_inputs(across: Span, along: Span, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The inputs that are adjacent along ``across`` and move along ``along`` too."""
    return tuple(
        tensor for tensor in inputs if _is_unit(across, (tensor,)) and along.stride(tensor.name)
    )


def _is_unit(axis: Span, inputs: Sequence[Tensor]) -> bool:
    return any(axis.stride(tensor.name) == tensor.data_type.width for tensor in inputs)


def loops_around(
    emission: Emission,
    machine: Machine,
    outer: Sequence[Span],
    work: int,
    body: Callable[[], Body],
) -> Body:
    """The outer axes as loops; threads share the outermost ones when there is enough work."""
    if machine.threads == 1 or work < machine.threaded_work:
        return emission.loops(outer, body, parallel=False)
    shared = 0
    while shared < len(outer) and extent_of(outer[:shared]) < 4 * machine.threads:
        shared += 1
    return emission.loops(
        outer[:shared],
        lambda: emission.loops(outer[shared:], body, parallel=False),
        parallel=True,
    )


def shared_piece(axis: Span, machine: Machine) -> int:
    """The indices of one piece of an axis that the threads share."""
    return shared_block(axis.extent, machine.threads, GRANULE)
