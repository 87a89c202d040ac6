"""The loops of one matrix-like step, from the reduction blocks to the leaf.

    reduction blocks { pack B; row blocks { pack A; rows and columns { zero; gemm }}}

Rows are the loops over M, columns those over N; what is packed, and which loops are outside, is a
`Choice`. The leaf is a Contraction M=[m], N=[n], K=[outer, batch, k] after a Zero at the first
reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import compress, repeat

import msgspec
from msgspec import structs

from teir.dtypes import DataType
from teir.ir.memory_hints import NO_HINTS, MemoryHints
from teir.ir.nodes import Operation
from teir.passes.extents import even_block
from teir.search.choice import Choice, Order, Packing, Sharing
from teir.search.emission import Body, Emission, Roles
from teir.search.packed_rows import pack_a
from teir.search.packing import Block, Packed, Piece, cut, pack_b
from teir.search.reductions import Reductions
from teir.search.shape import ProductShape, extent_of
from teir.search.step import Span

_WHOLE_LINES = (DataType.FP32, DataType.FP64)
"""Types of which outputs are written in whole lines of memory."""
_FEW_SUMS = 128
"""Products per result up to which lines are written often."""
_SHARED_POINTS = 32
"""Iterations of shared loops from which the loops inside them need not be shared."""


class _Side(msgspec.Struct, frozen=True, gc=False):
    """The rows or the columns of a product: the tensor, outer loops, and the pieces of the tile."""

    tensor: str
    outer: tuple[Span, ...]
    pieces: tuple[Piece, ...]
    is_rows: bool


class _Level(msgspec.Struct, frozen=True, gc=False):
    """One level of the nest: the outer loop ``span`` of a side, or (None) its pieces."""

    side: _Side
    span: Span | None


class _Tiles(msgspec.Struct, frozen=True, gc=False):
    """What the loops have fixed so far: the tile of each side."""

    m: tuple[Span, ...]
    n: tuple[Span, ...]


class ProductBlocks(msgspec.Struct, frozen=True, gc=False):
    """The loops of one contraction, from the reduction blocks to the leaf.

    ``first`` names the reduction axes iterated so far; it is None in a branch that never holds
    the first products of an output element. ``whole_lines``: steps of packed rows begin with lines.
    ``turns_columns``: the factors of a packed column lie side by side even where columns did.
    ``is_rest``: these are the rows that shared blocks of rows leave, shared from inside. ``depth``:
    what is packed at once is summed in blocks of so many indices of the first reduction.
    ``batches``: those inside the blocks of reductions.
    """

    emission: Emission
    shape: ProductShape
    choice: Choice
    whole_lines: bool
    turns_columns: bool
    is_rest: bool = False
    depth: int | None = None
    batches: tuple[Span, ...] = ()

    def reductions(self, reductions: Reductions, first: tuple[str, ...] | None) -> Body:
        """Loops over the outer reductions, then over the blocks of the one that is cut."""
        if reductions.outside:
            axis, *others = reductions.outside
            rest = structs.replace(reductions, outside=tuple(others))
            return self._reduced(axis, first, lambda to: self.reductions(rest, to))
        cut_axis, inside = reductions.cut, reductions.inside
        if cut_axis is None:
            return self.block(inside, first)
        is_packed = self.shape.m is not None and self.choice.packed_a is not Packing.NONE
        size = reductions.packed_size if is_packed else reductions.size
        blocks = structs.replace(self, depth=reductions.size if size > reductions.size else None)
        body = Body()
        if is_packed and reductions.lead:
            head = Span(cut_axis.label, reductions.lead, cut_axis.strides, cut_axis.offsets)
            body += structs.replace(self, depth=head.extent).block((head, *inside), first)
            cut_axis, first = cut_axis.rest(head.extent), None
        outer, inner = cut_axis.split(size)
        body += self._reduced(outer, first, lambda to: blocks.block((inner, *inside), to))
        done = outer.extent * size
        if done < cut_axis.extent:
            body += blocks.block((cut_axis.rest(done), *inside), None)
        return body

    def _reduced(
        self,
        axis: Span,
        first: tuple[str, ...] | None,
        body: Callable[[tuple[str, ...] | None], Body],
    ) -> Body:
        return self.emission.loop(
            axis, lambda name: body(None if first is None else (*first, name))
        )

    def block(self, k: tuple[Span, ...], first: tuple[str, ...] | None) -> Body:
        """One reduction block, of every batch inside it."""
        if self.batches:
            alone = structs.replace(self, batches=())
            return self.emission.loops(self.batches, partial(alone.block, k, first), False)
        # Operands that are packed whole, then both sides.
        shape, choice = self.shape, self.choice
        if shape.n is not None and choice.packed_b is Packing.BLOCKS:
            return self._column_blocks(shape.n, k, first)
        before, columns, k = self._columns(k)
        if shape.m is None or choice.packed_a is not Packing.BLOCKS:
            packing, rows, k = self._all_rows(k)
            return before + packing + self._nest(rows, columns, k, first)
        return before + self._row_blocks(
            shape.m,
            lambda blocks, outer, m: blocks._packed_rows(outer, m, columns, k, first),
        )

    def _column_blocks(self, n: Span, k: tuple[Span, ...], first: tuple[str, ...] | None) -> Body:
        """The rows, then every block of columns packed before the rows meet it."""
        shape, choice = self.shape, self.choice
        before, rows, k = self._all_rows(k)

        def packed_block(tile: Span) -> Body:
            packed = self._pack_columns((), tile, k, False)
            columns = _Side(packed.tensor.name, packed.outer, packed.pieces, False)
            return packed.body + self._nest(rows, columns, packed.k, first)

        return before + self.emission.loops(
            shape.n_outer,
            lambda: self.emission.blocks(n, choice.column_block, packed_block),
            False,
        )

    def _row_blocks(
        self, m: Span, then: Callable[[ProductBlocks, tuple[Span, ...], Span], Body]
    ) -> Body:
        """``then`` for every block of rows: inner loops of the block, and its axis of lanes."""
        parallel = self.choice.sharing is Sharing.ROWS
        outer, room = self.shape.m_outer, self.choice.row_block // m.extent
        if room == 0:
            return self.emission.loops(
                outer,
                partial(
                    self._shared_blocks,
                    m,
                    self.choice.row_block,
                    lambda blocks, tile: then(blocks, (), tile),
                ),
                parallel,
            )
        inside: tuple[Span, ...] = ()
        while outer and outer[-1].extent <= room:
            room //= outer[-1].extent
            inside = (outer[-1], *inside)
            outer = outer[:-1]
        if not outer or room < 2:
            return self.emission.loops(outer, partial(then, self, inside, m), parallel)
        together = max(1, self.choice.panel // m.extent) if not inside else 1
        last, size = outer[-1], even_block(outer[-1].extent, room, min(together, room))
        return self.emission.loops(
            outer[:-1],
            partial(
                self._shared_blocks,
                last,
                size,
                lambda blocks, tile: then(blocks, (tile, *inside), m),
            ),
            parallel,
        )

    def _shared_blocks(
        self, span: Span, size: int, then: Callable[[ProductBlocks, Span], Body]
    ) -> Body:
        """``then`` for every block; threads that share the blocks share the rest from inside."""
        if self.choice.sharing is not Sharing.ROWS:
            return self.emission.blocks(span, size, partial(then, self))
        rest = structs.replace(self, is_rest=True)
        count, left = divmod(span.extent, size)
        if count <= 1:
            return self.emission.blocks(span, size, partial(then, rest))
        whole = Span(span.label, count * size, span.strides, span.offsets)
        nodes = self.emission.blocks(whole, size, partial(then, self), True)
        return nodes + then(rest, span.rest(count * size)) if left else nodes

    def _packed_rows(
        self,
        outer: tuple[Span, ...],
        m: Span,
        columns: _Side,
        k: tuple[Span, ...],
        first: tuple[str, ...] | None,
    ) -> Body:
        packing, rows, k = self._pack_rows(outer, m, k)
        return packing + self._nest(rows, columns, k, first)

    def _all_rows(self, k: tuple[Span, ...]) -> tuple[Body, _Side, tuple[Span, ...]]:
        shape, choice = self.shape, self.choice
        if shape.m is not None and choice.packed_a is not Packing.NONE:
            return self._pack_rows(shape.m_outer, shape.m, k)
        pieces = cut(shape.m, choice.row_block)
        return Body(), _Side(shape.a.name, shape.m_outer, pieces, True), k

    def _pack_rows(
        self, outer: tuple[Span, ...], m: Span, k: tuple[Span, ...]
    ) -> tuple[Body, _Side, tuple[Span, ...]]:
        shape, choice = self.shape, self.choice
        is_asked_for = choice.prefetches_packed or self.depth is not None
        asked = frozenset((shape.a.name,))
        hints = MemoryHints(streams=False, prefetched=asked) if is_asked_for else NO_HINTS
        block = Block(shape.a, outer, m, k, self._shares_levels, hints)
        panel, out = choice.panel, shape.out.name
        packed = pack_a(self.emission, block, panel, out, self._turns_rows, self.whole_lines)
        return packed.body, _Side(packed.tensor.name, packed.outer, packed.pieces, True), packed.k

    @property
    def _turns_rows(self) -> bool:
        """True where writing rows of few sums in whole lines is a large part of the work.

        Not of operands that are packed a part at a time: they come from memory, once or twice.
        """
        shape, out, choice = self.shape, self.shape.out, self.choice
        assert shape.m is not None
        is_plain = shape.a.data_type is out.data_type and out.data_type in _WHOLE_LINES
        is_near = choice.packed_a is choice.packed_b is Packing.WHOLE and self.depth is None
        is_far = choice.streams and choice.order is Order.OUTPUT and not self._shares_levels
        is_along = shape.m.stride(out.name) == out.data_type.width
        return is_plain and is_near and is_far and is_along and extent_of(shape.k) <= _FEW_SUMS

    def _columns(self, k: tuple[Span, ...]) -> tuple[Body, _Side, tuple[Span, ...]]:
        shape, block = self.shape, self.choice.column_block
        if shape.n is None or self.choice.packed_b is Packing.NONE:
            return Body(), _Side(shape.b.name, shape.n_outer, cut(shape.n, block), False), k
        is_shared = self.choice.sharing is not Sharing.NONE
        packed = self._pack_columns(shape.n_outer, shape.n, k, is_shared)
        side = _Side(packed.tensor.name, packed.outer, packed.pieces, False)
        return packed.body, side, packed.k

    def _pack_columns(
        self, outer: tuple[Span, ...], n: Span, k: tuple[Span, ...], is_shared: bool
    ) -> Packed:
        block = Block(self.shape.b, outer, n, k, is_shared)
        return pack_b(self.emission, block, self.choice.column_block, self.turns_columns)

    def _nest(
        self, rows: _Side, columns: _Side, k: tuple[Span, ...], first: tuple[str, ...] | None
    ) -> Body:
        if self.depth is not None and self.depth < k[0].extent:
            block = structs.replace(self, depth=None)
            outer, inner = k[0].split(self.depth)
            return self._reduced(
                outer, first, lambda to: block._nest(rows, columns, (inner, *k[1:]), to)
            )
        levels, points = self._levels(rows, columns), 1 if self._shares_levels else _SHARED_POINTS
        return self._walk(levels, _Tiles((), ()), (rows, columns), k, first, points)

    def _levels(self, rows: _Side, columns: _Side) -> tuple[_Level, ...]:
        """The loops of both sides, outermost first."""
        order = self.choice.order
        sides = (columns, rows) if order is Order.COLUMNS else (rows, columns)
        levels: list[_Level] = []
        for side in sides:
            levels += map(_Level, repeat(side), (*side.outer, None))
        if order in (Order.OUTPUT, Order.LINES):
            levels.sort(key=self._reach, reverse=True)
        return tuple(levels)

    @property
    def _shares_levels(self) -> bool:
        """True where threads share the loops of the nest, not those over blocks of rows."""
        sharing = self.choice.sharing
        if sharing is not Sharing.ROWS:
            return sharing is Sharing.COLUMNS
        return self.choice.packed_a is not Packing.BLOCKS or self.is_rest

    def _reach(self, level: _Level) -> int:
        """How far one step of a level moves the output; blocks of columns are innermost where
        lines are not to be shared.

        So what a tile asks for ahead is whole columns further on, not rows of its own columns.
        """
        side, span = level.side, level.span
        if span is None:
            if not side.is_rows and self.choice.order is Order.OUTPUT:
                return 0
            loops = side.pieces[0].loops
            span = loops[0] if loops else side.pieces[0].tile
        return 0 if span is None else span.stride(self.shape.out.name)

    def _walk(
        self,
        levels: tuple[_Level, ...],
        tiles: _Tiles,
        sides: tuple[_Side, _Side],
        k: tuple[Span, ...],
        first: tuple[str, ...] | None,
        points: int,
    ) -> Body:
        """The nest below ``points`` iterations of shared loops; from `_SHARED_POINTS` on no more
        are shared."""
        if not levels:
            return self._leaf(tiles, sides, k, first)
        level, rest = levels[0], levels[1:]
        parallel = points < _SHARED_POINTS
        if (span := level.span) is not None:
            within = points * span.extent
            return self.emission.loops(
                (span,), partial(self._walk, rest, tiles, sides, k, first, within), parallel
            )
        nodes = Body()
        for piece in level.side.pieces:
            m, n = (piece.inside, tiles.n) if level.side.is_rows else (tiles.m, piece.inside)
            inside = _Tiles(m, n)
            within = points * extent_of(piece.loops)
            below = partial(self._walk, rest, inside, sides, k, first, within)
            nodes += self.emission.loops(piece.loops, below, parallel) if piece.loops else below()
        return nodes

    def _leaf(
        self,
        tiles: _Tiles,
        sides: tuple[_Side, _Side],
        k: tuple[Span, ...],
        first: tuple[str, ...] | None,
    ) -> Body:
        """Zero at the first reduction, then the Contraction of one tile."""
        rows, columns = sides
        out = self.shape.out.name
        zero = Body()
        if first is not None:
            roles = Roles(m=tiles.m, n=tiles.n)
            zero = self.emission.leaf(Operation.ZERO, (), out, roles, first=first)
        return zero + self.emission.leaf(
            Operation.CONTRACTION,
            (rows.tensor, columns.tensor),
            out,
            Roles(m=tiles.m, n=tiles.n, k=k),
            data_type=self.shape.a.data_type,
            flushes=self.shape.a.data_type is DataType.BF16,
            hints=self._hints(rows.tensor, columns.tensor),
        )

    def _hints(self, rows: str, columns: str) -> MemoryHints:
        choice = self.choice
        names = (rows, columns, self.shape.out.name)
        asked = (choice.prefetches_a, choice.prefetches_b, choice.prefetches_out)
        return MemoryHints(streams=choice.streams, prefetched=frozenset(compress(names, asked)))
