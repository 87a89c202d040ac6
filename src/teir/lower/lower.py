"""Lowering: a TEIR program becomes a kernel program (section 10.6).

Iteration nodes become loops, chains of parallel nodes one grid, guards tests of index cells, and
each invocation loops around the nearest kernel. Two rewrites keep every bit and save traffic:

* a sequential loop over a reduction whose only child is an unguarded Contraction becomes one more
  reduction of that Contraction:  ``t { gemm K:u }`` -> ``gemm K:t,u``;
* a Zero of exactly the tile that the next sibling, a Contraction, adds into disappears:
  ``zero; gemm`` -> ``gemm from zero``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from math import prod

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
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
from teir.lower.axes import TileAxis, fuse_any_order, tile_axes
from teir.lower.balance import balance_of
from teir.lower.block_shapes import most_accumulators
from teir.lower.contraction import (
    lower_contraction,
    needs_accumulator,
    reduction_room,
    reductions_inside,
)
from teir.lower.contraction_tile import (
    NO_TILE_HINTS,
    Accumulator,
    TileHints,
    contraction_tile,
)
from teir.lower.dot_rows import lower_dot_rows
from teir.lower.elementwise import lower_elementwise
from teir.lower.fission import Halves, dot_of, halves_of, run_positions
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
    Slot,
    Step,
    Storage,
    inner_nodes,
)
from teir.lower.kernels import PERMUTE_ROOM_BYTES, PermuteCopy, RunCopy
from teir.lower.scattered import lower_walked_scatter, may_be_split
from teir.lower.slots import (
    ScratchRoom,
    SlotTable,
    assign_slots,
    round_up,
)
from teir.lower.sparse import fibre_of, last_cell, sparse_loop
from teir.lower.walked import Fibre, Leaf, lower_walked_dots, lower_walked_sum, scaled_end
from teir.lower.walked_rows import rows_of_fibre, rows_of_grid, rows_of_loop
from teir.target import Isa

_LONGEST_REDUCTION = 1 << 20
"""A loop is not absorbed beyond this many products, for a kernel cannot be interrupted."""


def lower(program: Program, isa: Isa) -> KernelProgram:
    """The kernel program of a checked program for one instruction set.

    Programs with scratch that is addressed by position must have been refused before.
    """
    slots = assign_slots(program)
    used = {Storage.RUN: slots.run_scratch_bytes, Storage.THREAD: slots.thread_scratch_bytes}
    room = ScratchRoom([*slots.slots, _kernel_slot(0)], used)
    context = _Context(
        program.axis_table(),
        program.primitive_table(),
        slots,
        _index_cells(program),
        isa,
        _accumulator(slots, isa),
        room,
    )
    roots = _lower_siblings(program.roots, _Path((), (), in_grid=False), context)
    kernel_scratch = _kernel_scratch_bytes(roots, context.accumulator)
    room.slots[len(slots.slots)] = _kernel_slot(used[Storage.THREAD])
    has_more = kernel_scratch or len(room.slots) > len(slots.slots) + 1
    return KernelProgram(
        slots=tuple(room.slots) if has_more else slots.slots,
        roots=roots,
        index_cells=len(context.index_cells),
        run_scratch_bytes=used[Storage.RUN],
        thread_scratch_bytes=used[Storage.THREAD] + kernel_scratch,
    )


def _kernel_slot(start_bytes: int) -> Slot:
    return Slot(
        tensor="scratch of kernels",
        data_type=DataType.FP32,
        storage=Storage.THREAD,
        start_bytes=start_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Context:
    axes: dict[str, Axis]
    primitives: dict[str, Primitive]
    slots: SlotTable
    index_cells: dict[str, int]
    isa: Isa
    accumulator: Accumulator
    room: ScratchRoom


class _Path(msgspec.Struct, frozen=True):
    """What surrounds a node: the iterated axes, and reductions absorbed by the next Contraction."""

    axes: tuple[Axis, ...]
    absorbed: tuple[Axis, ...]
    in_grid: bool

    def inside(self, axis: Axis) -> _Path:
        return _Path((*self.axes, axis), self.absorbed, self.in_grid)


def _index_cells(program: Program) -> dict[str, int]:
    """A cell for every axis that a guard asks about, and one more for the last visits of each."""
    asked = {term.axis: None for node in program.nodes() for term in node.guard}
    sparse = {axis.name for axis in program.axes if axis.is_sparse and axis.name in asked}
    cells = [name for axis in asked for name in (axis, *([last_cell(axis)] * (axis in sparse)))]
    return {name: cell for cell, name in enumerate(cells)}


def _accumulator(slots: SlotTable, isa: Isa) -> Accumulator:
    """Room for the largest register block in FP32."""
    return Accumulator(len(slots.slots), most_accumulators(isa) * isa.vector_bytes)


def _kernel_scratch_bytes(nodes: Iterable[KernelNode], accumulator: Accumulator) -> int:
    """What calls below ``nodes`` need of the slot after those of the program's tensors.

    Wide accumulators and the room of permutations share it: no call leaves anything there.
    """
    most = 0
    for node in nodes:
        match node:
            case Call():
                if any(address.slot == accumulator.slot for address in node.operands):
                    is_permutation = isinstance(node.kernel, (PermuteCopy, RunCopy))
                    most = max(most, PERMUTE_ROOM_BYTES if is_permutation else accumulator.bytes)
            case _:
                most = max(most, _kernel_scratch_bytes(inner_nodes(node), accumulator))
    return most


def _lower_siblings(
    nodes: Sequence[Node], path: _Path, context: _Context
) -> tuple[KernelNode, ...]:
    lowered: list[KernelNode] = []
    zeroed: Node | None = None
    for position, node in enumerate(nodes):
        following = nodes[position + 1] if position + 1 < len(nodes) else None
        if following is not None and _zero_is_absorbed(node, following, path, context):
            zeroed = following
            continue
        lowered += _lower_node(node, path, context, from_zero=node is zeroed)
    return tuple(lowered)


def _lower_node(
    node: Node, path: _Path, context: _Context, from_zero: bool
) -> tuple[KernelNode, ...]:
    tests = _tests(node.guard, context)
    if tests is None:
        return ()
    match node:
        case InvocationNode():
            body = _lower_invocation(node, path, context, from_zero)
        case IterationNode():
            absorbed = _absorbed_leaf(node, context)
            if absorbed is not None:
                leaf, axes = absorbed
                inner = replace(path, absorbed=axes)
                body = _lower_invocation(leaf, inner, context, from_zero)
            elif context.axes[node.axis].is_sparse:
                body = _lower_sparse(node, path, context, from_zero)
            elif node.policy is Policy.PARALLEL and not path.in_grid:
                body = _lower_grid(node, path, context)
            else:
                body = _lower_loop(node, path, context)
    if not tests:
        return body
    return (Guarded(tests=tests, body=body),)


def _tests(guard: Sequence[GuardTerm], context: _Context) -> tuple[IndexTest, ...] | None:
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


def _lower_loop(node: IterationNode, path: _Path, context: _Context) -> tuple[KernelNode, ...]:
    axis = context.axes[node.axis]
    body = _lower_siblings(node.children, path.inside(axis), context)
    if axis.extent == 1 or not body:
        return body
    loop = Loop(
        extent=axis.extent,
        steps=_steps(axis, context),
        index=context.index_cells.get(axis.name),
        body=body,
    )
    return rows_of_loop(loop, context.isa) or (loop,)


def _lower_sparse(
    node: IterationNode, path: _Path, context: _Context, from_zero: bool
) -> tuple[KernelNode, ...]:
    axis = context.axes[node.axis]
    fused = _lower_fibre(node, path, context, from_zero)
    if fused is not None:
        return fused
    body = _lower_siblings(node.children, path.inside(axis), context)
    if not body:
        return body
    loop = sparse_loop(axis, path.axes, context.slots, context.index_cells, body)
    return rows_of_fibre(loop, context.isa) or (loop,)


def _lower_fibre(
    node: IterationNode, path: _Path, context: _Context, from_zero: bool
) -> tuple[KernelNode, ...] | None:
    """A sparse loop in kernels that walk its fibres; None where there are none for it."""
    axis = context.axes[node.axis]
    fibre = fibre_of(axis, path.axes, context.slots)
    if fibre is None:
        return None
    inner = path.inside(axis)
    node, zeroed = _without_zero(node, inner, context)
    child = node.children[0]
    if len(node.children) == 1 and isinstance(child, IterationNode):
        return _lower_two_levels(child, fibre, inner, context, from_zero)
    if len(node.children) == 1:
        leaf = _fibre_leaf(node.children[0], inner, context, accumulate=not from_zero)
        return None if leaf is None else _walked(leaf, fibre, context.isa)
    split = _lower_split(node, fibre, inner, context)
    if split is not None:
        return split
    halves = halves_of(node, context.primitives)
    if halves is None:
        return None
    dot = dot_of(halves.producers, context.primitives)
    consumer = _fibre_leaf(halves.consumer, inner, context, accumulate=True)
    if dot is not None and consumer is not None:
        ends = scaled_end(consumer, fibre, context.slots.number[halves.temporary.name])
        if ends is not None:
            leaf = _any_leaf(dot, inner, context, accumulate=not zeroed)
            return lower_walked_dots(leaf, fibre, lanes_of(dot) or 1, ends, context.isa)
    return None if zeroed else _lower_runs(halves, dot, fibre, inner, context, from_zero)


def _lower_two_levels(
    node: IterationNode, above: Fibre, path: _Path, context: _Context, from_zero: bool
) -> tuple[KernelNode, ...] | None:
    """A sparse loop that is all another one holds, both walked by one kernel."""
    axis = context.axes[node.axis]
    if not axis.is_sparse or node.guard or node.scratch or len(node.children) != 1:
        return None
    inner = fibre_of(axis, path.axes, context.slots)
    fibre = None if inner is None else inner.below(above)
    leaf = _fibre_leaf(node.children[0], path.inside(axis), context, accumulate=not from_zero)
    if fibre is None or leaf is None:
        return None
    return _walked(leaf, fibre, context.isa)


def _walked(leaf: Leaf, fibre: Fibre, isa: Isa) -> tuple[KernelNode, ...] | None:
    summed = lower_walked_sum(leaf, fibre, isa) if len(leaf.operands) > 1 else None
    return summed or lower_walked_scatter(leaf, fibre, isa)


def _lower_split(
    node: IterationNode, fibre: Fibre, path: _Path, context: _Context
) -> tuple[KernelNode, ...] | None:
    """Several leaves of a sparse loop, each over the whole fibre; None where order matters."""
    leaves = [child for child in node.children if isinstance(child, InvocationNode)]
    if node.scratch or len(leaves) < len(node.children):
        return None
    primitives = [context.primitives[leaf.primitive] for leaf in leaves]
    if not may_be_split(primitives, context.axes[node.axis], context.axes):
        return None
    made: tuple[KernelNode, ...] = ()
    zeroed = None
    for place, child in enumerate(leaves):
        following = leaves[place + 1] if place + 1 < len(leaves) else None
        if following is not None and _zero_is_absorbed(child, following, path, context):
            zeroed = following
            continue
        leaf = _fibre_leaf(child, path, context, accumulate=child is not zeroed)
        nodes = None if leaf is None else lower_walked_scatter(leaf, fibre, context.isa)
        if nodes is None:
            return None
        made += nodes
    return made


def _without_zero(
    node: IterationNode, path: _Path, context: _Context
) -> tuple[IterationNode, bool]:
    """``node`` without a Zero that only clears what its last child adds into; whether it had one.

    Other children make a temporary.
    """
    last = node.children[-1]
    if len(node.children) < 3 or not isinstance(last, InvocationNode):
        return node, False
    for place in (0, len(node.children) - 2):
        if _zero_is_absorbed(node.children[place], last, path, context):
            left = (*node.children[:place], *node.children[place + 1 :])
            return replace(node, children=left), True
    return node, False


def _lower_runs(
    halves: Halves,
    dot: Primitive | None,
    fibre: Fibre,
    path: _Path,
    context: _Context,
    from_zero: bool,
) -> tuple[KernelNode, ...] | None:
    """Both halves of a sparse loop for runs of positions, the temporary kept for all of a run."""
    temporary, room = halves.temporary, context.room
    low, high = context.slots.spans[temporary.name]
    if low:
        return None
    width = temporary.data_type.width
    stride = width if high == width else round_up(high)
    size = run_positions(stride)
    storage = Storage.THREAD if path.in_grid else Storage.RUN
    bounds = room.add(f"bounds of {temporary.name}", DataType.I64, storage, 16)
    kept = room.add(f"run of {temporary.name}", temporary.data_type, storage, stride * size)
    number = context.slots.number | {temporary.name: kept}
    slots = with_fields(context.slots, slots=tuple(room.slots), number=number)
    inside = with_fields(context, slots=slots)
    run = fibre.in_run(Address(slot=bounds, offset_bytes=0), kept, stride)
    consumer = _fibre_leaf(halves.consumer, path, inside, accumulate=True)
    last = None if consumer is None else lower_walked_sum(consumer, run, context.isa)
    if last is None:
        return None
    first = None
    if dot is not None:
        leaf = _any_leaf(dot, path, inside, accumulate=False)
        ends = (Address(slot=kept, offset_bytes=0),)
        first = lower_walked_dots(leaf, run, lanes_of(dot) or 1, ends, context.isa)
    if first is None:
        loop = run.loop(_lower_siblings(halves.producers, path, inside))
        first = rows_of_fibre(loop, context.isa) or (loop,)
    steps = (Step(slot=kept, stride_bytes=stride),)
    start: tuple[KernelNode, ...] = ()
    if from_zero and consumer is not None:
        fresh = lower_walked_sum(with_fields(consumer, accumulate=False), run, context.isa)
        start = (*first, *(fresh or last))
    return (fibre.runs(size, run.pos, steps, (*first, *last), start),)


def _fibre_leaf(node: Node, path: _Path, context: _Context, accumulate: bool) -> Leaf | None:
    """An unguarded Zero below a sparse loop, or a Contraction that forms each sum in one chain."""
    if not isinstance(node, InvocationNode) or node.guard:
        return None
    primitive = context.primitives[node.primitive]
    if primitive.operation is Operation.ZERO:
        return _any_leaf(primitive, path, context, accumulate=False)
    if primitive.operation is not Operation.CONTRACTION or lanes_of(primitive) is not None:
        return None
    return (
        None if flushes_subnormals(primitive) else _any_leaf(primitive, path, context, accumulate)
    )


def _any_leaf(primitive: Primitive, path: _Path, context: _Context, accumulate: bool) -> Leaf:
    operands, types = _operands(primitive, path, context)
    axes = tile_axes([context.axes[name] for name in primitive.axes], _operand_names(primitive))
    return Leaf(tuple(axes), operands, types[0], types[-1], accumulate)


def _lower_grid(node: IterationNode, path: _Path, context: _Context) -> tuple[KernelNode, ...]:
    """A chain of parallel nodes, each the only and unguarded child of the one above."""
    chain = [node]
    while len(chain[-1].children) == 1:
        child = chain[-1].children[0]
        if not isinstance(child, IterationNode) or child.guard:
            break
        if child.policy is not Policy.PARALLEL or context.axes[child.axis].is_sparse:
            break
        chain.append(child)
    inner = replace(path, in_grid=True)
    grid: list[GridAxis] = []
    for link in chain:
        axis = context.axes[link.axis]
        inner = inner.inside(axis)
        if axis.extent > 1:
            index = context.index_cells.get(axis.name)
            grid.append(GridAxis(extent=axis.extent, steps=_steps(axis, context), index=index))
    body = _lower_siblings(chain[-1].children, inner, context)
    if not grid or not body:
        return body
    balance = balance_of(chain[-1], inner.axes, context.axes, context.slots)
    whole = Grid(axes=tuple(grid), body=body, balance=balance if len(grid) == 1 else None)
    return rows_of_grid(whole, context.isa) or (whole,)


def _steps(axis: Axis, context: _Context) -> tuple[Step, ...]:
    return tuple(
        Step(slot=context.slots.number[tensor], stride_bytes=stride)
        for tensor, stride in axis.strides.items()
        if tensor in context.slots.number
    )


def _lower_invocation(
    leaf: InvocationNode, path: _Path, context: _Context, from_zero: bool
) -> tuple[KernelNode, ...]:
    primitive = context.primitives[leaf.primitive]
    operands, types = _operands(primitive, path, context)
    consumed = [context.axes[name] for name in primitive.axes]
    names = _operand_names(primitive)
    if primitive.operation is not Operation.CONTRACTION:
        axes = tile_axes(consumed, names)
        written = [axis for axis in (*path.axes, *consumed) if axis.strides[primitive.output]]
        output_bytes = types[-1].width * prod(axis.extent for axis in written)
        return lower_elementwise(
            primitive.operation,
            axes,
            operands,
            types,
            context.isa,
            output_bytes,
            room=Address(slot=context.accumulator.slot, offset_bytes=0),
            streams=memory_hints(primitive).streams,
            brings=bool(memory_hints(primitive).prefetched),
        )
    axes = tile_axes([*path.absorbed, *consumed], names)
    lanes = lanes_of(primitive)
    if lanes is not None:
        ends = (types[0], types[-1])
        return lower_dot_rows(axes, operands, ends, lanes, from_zero, context.isa)
    ahead = _distances_to_next_tile(primitive, path)
    hints = _tile_hints(primitive)
    tile = contraction_tile(axes, operands, types[0], types[-1], from_zero, ahead, hints)
    tile = replace(tile, flushes=flushes_subnormals(primitive))
    wide = context.accumulator if needs_accumulator(tile) else None
    return lower_contraction(tile, context.isa, wide)


def _tile_hints(primitive: Primitive) -> TileHints:
    hints = memory_hints(primitive)
    if hints is NO_HINTS:
        return NO_TILE_HINTS
    return TileHints(hints.streams, tuple(name in hints.prefetched for name in primitive.operands))


def _distances_to_next_tile(primitive: Primitive, path: _Path) -> tuple[int, ...]:
    """How far each operand moves from one tile to the next, in bytes."""
    inner = next((axis for axis in reversed(path.axes) if axis.extent > 1), None)
    if inner is None or inner.is_sparse:
        return (0,) * len(primitive.operands)
    return tuple(inner.strides[name] for name in primitive.operands)


def _operand_names(primitive: Primitive) -> tuple[str, ...]:
    if primitive.operation is Operation.ZERO:
        return (primitive.output,)
    return primitive.operands


def _operands(
    primitive: Primitive, path: _Path, context: _Context
) -> tuple[tuple[Address, ...], tuple[DataType, ...]]:
    """Addresses of the first element of the tile, relative to what the loops add, and types."""
    names = _operand_names(primitive)
    fixed = (*path.axes, *path.absorbed, *(context.axes[name] for name in primitive.axes))
    numbers = [context.slots.number[name] for name in names]
    starts = dict.fromkeys(names, 0)
    for axis in fixed:
        for name, offset in axis.offsets.items():
            if name in starts:
                starts[name] += offset
    addresses = tuple(
        [
            Address(slot=number, offset_bytes=starts[name])
            for name, number in zip(names, numbers, strict=True)
        ]
    )
    return addresses, tuple(context.slots.slots[number].data_type for number in numbers)


def _absorbed_leaf(node: Node, context: _Context) -> tuple[InvocationNode, tuple[Axis, ...]] | None:
    """The Contraction below a chain of sequential reductions with nothing else in it."""
    axes: list[Axis] = []
    while isinstance(node, IterationNode):
        if node.policy is not Policy.SEQUENTIAL or len(node.children) != 1 or node.scratch:
            return None
        axes.append(context.axes[node.axis])
        if axes[-1].is_sparse:
            return None
        node = node.children[0]
        if node.guard:
            return None
    primitive = context.primitives[node.primitive]
    if not axes or primitive.operation is not Operation.CONTRACTION:
        return None
    if lanes_of(primitive) is not None:
        # Chains begin and end with an invocation.
        return None
    if any(axis.strides[primitive.output] for axis in axes):
        return None
    output_type = context.slots.slots[context.slots.number[primitive.output]].data_type
    consumed = [context.axes[name] for name in primitive.axes]
    reductions = [axis for axis in consumed if not axis.strides[primitive.output]]
    long = [axis for axis in (*axes, *reductions) if axis.extent > 1]
    if prod(axis.extent for axis in long) > _LONGEST_REDUCTION:
        return None
    if output_type.accumulator is output_type or len(long) <= reduction_room(len(primitive.inputs)):
        return node, tuple(axes)
    return None


def _zero_is_absorbed(node: Node, following: Node, path: _Path, context: _Context) -> bool:
    """True when ``node`` zeroes exactly what ``following`` starts to add into."""
    if not isinstance(node, InvocationNode) or node.guard != following.guard:
        return False
    zero = context.primitives[node.primitive]
    if zero.operation is not Operation.ZERO:
        return False
    leaf, axes = _leaf_and_reductions(following, path, context)
    if leaf is None:
        return False
    contraction = context.primitives[leaf.primitive]
    if contraction.operation is not Operation.CONTRACTION or contraction.output != zero.output:
        return False
    if zero.output in contraction.inputs:
        return False
    return _covers(zero, contraction, axes, context) and _runs_inside(
        contraction, axes, path, context
    )


def _leaf_and_reductions(
    node: Node, path: _Path, context: _Context
) -> tuple[InvocationNode | None, tuple[Axis, ...]]:
    if isinstance(node, InvocationNode):
        return node, ()
    if context.axes[node.axis].is_sparse:
        return _walked_leaf(node, path, context), ()
    absorbed = _absorbed_leaf(node, context)
    return absorbed if absorbed is not None else (None, ())


def _walked_leaf(node: IterationNode, path: _Path, context: _Context) -> InvocationNode | None:
    """The last child of a sparse loop, where kernels walk the loop and start from zero."""
    axes, child = [context.axes[node.axis]], node.children[-1]
    if isinstance(child, IterationNode) and len(node.children) == 1:
        axes, child = [*axes, context.axes[child.axis]], child.children[-1]
    if not isinstance(child, InvocationNode):
        return None
    output = context.primitives[child.primitive].output
    if any(axis.offsets[output] or axis.strides[output] for axis in axes):
        return None
    mark = context.room.mark()
    walked = _lower_fibre(node, path, context, from_zero=True)
    context.room.cut(mark)
    return None if walked is None else child


def _runs_inside(
    primitive: Primitive, absorbed: tuple[Axis, ...], path: _Path, context: _Context
) -> bool:
    """True when every reduction runs inside the kernel, which then starts from zero once."""
    if len(absorbed) + len(primitive.k) <= 1 or lanes_of(primitive) is not None:
        return True
    operands, types = _operands(primitive, replace(path, absorbed=absorbed), context)
    consumed = [context.axes[name] for name in primitive.axes]
    axes = tile_axes([*absorbed, *consumed], primitive.operands)
    tile = contraction_tile(axes, operands, types[0], types[-1], from_zero=True, ahead=())
    tile = replace(tile, flushes=flushes_subnormals(primitive))
    return len(tile.reductions) <= reductions_inside(tile)


def _covers(
    zero: Primitive, contraction: Primitive, absorbed: tuple[Axis, ...], context: _Context
) -> bool:
    """True when both touch the same bytes of the output."""
    output = zero.output
    if not absorbed and (zero.c, zero.m, zero.n) == (
        contraction.c,
        contraction.m,
        contraction.n,
    ):
        reductions = [context.axes[name] for name in contraction.k]
        if all(not axis.strides[output] and not axis.offsets[output] for axis in reductions):
            return True
    return _region(zero, (), output, context) == _region(contraction, absorbed, output, context)


def _region(
    primitive: Primitive, absorbed: tuple[Axis, ...], output: str, context: _Context
) -> tuple[int, list[TileAxis]]:
    axes = [*absorbed, *(context.axes[name] for name in primitive.axes)]
    moving = [axis for axis in tile_axes(axes, (output,)) if axis.strides[0]]
    return sum(axis.offsets[output] for axis in axes), fuse_any_order(moving)
