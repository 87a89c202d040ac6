"""Lowering: a TEIR program becomes a kernel program (section 10.6).

Iteration nodes become loops, chains of parallel nodes one grid, guards tests of index cells, and
each invocation loops around the nearest kernel. Two rewrites keep every bit and save traffic:

* a sequential loop over a reduction whose only child is an unguarded Contraction becomes one more
  reduction of that Contraction:  ``t { gemm K:u }`` -> ``gemm K:t,u``, unless lanes run along an
  axis of all its operands: those loops are blocks for caches;
* a Zero of exactly the tile that the next sibling, a Contraction, adds into disappears:
  ``zero; gemm`` -> ``gemm from zero``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from operator import attrgetter

from msgspec.structs import replace

from teir.ir.check.report import Need
from teir.ir.coordinate_parts import coordinates_at_once
from teir.ir.lanes import lanes_of
from teir.ir.memory_hints import NO_HINTS, memory_hints
from teir.ir.nodes import (
    Axis,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
)
from teir.ir.subnormals import flushes_subnormals
from teir.lower.absorption import absorbed_leaf
from teir.lower.asked_rows import with_asked_rows
from teir.lower.asked_turns import asking_for_next_turn, asks_for_inputs
from teir.lower.axes import tile_axes
from teir.lower.balance import balance_of
from teir.lower.bringing import marks_in
from teir.lower.context import (
    Context,
    Path,
    axes_of,
    operands_of,
    steps_of,
)
from teir.lower.contraction import (
    lower_contraction,
    needs_accumulator,
)
from teir.lower.contraction_tile import (
    NO_TILE_HINTS,
    TileHints,
    contraction_tile,
)
from teir.lower.coordinate_parts import lower_in_parts
from teir.lower.dot_columns import columns_of_loop
from teir.lower.dot_rows import lower_dot_rows
from teir.lower.elementwise import lower_elementwise
from teir.lower.fibres import lower_fibre, zero_is_absorbed
from teir.lower.grid_turns import grid_in_turns
from teir.lower.kernel_program import (
    Address,
    Call,
    Grid,
    GridAxis,
    Guarded,
    IndexTest,
    KernelNode,
    KernelProgram,
    Loop,
    Storage,
)
from teir.lower.kernel_scratch import accumulator_of, kernel_scratch_bytes, kernel_slot
from teir.lower.next_tile import distances_to_next_tile
from teir.lower.packed_rows import rereads_of
from teir.lower.panels import blocks_of_loop
from teir.lower.part_loops import copies_before_loop
from teir.lower.slots import (
    ScratchRoom,
    assign_slots,
)
from teir.lower.sparse import last_cell, sparse_loop
from teir.lower.tile_loops import tiles_of_loop
from teir.lower.turned_runs import Turned, turned_operand_of_tile, turned_operands
from teir.lower.walked_rows import rows_of_fibre, rows_of_grid, rows_of_loop
from teir.target import MANY_REGISTERS, Isa

_SEGMENTS = attrgetter("segments")


def lower(program: Program, isa: Isa, needs: Mapping[str, Need] | None = None) -> KernelProgram:
    """The kernel program of a checked program for one instruction set.

    ``needs``: the bytes of each tensor as the check found them, looked for again without.
    Programs with scratch that is addressed by position must have been refused before.
    """
    primitives = program.primitive_table()
    slots = assign_slots(program, needs or {}, primitives)
    used = {Storage.RUN: slots.run_scratch_bytes, Storage.THREAD: slots.thread_scratch_bytes}
    room = ScratchRoom([*slots.slots, kernel_slot(0)], used)
    has_sparse = any(map(_SEGMENTS, program.axes))
    context = Context(
        program.axis_table(),
        primitives,
        slots,
        _index_cells(slots.guarded, program.axes) if slots.guarded else {},
        isa,
        accumulator_of(slots, isa),
        room,
        _lower_siblings,
        turned_operands(program),
        _parted(program) if has_sparse else {},
        has_sparse,
        isa.asks_in_passing and asks_for_inputs(program.primitives),
    )
    roots = _lower_siblings(program.roots, Path((), (), 0), context)
    kernel_scratch = kernel_scratch_bytes(roots, context.accumulator, isa)
    has_more = kernel_scratch or len(room.slots) > len(slots.slots) + 1
    if has_more:
        room.slots[len(slots.slots)] = kernel_slot(used[Storage.THREAD])
    return KernelProgram(
        slots=tuple(room.slots) if has_more else slots.slots,
        roots=roots,
        index_cells=len(context.index_cells),
        run_scratch_bytes=used[Storage.RUN],
        thread_scratch_bytes=used[Storage.THREAD] + kernel_scratch,
    )


def _parted(program: Program) -> dict[str, int]:
    counts = {}
    for primitive in program.primitives:
        count = coordinates_at_once(primitive) if primitive.metadata else None
        if count is not None:
            counts[primitive.name] = count
    return counts


def _index_cells(asked: Sequence[str], axes: Sequence[Axis]) -> dict[str, int]:
    """A cell for every axis that a guard asks about, and one more for the last visits of each."""
    sparse = {axis.name for axis in axes if axis.is_sparse and axis.name in asked}
    cells = [name for axis in asked for name in (axis, *([last_cell(axis)] * (axis in sparse)))]
    return {name: cell for cell, name in enumerate(cells)}


def _lower_siblings(nodes: Sequence[Node], path: Path, context: Context) -> tuple[KernelNode, ...]:
    if len(nodes) == 1:
        return _lower_node(nodes[0], path, context, from_zero=False)
    lowered: list[KernelNode] = []
    zeroed: Node | None = None
    for node, following in zip_longest(nodes, nodes[1:]):
        if following is not None and zero_is_absorbed(node, following, path, context):
            zeroed = following
            continue
        lowered += _lower_node(node, path, context, from_zero=node is zeroed)
    return tuple(lowered)


def _lower_node(
    node: Node, path: Path, context: Context, from_zero: bool
) -> tuple[KernelNode, ...]:
    tests = _tests(node.guard, context) if node.guard else ()
    if tests is None:
        return ()
    match node:
        case InvocationNode():
            body = _lower_invocation(node, path, context, from_zero)
        case IterationNode():
            absorbed = absorbed_leaf(node, context)
            if context.parted and not path.axes and not context.is_part:
                parts = lower_in_parts(node, path, context)
                if parts is not None:
                    return parts
            if absorbed is not None:
                leaf, axes = absorbed
                inner = replace(path, absorbed=axes)
                body = _lower_invocation(leaf, inner, context, from_zero)
            elif context.has_sparse and context.axes[node.axis].is_sparse:
                body = _lower_sparse(node, path, context, from_zero)
            elif node.policy is Policy.PARALLEL and not path.in_grid:
                body = _lower_grid(node, path, context)
            else:
                body = _lower_loop(node, path, context)
    if not tests:
        return body
    return (Guarded(tests=tests, body=body),)


def _tests(guard: Sequence[GuardTerm], context: Context) -> tuple[IndexTest, ...] | None:
    """The tests of a guard; None when two terms can never hold together."""
    wanted: dict[int, int] = {}
    for term in guard:
        axis = context.axes[term.axis]
        extent = axis.extent
        if axis.is_sparse:
            is_first = term.kind is GuardKind.FIRST
            cell = context.index_cells[axis.name if is_first else last_cell(axis.name)]
            wanted[cell] = 0 if is_first else 1
            continue
        if extent == 1:
            continue
        value = 0 if term.kind is GuardKind.FIRST else extent - 1
        if wanted.setdefault(context.index_cells[term.axis], value) != value:
            return None
    return tuple(IndexTest(index=cell, value=value) for cell, value in wanted.items())


def _lower_loop(node: IterationNode, path: Path, context: Context) -> tuple[KernelNode, ...]:
    axis = context.axes[node.axis]
    inner = path.inside(axis)
    body = _lower_siblings(node.children, inner, context)
    if axis.extent == 1 or not body:
        return body
    if context.asks:
        body = asking_for_next_turn(node, body, inner, context)
    loop = Loop(
        extent=axis.extent,
        steps=steps_of(axis, context),
        index=context.index_cells.get(axis.name),
        body=body,
    )
    is_call = len(body) == 1 and isinstance(body[0], Call)
    blocks = blocks_of_loop(loop) if is_call else None
    if blocks is not None:
        return (blocks,)
    other = tiles_of_loop(loop) if context.isa is Isa.AMX else None
    if len(body) > 1:
        other = other or copies_before_loop(loop)
    if context.has_sparse:
        other = other or rows_of_loop(loop, context.isa)
    if is_call:
        other = other or columns_of_loop(loop, context.isa)
    return other or (loop,)


def _lower_sparse(
    node: IterationNode, path: Path, context: Context, from_zero: bool
) -> tuple[KernelNode, ...]:
    axis = context.axes[node.axis]
    fused = lower_fibre(node, path, context, from_zero)
    if fused is not None:
        return fused
    body = _lower_siblings(node.children, path.inside(axis), context)
    if not body:
        return body
    loop = sparse_loop(axis, path.axes, context.slots, context.index_cells, body)
    return rows_of_fibre(loop, context.isa) or (loop,)


def _lower_grid(node: IterationNode, path: Path, context: Context) -> tuple[KernelNode, ...]:
    """A chain of parallel nodes, each the only and unguarded child of the one above."""
    chain = [node]
    while len(chain[-1].children) == 1:
        child = chain[-1].children[0]
        if not isinstance(child, IterationNode) or child.guard:
            break
        if child.policy is not Policy.PARALLEL or context.axes[child.axis].segments:
            break
        chain.append(child)
    inner = replace(path, grid_axes=len(path.axes) + len(chain))
    grid: list[GridAxis] = []
    for link in chain:
        axis = context.axes[link.axis]
        inner = inner.inside(axis)
        if axis.extent > 1:
            index = context.index_cells.get(axis.name)
            grid.append(GridAxis(extent=axis.extent, steps=steps_of(axis, context), index=index))
    body = _lower_siblings(chain[-1].children, inner, context)
    if not grid or not body:
        return body
    if not context.has_sparse:
        plain = Grid(axes=tuple(grid), body=body, balance=None)
        return (grid_in_turns(plain, chain[-1].children, inner, context) or plain,)
    balance = balance_of(chain[-1], inner.axes, context.axes, context.slots)
    whole = Grid(axes=tuple(grid), body=body, balance=balance if len(grid) == 1 else None)
    return with_asked_rows(rows_of_grid(whole, context.isa) or (whole,), whole, context.isa)


def _lower_invocation(
    leaf: InvocationNode, path: Path, context: Context, from_zero: bool
) -> tuple[KernelNode, ...]:
    primitive = context.primitives[leaf.primitive]
    if primitive.operation is not Operation.CONTRACTION:
        return _lower_elementwise(primitive, path, context)
    names, consumed = primitive.operands, axes_of(primitive, context)
    operands, types = operands_of(names, path, consumed, context)
    axes = tile_axes([*path.absorbed, *consumed], names)
    lanes = lanes_of(primitive)
    if lanes is not None:
        ends = (types[0], types[-1])
        matrices = max(_positions(name, path.axes) for name in names[:-1])
        return lower_dot_rows(axes, operands, ends, lanes, from_zero, context.isa, matrices)
    loops = [axis for axis in path.axes if axis.extent > 1]
    tile_hints, flushes = _tile_hints(primitive), flushes_subnormals(primitive)
    tile = contraction_tile(
        axes,
        operands,
        types[0],
        types[-1],
        from_zero,
        distances_to_next_tile(
            primitive, loops, (*path.absorbed, *consumed), types[0].width, context.isa
        ),
        hints=tile_hints,
        flushes=flushes,
        turned=_turned_operands(primitive, path, context),
        turns=_turns_around(primitive, loops) if flushes and not path.in_grid else 1,
        tiles=_positions(names[0], path.axes),
        rereads=_rereads(primitive, path, context.isa),
    )
    wide = context.accumulator if needs_accumulator(tile) else None
    marks = marks_in(context.room) if any(tile_hints.prefetched[:-1]) else None
    room = Address(slot=context.accumulator.slot, offset_bytes=0)
    return lower_contraction(tile, context.isa, wide, marks, room, context.room)


def _lower_elementwise(
    primitive: Primitive, path: Path, context: Context
) -> tuple[KernelNode, ...]:
    names, consumed = primitive.operands, axes_of(primitive, context)
    operands, types = operands_of(names, path, consumed, context)
    output_bytes, is_packed = 0, False
    if primitive.operation is Operation.COPY:
        output_bytes = types[-1].width * _positions(primitive.output, (*path.axes, *consumed))
        # From a caller's buffer, which is far, to scratch, which is near.
        slots, (source, target) = context.slots.slots, operands
        is_packed = slots[source.slot].storage is Storage.OPERAND
        is_packed = is_packed and slots[target.slot].storage is not Storage.OPERAND
    hints = memory_hints(primitive)
    return lower_elementwise(
        primitive.operation,
        tile_axes(consumed, names),
        operands,
        types,
        context.isa,
        output_bytes,
        room=Address(slot=context.accumulator.slot, offset_bytes=0),
        streams=hints.streams,
        brings=bool(hints.prefetched),
        follows_input=is_packed,
    )


def _turned_operands(
    primitive: Primitive, path: Path, context: Context
) -> tuple[Turned | None, ...]:
    """For each input of a Contraction, where its rows lie once more."""
    if context.turned.keys().isdisjoint(primitive.inputs):
        return (None,) * len(primitive.inputs)
    consumed, around = axes_of(primitive, context), (*path.axes, *path.absorbed)
    return tuple(
        turned_operand_of_tile(context.turned.get(name), name, consumed, around)
        for name in primitive.inputs
    )


def _rereads(primitive: Primitive, path: Path, isa: Isa) -> tuple[int, ...]:
    """Of each input, where rows may be copied for it: by one thread, in few registers."""
    if isa.vector_registers >= MANY_REGISTERS:
        return ()
    return rereads_of(primitive.inputs, path.axes[path.grid_axes :])


def _tile_hints(primitive: Primitive) -> TileHints:
    hints = memory_hints(primitive)
    if hints is NO_HINTS:
        return NO_TILE_HINTS
    return TileHints(hints.streams, tuple(map(hints.prefetched.__contains__, primitive.operands)))


def _positions(tensor: str, axes: Sequence[Axis]) -> int:
    """How many positions these axes move a tensor to."""
    count = 1
    for axis in axes:
        if tensor in axis.strides:
            count *= axis.extent
    return count


def _turns_around(primitive: Primitive, loops: Sequence[Axis]) -> int:
    """Turns of the innermost loop, where one input and the output move along it; else 1."""
    if not loops or loops[-1].segments:
        return 1
    strides = loops[-1].strides
    moved = [name for name in primitive.inputs if name in strides]
    return loops[-1].extent if primitive.output in strides and len(moved) == 1 else 1
