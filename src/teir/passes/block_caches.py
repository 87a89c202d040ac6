"""Cut large products and transpositions into blocks for the caches.

    zero: zero_whole                       sequential loop_k over k_1
    gemm: gemm_whole                 ->      sequential loop_m over m_1
                                               sequential loop_n over n_1
                                                 sequential loop_m_2 over m_3
                                                   zero: zero_tile if first(k_1)
                                                   gemm: gemm_tile

Reductions, rows and columns are cut to the sizes of `teir.passes.cache_blocks`, and the rows of a
block that will be packed to panels of four vectors. What does not fill a block is a sibling branch.
Products that are small already stay, and those beside loops over fibres: blocks of what such loops
repeat took 11 to 16 % longer. A sum into a narrow output stays whole, for every cut would round it.

A Copy that is adjacent along one axis in its input and along another in its output is cut into
squares that fit the first cache. One of several megabytes stays whole: the lowering has a kernel
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from teir.ir.nodes import (
    GuardKind,
    GuardTerm,
    InvocationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
)
from teir.passes.cache_blocks import (
    TURNING_SIDE,
    WHOLE_PERMUTATION_BYTES,
    most_columns,
    most_rows,
    packs_lanes,
    reduction_depth,
)
from teir.passes.cutting import Piece, cut, looped
from teir.passes.draft import Draft, Path, Siblings, change_siblings
from teir.passes.extents import even_block
from teir.passes.facts import Facts
from teir.passes.groups import Group, extent_of, grouped, kinds, walked, with_axes
from teir.passes.near_rows import keep_rows_near
from teir.passes.still_offsets import has_still_offsets

_LANES = 16


def block_caches(program: Program, facts: Facts) -> Program:
    """The program with large Contractions and transposing copies in blocks, loops over the tiles of
    blocked matrices in the order of `teir.passes.near_rows`."""
    return cut_for_caches(keep_rows_near(program, facts), facts)


def cut_for_caches(program: Program, facts: Facts) -> Program:
    """The program with large Contractions and transposing copies in blocks, loops as they are."""
    if has_still_offsets(program):
        return program
    draft = Draft(program)

    def change(nodes: Siblings, path: Path) -> Siblings:
        if path and draft.walks_fibres(path[0]):
            return nodes
        changed: list[Node] = []
        for item in grouped(draft, nodes):
            if isinstance(item, Group):
                changed += _blocked_group(draft, facts, item)
            elif isinstance(item, InvocationNode):
                changed += _blocked_copy(draft, facts, item)
            else:
                changed.append(item)
        return tuple(changed)

    return draft.finish(change_siblings(program.roots, change))


@dataclass(frozen=True, slots=True)
class _Blocks:
    """What is left to cut, outermost first: axes with the blocks wanted of them."""

    draft: Draft
    group: Group
    reductions: tuple[tuple[str, int], ...]
    tiles: tuple[tuple[str, int], ...]

    def nodes(self) -> Siblings:
        return self._reduce(self.reductions, {}, (), (), has_first=True, has_last=True)

    def _reduce(
        self,
        left: Sequence[tuple[str, int]],
        axes: dict[str, str],
        first: tuple[GuardTerm, ...],
        last: tuple[GuardTerm, ...],
        *,
        has_first: bool,
        has_last: bool,
    ) -> Siblings:
        if not left:
            before = first if has_first else None
            return self._tile(self.tiles, axes, before, last if has_last else None)
        (axis, block), *rest = left
        pieces = cut(self.draft, axis, block)
        nodes: Siblings = ()
        for number, piece in enumerate(pieces):
            body = self._reduce(
                rest,
                {**axes, axis: piece.inside},
                (*first, *_terms(GuardKind.FIRST, piece)),
                (*last, *_terms(GuardKind.LAST, piece)),
                has_first=has_first and number == 0,
                has_last=has_last and number == len(pieces) - 1,
            )
            nodes += looped(self.draft, piece.blocks, body, Policy.SEQUENTIAL)
        return nodes

    def _tile(
        self,
        left: Sequence[tuple[str, int]],
        axes: dict[str, str],
        first: tuple[GuardTerm, ...] | None,
        last: tuple[GuardTerm, ...] | None,
    ) -> Siblings:
        if not left:
            return self._leaves(axes, first, last)
        (axis, block), *rest = left
        nodes: Siblings = ()
        for piece in cut(self.draft, axes.get(axis, axis), block):
            body = self._tile(rest, {**axes, axis: piece.inside}, first, last)
            nodes += looped(self.draft, piece.blocks, body, Policy.SEQUENTIAL)
        return nodes

    def _leaves(
        self,
        axes: dict[str, str],
        first: tuple[GuardTerm, ...] | None,
        last: tuple[GuardTerm, ...] | None,
    ) -> Siblings:
        nodes: list[Node] = []
        if first is not None:
            nodes += (with_axes(self.draft, leaf, axes, first) for leaf in self.group.before)
        nodes.append(with_axes(self.draft, self.group.main, axes, ()))
        if last is not None:
            nodes += (with_axes(self.draft, leaf, axes, last) for leaf in self.group.after)
        return tuple(nodes)


def _terms(kind: GuardKind, piece: Piece) -> tuple[GuardTerm, ...]:
    return () if piece.blocks is None else (GuardTerm(kind=kind, axis=piece.blocks),)


def _blocked_group(draft: Draft, facts: Facts, group: Group) -> Siblings:
    primitive = draft.primitives[group.main.primitive]
    if len(primitive.inputs) != 2:
        return group.leaves
    wanted = facts.reduction_block or reduction_depth(draft.tensors[primitive.output].data_type)
    reductions, depth = _depths(draft, primitive, wanted)
    tiles = _tiles(draft, facts, primitive, depth)
    cuts = (*reductions, *tiles)
    if all(draft.axes[name].extent <= block for name, block in cuts):
        return group.leaves
    return _Blocks(draft, group, reductions, tiles).nodes()


def _depths(
    draft: Draft, primitive: Primitive, wanted: int
) -> tuple[tuple[tuple[str, int], ...], int]:
    """The blocks of the reductions, outermost first, and the products inside one block."""
    output = primitive.output
    summed = [name for name in primitive.axes if not draft.axes[name].strides[output]]
    depth = extent_of(draft, summed)
    kind = draft.tensors[output].data_type
    if kind.accumulator is not kind:
        return (), depth
    cuts: list[tuple[str, int]] = []
    for at, name in enumerate(summed):
        extent = draft.axes[name].extent
        if 2 * depth <= 3 * wanted:
            break
        inside = extent_of(draft, summed[at + 1 :])
        block = even_block(extent, max(1, wanted // inside)) if inside < wanted else 1
        cuts.append((name, block))
        depth = block * inside
    return tuple(cuts), depth


def _tiles(
    draft: Draft, facts: Facts, primitive: Primitive, depth: int
) -> tuple[tuple[str, int], ...]:
    """Blocks of rows, of columns, and panels of rows, in this order."""
    rows, columns = kinds(draft, primitive)
    width = draft.width(primitive.inputs[0])
    panel = facts.panel_rows(draft.tensors[primitive.output].data_type.accumulator.width)
    step = depth * width
    cuts: list[tuple[str, int]] = []
    if rows:
        extent = draft.axes[rows[0]].extent
        others = extent_of(draft, rows[1:])
        block = even_block(extent, most_rows(step * others, panel, facts.l2_bytes), panel)
        cuts.append((rows[0], block))
    if columns:
        widest = max(columns, key=lambda name: draft.axes[name].extent)
        others = extent_of(draft, columns) // draft.axes[widest].extent
        extent = draft.axes[widest].extent
        largest = most_columns(extent, step * others, facts.l2_bytes)
        cuts.append((widest, even_block(extent, largest)))
    if rows and _will_be_packed(draft, facts, primitive, depth):
        cuts.append((rows[0], panel))
    return tuple(cuts)


def _will_be_packed(draft: Draft, facts: Facts, primitive: Primitive, depth: int) -> bool:
    """True where the rows of a block are copied to panels (`teir.passes.pack_operands`)."""
    rows, columns = kinds(draft, primitive)
    first, second = primitive.inputs
    lanes = first if draft.axes[rows[0]].strides[first] else second
    summed = [name for name in primitive.axes if not draft.axes[name].strides[primitive.output]]
    if not summed:
        return False
    walk = walked(draft, lanes, rows[:1], summed, readers=extent_of(draft, columns))
    return packs_lanes(msgspec.structs.replace(walk, depth=depth), facts.l1_bytes, facts.packing)


def _blocked_copy(draft: Draft, facts: Facts, leaf: InvocationNode) -> Siblings:
    """A transposing copy in squares, both sides of which stay in the first cache."""
    primitive = draft.primitives[leaf.primitive]
    if primitive.operation is not Operation.COPY or leaf.guard:
        return (leaf,)
    source, target = primitive.inputs[0], primitive.output
    adjacent = [
        [name for name in primitive.axes if draft.axes[name].strides[tensor] == draft.width(tensor)]
        for tensor in (source, target)
    ]
    if not adjacent[0] or not adjacent[1] or adjacent[0][0] == adjacent[1][0]:
        return (leaf,)
    near, across = adjacent[0][0], adjacent[1][0]
    tile_bytes = extent_of(draft, (near, across)) * draft.width(source)
    if 2 * tile_bytes <= facts.l1_bytes or tile_bytes >= WHOLE_PERMUTATION_BYTES:
        return (leaf,)
    side = max(4, min(TURNING_SIDE, facts.l1_bytes // 1024))
    extents = (draft.axes[near].extent, draft.axes[across].extent)
    height, width = (even_block(extent, side, min(side, _LANES)) for extent in extents)
    if (height, width) == extents:
        return (leaf,)
    nodes: Siblings = ()
    for row in cut(draft, near, height):
        inner: Siblings = ()
        for column in cut(draft, across, width):
            axes = {near: row.inside, across: column.inside}
            tile = with_axes(draft, leaf, axes, ())
            inner += looped(draft, column.blocks, (tile,), Policy.SEQUENTIAL)
        nodes += looped(draft, row.blocks, inner, Policy.SEQUENTIAL)
    return nodes
