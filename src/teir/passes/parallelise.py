"""Share the work of a program among threads.

    sequential m over m (20)               parallel m over m (20)
      gemm: gemm_tile                ->      gemm: gemm_tile

    zero: zero_whole                       parallel loop_m over m_1 (2)
    gemm: gemm_whole                 ->      parallel loop_n over n_1 (4)
                                               zero: zero_part
                                               gemm: gemm_part

    gemm: gemm_whole                       scratch partial: FP32
                                           parallel loop_k over k_1 (2)
    (few rows and columns,           ->      zero: zero_part         (a slice of the scratch)
     a long sum)                             gemm: gemm_part         (into that slice)
                                           sum: sum_slices           (out += slices, in order)

Loops whose iterations are independent become parallel, outermost first, until there are four
points per thread. A large leaf or group is cut into a grid of nearly square parts that give every
thread the same number of rows and columns. Where rows and columns are too few, each thread sums a
part of the products into scratch of its own, and a second root adds the slices in order: then the
order of the sum depends on the number of threads, never on their timing.
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.ir.nodes import (
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Program,
    Tensor,
)
from teir.passes.cache_blocks import FEWEST_COLUMNS
from teir.passes.chains import has_no_race
from teir.passes.cutting import cut, looped
from teir.passes.draft import Draft, Path, Siblings, below
from teir.passes.facts import Facts
from teir.passes.groups import Group, extent_of, grouped, kinds, with_axes, work_of
from teir.passes.slices import wants_slices, with_slices
from teir.passes.still_offsets import has_still_offsets

CHUNKS = 4
"""Pieces of work per thread, so that an uneven machine still shares evenly."""
_RUN = 16
"""The fewest elements of a part of an element-wise leaf."""


def parallelise(program: Program, facts: Facts) -> Program:
    """The program with parallel loops; unchanged for one thread."""
    if facts.threads == 1 or has_still_offsets(program):
        return program
    draft = Draft(program)
    scratch: list[Tensor] = list(program.scratch)
    roots = _shared(draft, facts, program.roots, (), scratch)
    return draft.finish(roots, tuple(scratch))


def _shared(
    draft: Draft, facts: Facts, nodes: Siblings, path: Path, scratch: list[Tensor]
) -> Siblings:
    changed: list[Node] = []
    for item in grouped(draft, nodes):
        leaves: Siblings = item.leaves if isinstance(item, Group) else (item,)
        if work_of(draft, leaves) < facts.threaded_work or _is_parallel(leaves):
            changed += leaves
        elif isinstance(item, Group):
            changed += _shared_group(draft, facts, item, path, scratch)
        elif isinstance(item, InvocationNode):
            changed += _shared_leaf(draft, facts, item, path)
        else:
            changed.append(_shared_loop(draft, facts, item, path, scratch))
    return tuple(changed)


def _is_parallel(nodes: Siblings) -> bool:
    return any(
        isinstance(node, IterationNode) and node.policy is Policy.PARALLEL for node in below(nodes)
    )


def _shared_loop(
    draft: Draft, facts: Facts, node: IterationNode, path: Path, scratch: list[Tensor]
) -> IterationNode:
    points = _parallel_points(draft, facts, node, path, CHUNKS * facts.threads)
    if points < facts.threads and not draft.axes[node.axis].is_sparse:
        children = _shared(draft, facts, node.children, (*path, node), scratch)
        if children != node.children:
            return replace(node, children=children)
    if points == 1:
        return node
    return _marked(draft, facts, node, path, CHUNKS * facts.threads)


def _may_share(draft: Draft, node: IterationNode, path: Path) -> bool:
    axis = draft.axes[node.axis]
    return axis.extent > 1 and not axis.is_sparse and has_no_race(draft, node, path)


def _inner(node: IterationNode) -> IterationNode | None:
    """The loop right inside, where the two may become one grid."""
    child = node.children[0]
    if len(node.children) > 1 or isinstance(child, InvocationNode) or child.guard or node.scratch:
        return None
    return child


def _parallel_points(
    draft: Draft, facts: Facts, node: IterationNode, path: Path, wanted: int
) -> int:
    """The points of the grid that starts at this loop; 1 where it may not be shared."""
    if wanted <= 1 or not _may_share(draft, node, path):
        return 1
    extent = draft.axes[node.axis].extent
    inner = _inner(node)
    if inner is None:
        return extent
    return extent * _parallel_points(draft, facts, inner, (*path, node), -(-wanted // extent))


def _marked(
    draft: Draft, facts: Facts, node: IterationNode, path: Path, wanted: int
) -> IterationNode:
    if wanted <= 1 or not _may_share(draft, node, path):
        return node
    inner = _inner(node)
    if inner is not None:
        rest = -(-wanted // draft.axes[node.axis].extent)
        node = replace(node, children=(_marked(draft, facts, inner, (*path, node), rest),))
    return replace(node, policy=Policy.PARALLEL)


def _shared_group(
    draft: Draft, facts: Facts, group: Group, path: Path, scratch: list[Tensor]
) -> Siblings:
    primitive = draft.primitives[group.main.primitive]
    if len(primitive.inputs) != 2 or any(leaf.guard for leaf in group.leaves):
        return group.leaves
    panel = facts.panel_rows(draft.tensors[primitive.output].data_type.accumulator.width)
    rows, columns = kinds(draft, primitive)
    batch = [name for name in primitive.c if draft.axes[name].strides[primitive.output]]
    if extent_of(draft, batch) >= facts.threads:
        axis = max(batch, key=lambda name: draft.axes[name].extent)
        return _grid(draft, group.leaves, [(axis, facts.threads, 1)])
    m, n = _longest(draft, rows), _longest(draft, columns)
    sides = [(m, panel), (n, FEWEST_COLUMNS)]
    units = [1 if axis is None else -(-draft.axes[axis].extent // unit) for axis, unit in sides]
    best: tuple[float, int] | None = None
    for across in range(1, facts.threads + 1):
        along = facts.threads // across
        if facts.threads % across or along > units[0] or across > units[1]:
            continue
        height = extent_of(draft, rows) / along
        edges = height + extent_of(draft, columns) / across
        if best is None or edges < best[0]:
            best = (edges, across)
    if best is None:
        if path == () and wants_slices(draft, group, facts.threads):
            nodes, partial = with_slices(draft, group, facts.threads)
            scratch.append(partial)
            return nodes
        return group.leaves
    counts = (facts.threads // best[1], best[1])
    lanes = (max(1, panel // 4), FEWEST_COLUMNS)
    cuts = [
        (axis, count, unit)
        for (axis, _), unit, count in zip(sides, lanes, counts, strict=True)
        if axis is not None and count > 1
    ]
    return _grid(draft, group.leaves, cuts)


def _longest(draft: Draft, axes: tuple[str, ...]) -> str | None:
    return max(axes, key=lambda name: draft.axes[name].extent, default=None)


def _shared_leaf(draft: Draft, facts: Facts, leaf: InvocationNode, path: Path) -> Siblings:
    """An element-wise leaf in parts along its longest axis."""
    primitive = draft.primitives[leaf.primitive]
    moving = [name for name in primitive.axes if draft.axes[name].strides[primitive.output]]
    axis = _longest(draft, tuple(moving))
    if primitive.operation is Operation.CONTRACTION or leaf.guard or axis is None:
        return (leaf,)
    if set(moving) != set(primitive.axes) or draft.axes[axis].extent < facts.threads:
        return (leaf,)
    shared = _grid(draft, (leaf,), [(axis, facts.threads, _RUN)])
    loops = [node for node in shared if isinstance(node, IterationNode)]
    return shared if all(has_no_race(draft, loop, path) for loop in loops) else (leaf,)


def _grid(
    draft: Draft, leaves: tuple[InvocationNode, ...], cuts: list[tuple[str, int, int]]
) -> Siblings:
    """The leaves in parallel loops over parts: (axis, threads along it, granule) each."""
    if not cuts:
        return leaves
    (axis, threads, granule), *rest = cuts
    nodes: Siblings = ()
    block = shared_block(draft.axes[axis].extent, threads, granule)
    if block == draft.axes[axis].extent:
        return _grid(draft, leaves, rest)
    for piece in cut(draft, axis, block):
        part = tuple(with_axes(draft, leaf, {axis: piece.inside}, ()) for leaf in leaves)
        nodes += looped(draft, piece.blocks, _grid(draft, part, rest), Policy.PARALLEL)
    return nodes


def shared_block(extent: int, threads: int, granule: int) -> int:
    """The block that lets ``threads`` finish an extent soonest, what remains done by one.

    Multiples of the granule are preferred, and among equals the most blocks, up to four per
    thread; less than a granule only where there is no more for every thread.
    """
    best = (extent, extent)
    for count in range(threads, CHUNKS * threads + 1):
        block = extent // count
        if block >= granule:
            block -= block % granule
        elif count > threads:
            break
        if block == 0:
            break
        best = min(best, (waited_for(extent, block, threads), block))
    return best[1]


def waited_for(extent: int, block: int, threads: int) -> int:
    """Indices until all blocks are done: those of one thread's blocks, then what remains."""
    return -(-(extent // block) // threads) * block + extent % block
