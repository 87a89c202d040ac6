"""Keep blocks of rows near, and let few columns at a time meet them, where the third cache is far.

    sequential m over m                    sequential m_1 over m_1
      sequential n over n                    sequential n over n
        gemm: gemm_tile            ->          sequential np over np_1
                                                 sequential m_2 over m_2
                                                   gemm: gemm_few_columns
                                               sequential m_2 over m_2
                                                 gemm: gemm_last_columns

For products of blocked matrices: loops over tiles whose rows are up to four whole vectors, and
both operands in short pieces. The columns of a tile are cut evenly for the register blocks, an
eighth of the second cache holds the rows of `m_2`, and results are asked for one tile ahead.
*Pack operands* then copies such rows once for all columns, and such columns once for all rows, side
by side: one stream beside that of the rows. Loops over sums around the tile alone become sums of
the tile, in the same order. Tiles of an output change places, which only free loops may
(`teir.passes.chains`); no sum does, and so no bit. It is the loop nest of Goto and van de Geijn
(ACM TOMS 34, 2008) with rows and columns changed, as in `teir.search.near_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from teir.ir.nodes import InvocationNode, Node, Policy, Program
from teir.passes.blocked_products import Sides, Tile, sides_of, tile_below
from teir.passes.cache_blocks import (
    near_rows,
    packs_few_columns,
    reduction_depth,
    register_columns,
    rows_fill_second_cache,
)
from teir.passes.chains import chain_below, free_loops, is_chained, rebuilt
from teir.passes.cutting import cut, cut_evenly, looped
from teir.passes.draft import Draft, Path, Siblings, change_siblings
from teir.passes.extents import even_block
from teir.passes.facts import Facts
from teir.passes.groups import extent_of, walked, with_axes
from teir.passes.still_offsets import has_still_offsets
from teir.target import MANY_REGISTERS

_FEW_COLUMNS = 8
_VECTORS = (2, 3)
"""Columns and vectors of a register block whose rows stay in the first cache."""


def keep_rows_near(program: Program, facts: Facts) -> Program:
    """The program with products of blocked matrices in that order; the same object without any."""
    is_known = facts.has_far_third_cache and facts.vector_registers >= MANY_REGISTERS
    if not is_known or has_still_offsets(program):
        return program
    draft = Draft(program)

    def change(nodes: Siblings, path: Path) -> Siblings:
        changed: list[Node] = []
        for node in nodes:
            nest = _nest_of(draft, facts, node, path)
            changed += (node,) if nest is None else nest.nodes()
        return tuple(changed)

    return draft.finish(change_siblings(program.roots, change))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    """Free loops around the tiles of a product.

    ``near`` tiles of rows stay in the second cache, ``most`` columns make a register block.
    """

    draft: Draft
    tile: Tile
    sides: Sides
    near: int
    most: int

    def nodes(self) -> Siblings:
        rows = self.sides.rows
        room, at = self.near, len(rows)
        while at and self.draft.axes[rows[at - 1]].extent <= room:
            at -= 1
            room //= self.draft.axes[rows[at]].extent
        inside = rows[at:]
        body: Siblings = ()
        if at and room > 1:
            at -= 1
            block = even_block(self.draft.axes[rows[at]].extent, room)
            for piece in cut(self.draft, rows[at], block):
                inner = self._columns((piece.inside, *inside))
                body += looped(self.draft, piece.blocks, inner, Policy.SEQUENTIAL)
        else:
            body = self._columns(inside)
        body = self._loops(rows[:at], body)
        around = self.sides.around
        return (rebuilt(around, body),) if around else body

    def _columns(self, rows: Sequence[str]) -> Siblings:
        body: Siblings = ()
        for piece in cut_evenly(self.draft, self.tile.column, self.most):
            axes = {self.tile.column: piece.inside}
            leaves = tuple(with_axes(self.draft, leaf, axes, ()) for leaf in self.tile.group.leaves)
            inner = self._loops(rows, leaves)
            body += looped(self.draft, piece.blocks, inner, Policy.SEQUENTIAL)
        return self._loops(self.sides.columns, body)

    def _loops(self, axes: Sequence[str], body: Siblings) -> Siblings:
        for axis in reversed(axes):
            body = looped(self.draft, axis, body, Policy.SEQUENTIAL)
        return body


def _nest_of(draft: Draft, facts: Facts, node: Node, path: Path) -> _Nest | None:
    """The nest that begins with ``node``; None where there is none, or it gains nothing."""
    if isinstance(node, InvocationNode) or node.guard or node.policy is Policy.PARALLEL:
        return None
    if path and is_chained(draft, path[-1], node):
        return None
    tile = tile_below(draft, node)
    if tile is None:
        return None
    chain = chain_below(node, draft)
    sides = sides_of(draft, chain, tile)
    if sides is None:
        return None
    height = draft.axes[tile.row].extent
    is_whole = height * tile.width % facts.vector_bytes == 0
    if not is_whole or height > facts.panel_rows(tile.width):
        return None
    most = register_columns(height * tile.width // facts.vector_bytes)
    if not _gains(draft, facts, tile, sides, most):
        return None
    if not {*sides.rows, *sides.columns} <= free_loops(draft, chain, path):
        return None
    near = near_rows(tile.row_bytes, facts.l2_bytes)
    if _stay_in_first_cache(draft, facts, tile, sides):
        near, most = 1, _FEW_COLUMNS
    return _Nest(draft=draft, tile=tile, sides=sides, near=near, most=most)


def _stay_in_first_cache(draft: Draft, facts: Facts, tile: Tile, sides: Sides) -> bool:
    """True where the rows of a tile, the columns that meet them and those that come next fill the
    first cache, and all columns are near: then rows stay and columns come, which are fewer bytes.

    Measured on Golden Cove, FP32, tiles of 32 x 32 with sums of 256: 91 instead of 88 % of the
    peak.
    """
    column_bytes = tile.depth * tile.width
    columns = extent_of(draft, (*sides.columns, tile.column))
    used = tile.row_bytes + 2 * _FEW_COLUMNS * column_bytes
    is_near = columns * column_bytes <= facts.l2_bytes // 2
    vectors = tile.row_bytes // (tile.depth * facts.vector_bytes)
    return vectors in _VECTORS and is_near and facts.l1_bytes // 2 < used <= facts.l1_bytes


def _gains(draft: Draft, facts: Facts, tile: Tile, sides: Sides, most: int) -> bool:
    """True for whole sums of large operands in short pieces, read often."""
    if 2 * tile.depth > 3 * reduction_depth(draft.tensors[tile.output].data_type):
        return False
    rows = extent_of(draft, (*sides.rows, tile.row))
    columns = extent_of(draft, (*sides.columns, tile.column))
    a = walked(draft, tile.a, (tile.row,), tile.summed, readers=columns)
    several = [name for name in tile.summed if draft.axes[name].extent > 1]
    b = walked(draft, tile.b, (tile.column,), several or tile.summed, readers=rows)
    few = replace(b, side=min(b.side, most))
    size_bytes = rows * tile.depth * tile.width
    caches = facts.l2_bytes, facts.l3_bytes
    fills = rows_fill_second_cache(a, size_bytes, *caches, facts.packing)
    return fills and packs_few_columns(few, *caches, facts.packing)
