"""Sparse loops in kernels that walk fibres: sums, dots, scatters, and runs of positions."""

from __future__ import annotations

from dataclasses import replace as with_fields

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.lanes import fibre_lanes, lanes_of
from teir.ir.nodes import (
    Axis,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Primitive,
)
from teir.ir.subnormals import flushes_subnormals
from teir.lower.absorption import absorbed_leaf, covers, runs_inside
from teir.lower.axes import TileAxis, tile_axes
from teir.lower.context import Context, Path, axes_of, operands_of
from teir.lower.contraction import lower_contraction, needs_accumulator
from teir.lower.contraction_tile import contraction_tile
from teir.lower.fission import Halves, dot_of, halves_of, run_positions
from teir.lower.kernel_program import (
    Address,
    BlockLoop,
    KernelNode,
    Step,
    Storage,
)
from teir.lower.scattered import lower_walked_scatter, may_be_split
from teir.lower.slots import (
    round_up,
)
from teir.lower.sparse import fibre_of
from teir.lower.walked import lower_walked_dots, lower_walked_sum, scaled_end
from teir.lower.walked_fibre import Fibre, Leaf
from teir.lower.walked_rows import rows_of_block, rows_of_fibre
from teir.lower.walked_sampled import lower_walked_sampled_sum
from teir.target import Isa

_BLOCK_POSITIONS = 24
"""Positions of a block that one product is formed for."""
_GAP_BYTES = 64
"""Between temporaries of adjacent positions, longer ones: keeps them off the same cache sets."""


def lower_fibre(
    node: IterationNode, path: Path, context: Context, from_zero: bool
) -> tuple[KernelNode, ...] | None:
    """A sparse loop in kernels that walk its fibres; None where there are none for it."""
    axis = context.axes[node.axis]
    fibre = fibre_of(axis, path.axes, context.slots)
    if fibre is None:
        return None
    inner = path.inside(axis)
    whole, (node, zeroed) = node, _without_zero(node, inner, context)
    child = node.children[0]
    if len(node.children) == 1 and isinstance(child, IterationNode):
        return _lower_two_levels(child, fibre, inner, context, from_zero)
    if len(node.children) == 1:
        leaf = _only_leaf(node.children[0], inner, context, accumulate=not from_zero)
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
            chains = lanes_of(dot) or 1
            return lower_walked_dots(leaf, fibre, chains, ends, context.isa, is_result=True)
    if not zeroed:
        made = _lower_sampled(halves, dot, fibre, inner, context, from_zero)
        made = made or _lower_runs(halves, dot, fibre, inner, context, from_zero)
        if made is not None:
            return made
    return _lower_products(halves, whole, fibre, path, context, from_zero=zeroed)


def _lower_two_levels(
    node: IterationNode, above: Fibre, path: Path, context: Context, from_zero: bool
) -> tuple[KernelNode, ...] | None:
    """A sparse loop that is all another one holds, both walked by one kernel."""
    axis = context.axes[node.axis]
    if not axis.is_sparse or node.guard or node.scratch or len(node.children) != 1:
        return None
    inner = fibre_of(axis, path.axes, context.slots)
    fibre = None if inner is None else inner.below(above)
    leaf = _only_leaf(node.children[0], path.inside(axis), context, accumulate=not from_zero)
    if fibre is None or leaf is None:
        return None
    if context.is_part:
        return lower_walked_sum(leaf, fibre, context.isa)
    return _walked(leaf, fibre, context.isa)


def _walked(leaf: Leaf, fibre: Fibre, isa: Isa) -> tuple[KernelNode, ...] | None:
    summed = lower_walked_sum(leaf, fibre, isa) if len(leaf.operands) > 1 else None
    return summed or lower_walked_scatter(leaf, fibre, isa)


def _lower_split(
    node: IterationNode, fibre: Fibre, path: Path, context: Context
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
        if following is not None and zero_is_absorbed(child, following, path, context):
            zeroed = following
            continue
        leaf = _fibre_leaf(child, path, context, accumulate=child is not zeroed)
        nodes = None if leaf is None else lower_walked_scatter(leaf, fibre, context.isa)
        if nodes is None:
            return None
        made += nodes
    return made


def _without_zero(node: IterationNode, path: Path, context: Context) -> tuple[IterationNode, bool]:
    """``node`` without a Zero that only clears what its last child adds into; whether it had one.

    Other children make a temporary.
    """
    last = node.children[-1]
    if len(node.children) < 3 or not isinstance(last, InvocationNode):
        return node, False
    for place in (0, len(node.children) - 2):
        if zero_is_absorbed(node.children[place], last, path, context):
            left = (*node.children[:place], *node.children[place + 1 :])
            return replace(node, children=left), True
    return node, False


def _lower_sampled(
    halves: Halves,
    dot: Primitive | None,
    fibre: Fibre,
    path: Path,
    context: Context,
    from_zero: bool,
) -> tuple[KernelNode, ...] | None:
    """Both halves of a sparse loop position by position, the temporary in a register."""
    consumer = _fibre_leaf(halves.consumer, path, context, accumulate=not from_zero)
    if dot is None or consumer is None:
        return None
    leaf = _any_leaf(dot, path, context, accumulate=False)
    temporary, chains = context.slots.number[halves.temporary.name], lanes_of(dot) or 1
    return lower_walked_sampled_sum(leaf, consumer, temporary, fibre, chains, context.isa)


def _lower_runs(
    halves: Halves,
    dot: Primitive | None,
    fibre: Fibre,
    path: Path,
    context: Context,
    from_zero: bool,
) -> tuple[KernelNode, ...] | None:
    """Both halves of a sparse loop for runs of positions, the temporary kept for all of a run."""
    temporary, room = halves.temporary, context.room
    low, high = context.slots.spans[temporary.name]
    if low:
        return None
    width = temporary.data_type.width
    stride = width if high == width else _apart(high)
    size = run_positions(stride)
    storage = Storage.THREAD if path.in_grid else Storage.RUN
    bounds = room.add(f"bounds of {temporary.name}", DataType.I64, storage, 16)
    kept = room.add(f"run of {temporary.name}", temporary.data_type, storage, stride * size)
    number = context.slots.number | {temporary.name: kept}
    slots = replace(context.slots, slots=tuple(room.slots), number=number)
    inside = replace(context, slots=slots)
    run = fibre.in_run(Address(slot=bounds, offset_bytes=0), kept, stride)
    consumer = _fibre_leaf(halves.consumer, path, inside, accumulate=True)
    last = None if consumer is None else lower_walked_sum(consumer, run, context.isa)
    if last is None:
        return None
    first = None
    if dot is not None:
        leaf = _any_leaf(dot, path, inside, accumulate=False)
        ends = (Address(slot=kept, offset_bytes=0),)
        chains = lanes_of(dot) or 1
        first = lower_walked_dots(leaf, run, chains, ends, context.isa, is_result=False)
    if first is None:
        loop = run.loop(inside.siblings(halves.producers, path, inside))
        first = rows_of_fibre(loop, context.isa) or (loop,)
    steps = (Step(slot=kept, stride_bytes=stride),)
    start: tuple[KernelNode, ...] = ()
    if from_zero and consumer is not None:
        fresh = lower_walked_sum(with_fields(consumer, accumulate=False), run, context.isa)
        start = (*first, *(fresh or last))
    return (fibre.runs(size, run.pos, steps, (*first, *last), start),)


def _lower_products(
    halves: Halves,
    node: IterationNode,
    fibre: Fibre,
    path: Path,
    context: Context,
    from_zero: bool,
) -> tuple[KernelNode, ...] | None:
    """Blocks of positions: their temporaries by one call, then one product for all of them.

        j over a fibre { Zero T; k over a fibre { T += B C[k] }; A[j, :] += T D }

    ``node`` is the whole loop, which is run visit by visit for what no block holds.
    """
    inner, temporary = path.inside(context.axes[node.axis]), halves.temporary
    used, room = context.primitives[halves.consumer.primitive], context.room
    if len(used.inputs) != 2 or context.slots.spans[temporary.name][0]:
        return None
    mark = room.mark()
    stride = _apart(context.slots.spans[temporary.name][1])
    storage = Storage.THREAD if path.in_grid else Storage.RUN
    size = _BLOCK_POSITIONS
    kept = room.add(f"block of {temporary.name}", temporary.data_type, storage, stride * size)
    number = context.slots.number | {temporary.name: kept}
    slots = replace(context.slots, slots=tuple(room.slots), number=number)
    inside = replace(context, slots=slots)
    steps = (*fibre.positions, Step(slot=kept, stride_bytes=stride))
    made = rows_of_block(inside.siblings(halves.producers, inner, inside), steps, size, context.isa)
    product = _block_product(used, inner, inside, steps, from_zero)
    touched = {one.slot for call in made or () for one in call.operands}
    if not made or product is None or any(one.slot in touched for one in fibre.coordinates):
        room.cut(mark)
        return None
    return (
        BlockLoop(
            pos=fibre.pos,
            pos_type=fibre.pos_type,
            fibres=1,
            size=size,
            steps=fibre.positions,
            body=(*made, *product),
            rest=context.siblings(node.children, inner, context),
        ),
    )


def _block_product(
    used: Primitive, path: Path, context: Context, steps: tuple[Step, ...], from_zero: bool
) -> tuple[KernelNode, ...] | None:
    """A Contraction of one position for all positions of a block; None where there is none."""
    names, consumed = used.operands, axes_of(used, context)
    operands, types = operands_of(names, path, consumed, context)
    axes = tile_axes(consumed, names)
    moved = {step.slot: step.stride_bytes for step in steps}
    strides = tuple(moved.get(one.slot, 0) for one in operands)
    row_bytes = types[-1].width + sum((one.extent - 1) * one.strides[-1] for one in axes)
    if sum(map(bool, strides)) != 2 or strides[-1] < row_bytes or len(set(types)) > 1:
        return None
    if all(axis.strides[-1] for axis in axes) or any(axis.strides[-1] < 0 for axis in axes):
        return None
    if lanes_of(used) is not None or flushes_subnormals(used) or types[-1].is_complex:
        return None
    block = TileAxis(_BLOCK_POSITIONS, strides)
    ahead = (0,) * len(operands)
    tile = contraction_tile([block, *axes], operands, types[0], types[-1], from_zero, ahead)
    return None if needs_accumulator(tile) else lower_contraction(tile, context.isa, None)


def _apart(size_bytes: int) -> int:
    """Bytes from one position's temporary to the next one's."""
    return round_up(size_bytes) + (_GAP_BYTES if size_bytes > _GAP_BYTES else 0)


def _fibre_leaf(node: Node, path: Path, context: Context, accumulate: bool) -> Leaf | None:
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


def _only_leaf(node: Node, path: Path, context: Context, accumulate: bool) -> Leaf | None:
    """As `_fibre_leaf`, for all that a sparse loop holds: its sum may have chains."""
    if isinstance(node, InvocationNode) and not node.guard:
        primitive = context.primitives[node.primitive]
        chains = fibre_lanes(primitive)
        if chains is not None:
            leaf = _any_leaf(primitive, path, context, accumulate)
            return with_fields(leaf, chains=chains)
    return _fibre_leaf(node, path, context, accumulate)


def _any_leaf(primitive: Primitive, path: Path, context: Context, accumulate: bool) -> Leaf:
    names, consumed = primitive.operands, axes_of(primitive, context)
    operands, types = operands_of(names, path, consumed, context)
    axes = tile_axes(consumed, names)
    return Leaf(tuple(axes), operands, types[0], types[-1], accumulate)


def zero_is_absorbed(node: Node, following: Node, path: Path, context: Context) -> bool:
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
    return covers(zero, contraction, axes, context) and runs_inside(
        contraction, axes, path, context
    )


def _leaf_and_reductions(
    node: Node, path: Path, context: Context
) -> tuple[InvocationNode | None, tuple[Axis, ...]]:
    if isinstance(node, InvocationNode):
        return node, ()
    if context.axes[node.axis].is_sparse:
        return _walked_leaf(node, path, context), ()
    absorbed = absorbed_leaf(node, context)
    return absorbed if absorbed is not None else (None, ())


def _walked_leaf(node: IterationNode, path: Path, context: Context) -> InvocationNode | None:
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
    walked = lower_fibre(node, path, context, from_zero=True)
    context.room.cut(mark)
    return None if walked is None else child
