"""Steps that are no matrix product: copies, element-wise products, sums, lanes along a C axis.

The leaf consumes one or two axes; the other axes are loops, the largest output stride outermost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.memory_hints import MemoryHints
from teir.ir.nodes import Operation, Tensor
from teir.passes.extents import even_block
from teir.passes.parallelise import shared_block
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import FROM_MEMORY, Machine
from teir.search.packing import cut
from teir.search.permutations import is_cells, is_large, is_permutation
from teir.search.shape import extent_of, some
from teir.search.shared_permutations import Shared, shared_parts
from teir.search.step import Span, Step, normalise
from teir.search.stepped_turns import emit_stepped_turn, is_stepped_turn
from teir.search.streamed_copies import is_streamed, shared_blocks
from teir.search.thin_copies import is_thin
from teir.search.two_turns import emit_two_turns, two_turns_of
from teir.search.wide_copies import WideCopy, wide_copy_of
from teir.target import LINE_BYTES

_SIDE = 64
"""Elements of one side of a transposing tile that meets others in L1."""
_SIDE_LINES_BYTES = 6 * LINE_BYTES
"""Of L1 for each row of a transposing tile: the two lines a vector touches there, as much for what
is asked for next, and room. Sides of 128 where L1 holds 48 KB took 0.85 of the time of 64."""
_TURNED_IN_L1 = 2
"""Turned tiles that L1 holds: one waits there beside what it is read from and meets."""
_GRANULE = 16
_TURNED = 256
"""Elements of a tile from which turning it first is worth a copy."""
_FEWEST_IN_TILE = 16
"""Results of a tile of a product from which reading an input along its lines is worth leaving the
next ones for another tile. Measured on Zen 4: 0.2 to 1.3 of the time, in the mean 0.63 to 0.77."""
_RUNS_IN_L1, _RUNS_IN_L2 = 4, 2
"""Runs of a row that L1 holds where it is read again for every other row; and L2, where results go
to memory. Measured on Zen 4: 0.4 to 0.9 of the time there, up to 1.9 times as long elsewhere."""


def emit_copy(emission: Emission, step: Step, machine: Machine) -> Body:
    """A copy, permutation, diagonal or repetition; the type may change."""
    if is_stepped_turn(step):
        return emit_stepped_turn(emission, step, machine)
    return _emit_elements(emission, wide_copy_of(step), machine)


def _emit_elements(emission: Emission, copy: WideCopy, machine: Machine) -> Body:
    step, target = copy.step, copy.step.output
    is_shared = machine.threads > 1 and extent_of(step.axes) >= machine.threaded_work
    permutes = is_permutation(step)
    if permutes and is_streamed(step, machine):
        leaf = _copying(emission, copy, streams=True)
        if not is_shared:
            return leaf(Roles(m=_ordered(step.axes, target)))
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
    most = max(_SIDE, machine.l1_bytes // _SIDE_LINES_BYTES)
    side = 1 << (most.bit_length() - 1)
    return _emit_tiles(emission, step, machine, leaf, side, side)


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
    for piece in cut(longest, _chunk(longest, machine)):
        assert piece.tile is not None
        body += emission.loops(piece.loops, partial(part, piece.tile), parallel=True)
    return body


def _emit_permutation(
    emission: Emission, copy: WideCopy, machine: Machine, leaf: Callable[[Roles], Body]
) -> Body:
    """One tile of all axes, which the lowering cuts; of a part where threads share an axis."""
    axes = _ordered(copy.step.axes, copy.step.output)
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
    tile = Roles(m=_ordered((*rest, *_longer_than_one(inside)), step.output))
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
    rows = min(_SIDE, machine.l1_bytes // (_TURNED_IN_L1 * _SIDE * width))
    return _emit_tiles(emission, step, machine, leaf, max(_GRANULE, rows), _SIDE)


def _unturned(
    emission: Emission, step: Step, tile: Roles
) -> tuple[Body, tuple[Tensor, ...], Roles]:
    """Inputs that lie turned on a tile copied to scratch: gathers cost more than the copies."""
    axes = _ordered((*tile.m, *tile.n), step.output)
    if len(axes) != 2 or extent_of(axes) < _TURNED:
        return Body(), step.inputs, tile
    across, along = axes
    turned = _turned(across, along, step.inputs)
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
    free = _ordered([axis for axis in step.axes if axis.stride(step.output.name)], step.output)
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
        for piece in cut(lanes, _chunk(lanes, machine)):
            body += emission.loops(piece.loops, partial(leaf, piece.tile), parallel=True)
        return body
    return _loops(emission, machine, outer, work, lambda: leaf(lanes))


def _chunk(axis: Span, machine: Machine) -> int:
    """The indices of one piece of an axis that the threads share."""
    return shared_block(axis.extent, machine.threads, _GRANULE)


def _emit_tiles(
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
    axes = _ordered(step.axes, step.output)
    if not axes:
        return leaf(Roles())
    along = axes[-1]
    rest = list(axes[:-1])
    across = _across(rest, along, step.inputs)
    outer = [axis for axis in rest if axis is not across]
    work = extent_of(axes)
    is_shared = machine.threads > 1 and work >= machine.threaded_work and not outer
    if across is None or not _turned(across, along, step.inputs) or _fits(along, across, machine):
        if is_shared:
            return _shared_runs(emission, machine, along, across, leaf)
        runs = partial(_near_runs, emission, step.inputs, machine, along, across, leaf, work)
        return _loops(emission, machine, outer, work, runs)
    square = partial(_square, emission, along, across, rows, columns, leaf, is_shared)
    return _loops(emission, machine, outer, work, square)


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
    for piece in cut(along, _chunk(along, machine)):
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
    block = even_block(across.extent, rows, _GRANULE)
    shares_columns = is_parallel and block >= across.extent
    for row in cut(across, block):

        def row_tiles(row_tile: Span | None = row.tile) -> Body:
            inner = Body()
            assert row_tile is not None
            for column in cut(along, even_block(along.extent, columns, _GRANULE)):
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
        if _turned(axis, along, inputs) and not (len(inputs) > 1 and is_small):
            return axis
    return axes[-1] if axes else None


def _turned(across: Span, along: Span, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The inputs that are adjacent along ``across`` and move along ``along`` too."""
    return tuple(
        tensor for tensor in inputs if _is_unit(across, (tensor,)) and along.stride(tensor.name)
    )


def _is_unit(axis: Span, inputs: Sequence[Tensor]) -> bool:
    return any(axis.stride(tensor.name) == tensor.data_type.width for tensor in inputs)


def _ordered(axes: Sequence[Span], tensor: Tensor) -> tuple[Span, ...]:
    return tuple(sorted(axes, key=lambda axis: axis.stride(tensor.name), reverse=True))


def _loops(
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
