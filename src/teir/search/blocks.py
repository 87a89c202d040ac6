"""The loops of one matrix-like step, from the reduction blocks to the leaf.

    reduction blocks { pack B; [pack A]; rows { [pack A]; columns { panels { zero; gemm }}}}

Rows are the loops over M, columns those over N. A that fits half of L2 is packed whole and the
columns go outside; else blocks of rows are packed one by one. The leaf is a Contraction M=[m],
N=[n], K=[outer, batch, k] after a Zero at the first reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.passes.extents import even_block
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import Piece, cut, pack_a, pack_b, wants_packed_a, wants_packed_b
from teir.search.shape import ProductShape, extent_of, some
from teir.search.step import Span

DEPTH = 256
"""Products per reduction block: a panel of A of this depth stays near the L1 cache."""
_COLUMNS = 12
"""The fewest columns of a block."""
_CHUNKS = 4
"""Chunks of work per thread, so that an uneven machine still shares evenly."""


class Sharing(Enum):
    """Which loops the threads share, the batch axes apart."""

    NONE = "none"
    ROWS = "rows"
    COLUMNS = "columns"


def sharing_of(shape: ProductShape, machine: Machine) -> Sharing:
    """Rows or columns, whichever has more tiles; none where the batch axes are enough."""
    if not _is_worth_sharing(shape, machine) or shares_batch(shape, machine):
        return Sharing.NONE
    panels = shape.rows // machine.panel_rows(shape.out.data_type.accumulator.width)
    columns = shape.columns // _COLUMNS
    if max(panels, columns) < machine.threads:
        return Sharing.NONE
    return Sharing.ROWS if panels >= min(columns, 4 * machine.threads) else Sharing.COLUMNS


def shares_batch(shape: ProductShape, machine: Machine) -> bool:
    """True where the batch axes alone give every thread something to do."""
    return _is_worth_sharing(shape, machine) and extent_of(shape.c) >= machine.threads


def _is_worth_sharing(shape: ProductShape, machine: Machine) -> bool:
    work = shape.rows * shape.columns * extent_of(shape.k) * extent_of(shape.c)
    return machine.threads > 1 and work >= machine.threaded_work


def depth_of(out: DataType) -> int:
    """Products per reduction block; narrow outputs are cut less: a cut needs a wide sum."""
    return DEPTH if out.accumulator is out else 8 * DEPTH


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows or the columns of a product: the tensor, outer loops, and the pieces of the tile."""

    tensor: str
    outer: tuple[Span, ...]
    pieces: tuple[Piece, ...]
    parallel: bool
    is_rows: bool


@dataclass(frozen=True, slots=True)
class ProductBlocks:
    """The loops of one contraction, from the reduction blocks to the leaf.

    ``first`` names the reduction axes iterated so far; it is None in a branch that never holds
    the first products of an output element.
    """

    emission: Emission
    shape: ProductShape
    machine: Machine
    sharing: Sharing

    def reductions(
        self,
        outside: tuple[Span, ...],
        inside: tuple[Span, ...],
        depth: int | None,
        first: tuple[str, ...] | None,
    ) -> Body:
        """Loops over the outer reductions, then blocks of ``depth`` of the only inner one."""
        if outside:
            return self._reduced(
                outside[0], first, lambda to: self.reductions(outside[1:], inside, depth, to)
            )
        if depth is None:
            return self.block(inside, first)
        outer, inner = inside[0].split(depth)
        body = self._reduced(outer, first, lambda to: self.block((inner,), to))
        if inside[0].extent % depth:
            body += self.block((inside[0].rest(outer.extent * depth),), None)
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
        """One reduction block: operands that are packed whole, then both sides."""
        shape = self.shape
        packs_a = shape.m is not None and wants_packed_a(shape, k, self.machine)
        before, columns, k = self._columns(k)
        if shape.m is not None and packs_a and self._fits_whole(k):
            packed = pack_a(self.emission, shape.a, shape.m_outer, shape.m, k, self.machine)
            rows = _Side(packed.tensor.name, packed.outer, packed.pieces, False, True)
            return before + packed.body + self._nest(columns, rows, packed.k, first)
        rows_parallel = self.sharing is Sharing.ROWS
        rows = _Side(
            shape.a.name, shape.m_outer, cut(shape.m, self._row_block(k)), rows_parallel, True
        )
        if packs_a:
            return before + self._packing_nest(rows, columns, k, first)
        if self._columns_outside(k):
            return before + self._nest(columns, rows, k, first)
        return before + self._nest(rows, columns, k, first)

    def _fits_whole(self, k: tuple[Span, ...]) -> bool:
        if self.sharing is Sharing.ROWS:
            return False
        step_bytes = extent_of(k) * self.shape.a.data_type.width
        return self.shape.rows * step_bytes <= self.machine.l2_bytes // 2

    def _columns_outside(self, k: tuple[Span, ...]) -> bool:
        """Unpacked A: the smaller operand is the one that is walked again and again."""
        if self.sharing is not Sharing.NONE:
            return self.sharing is Sharing.COLUMNS
        return self.shape.rows < self.shape.columns and self._fits_whole(k)

    def _row_block(self, k: tuple[Span, ...]) -> int:
        """Rows of A that half of L2 holds at this depth; fewer where threads share them."""
        shape = self.shape
        if shape.m is None:
            return 1
        step_bytes = extent_of(k) * shape.a.data_type.width
        panel = self.machine.panel_rows(shape.out.data_type.accumulator.width)
        largest = max(panel, self.machine.l2_bytes // 2 // step_bytes)
        if self.sharing is Sharing.ROWS:
            shares = -(-_CHUNKS * self.machine.threads // extent_of(shape.m_outer))
            largest = min(largest, max(panel, shape.m.extent // shares))
        return even_block(shape.m.extent, largest, panel)

    def _column_block(self, k: tuple[Span, ...]) -> int:
        """Columns of B that a quarter of L2 holds; fewer where threads share them."""
        shape = self.shape
        if shape.n is None:
            return 1
        step_bytes = extent_of(k) * shape.b.data_type.width
        largest = max(_COLUMNS, self.machine.l2_bytes // 4 // step_bytes)
        if self.sharing is Sharing.COLUMNS:
            shares = -(-_CHUNKS * self.machine.threads // extent_of(shape.n_outer))
            largest = min(largest, max(_COLUMNS, shape.n.extent // shares))
        return even_block(shape.n.extent, largest)

    def _columns(self, k: tuple[Span, ...]) -> tuple[Body, _Side, tuple[Span, ...]]:
        shape = self.shape
        block = self._column_block(k)
        parallel = self.sharing is Sharing.COLUMNS
        if shape.n is None or not wants_packed_b(shape, k):
            return (
                Body(),
                _Side(shape.b.name, shape.n_outer, cut(shape.n, block), parallel, False),
                k,
            )
        packed = pack_b(self.emission, shape.b, shape.n_outer, shape.n, k, block)
        side = _Side(packed.tensor.name, packed.outer, packed.pieces, parallel, False)
        return packed.body, side, packed.k

    def _nest(
        self, outside: _Side, inside: _Side, k: tuple[Span, ...], first: tuple[str, ...] | None
    ) -> Body:
        return self._around(
            outside,
            lambda outer_tile: self._around(
                inside,
                lambda inner_tile: self._leaf(
                    (outside, outer_tile), (inside, inner_tile), k, first
                ),
            ),
        )

    def _packing_nest(
        self, rows: _Side, columns: _Side, k: tuple[Span, ...], first: tuple[str, ...] | None
    ) -> Body:
        """Blocks of rows, each packed before the columns (or panels) that read it."""

        def packed_rows(tile: Span | None, then: Callable[[_Side, tuple[Span, ...]], Body]) -> Body:
            assert tile is not None
            packed = pack_a(self.emission, self.shape.a, (), tile, k, self.machine)
            panels = _Side(packed.tensor.name, (), packed.pieces, False, True)
            return packed.body + then(panels, packed.k)

        if columns.parallel:
            return self._around(
                columns,
                lambda n: self._around(
                    rows,
                    lambda m: packed_rows(
                        m,
                        lambda panels, depth: self._around(
                            panels,
                            lambda tile: self._leaf((columns, n), (panels, tile), depth, first),
                        ),
                    ),
                ),
            )
        return self._around(
            rows,
            lambda m: packed_rows(
                m, lambda panels, depth: self._nest(columns, panels, depth, first)
            ),
        )

    def _around(self, side: _Side, body: Callable[[Span | None], Body]) -> Body:
        def pieces() -> Body:
            nodes = Body()
            for piece in side.pieces:
                nodes += self.emission.loops(piece.loops, partial(body, piece.tile), side.parallel)
            return nodes

        return self.emission.loops(side.outer, pieces, side.parallel)

    def _leaf(
        self,
        first_side: tuple[_Side, Span | None],
        second_side: tuple[_Side, Span | None],
        k: tuple[Span, ...],
        first: tuple[str, ...] | None,
    ) -> Body:
        """Zero at the first reduction, then the Contraction of one tile."""
        if not first_side[0].is_rows:
            first_side, second_side = second_side, first_side
        (rows, m), (columns, n) = first_side, second_side
        out = self.shape.out.name
        roles = Roles(m=some(m), n=some(n))
        zero = Body()
        if first is not None:
            zero = self.emission.leaf(Operation.ZERO, (), out, roles, first=first)
        roles = replace(roles, k=k)
        return zero + self.emission.leaf(
            Operation.CONTRACTION,
            (rows.tensor, columns.tensor),
            out,
            roles,
            data_type=self.shape.a.data_type,
        )
