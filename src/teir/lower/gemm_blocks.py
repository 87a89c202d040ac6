"""The register blocks of one GEMM-shaped tile, in loops over cuts of rows and of columns."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.axes import TileAxis, wrap_in_loops
from teir.lower.blocking import BlockedTile, Blocking, Cut, choose_blocking, most_columns
from teir.lower.bringing import Brought, Marks, brought_rows
from teir.lower.contraction_tile import NO_TILE_HINTS, Accumulator, ContractionTile
from teir.lower.elementwise import lower_elementwise
from teir.lower.gemm_axes import GemmAxes
from teir.lower.gemm_call import BlockCall, BlockCalls, all_loops
from teir.lower.kernel_program import LONGEST_CALL, Address, Call, KernelNode
from teir.lower.parts import PartRows, is_near, part_rows, row_pieces
from teir.target import Isa

_SHORT_DEPTH = 128
"""Products per result up to which one call forms all columns of a few rows. Measured on Zen 4, sums
of 20 to 48 products: 0.91 to 1.0 of the time of one call each."""
_ASKING_DEPTH = 16
"""The same where blocks may ask for rows of the next tile, which repeated ones do not."""


class GemmBlocks(msgspec.Struct, frozen=True, gc=False):
    """Everything the blocks of one tile share."""

    tile: ContractionTile
    axes: GemmAxes
    operands: tuple[Address, ...]
    inside: tuple[TileAxis, ...]
    outside: tuple[TileAxis, ...]
    blocking: Blocking
    isa: Isa
    accumulator: Accumulator | None
    marks: Marks | None
    has_parts: bool = False
    """A is the room, which holds rows in parts."""

    def row_panel(self, cut: Cut) -> tuple[KernelNode, ...]:
        """The blocks of one cut of M: full panels in a loop, a partial last vector apart."""
        lanes = self.blocking.lanes
        is_last = cut is self.blocking.rows[-1]
        partial = is_last and self.blocking.last_lanes < lanes
        panel = self._panels(cut, cut.count - partial)
        nodes: tuple[KernelNode, ...] = ()
        if panel.extent:
            nodes = self._loop(panel, self._columns(cut, cut.start * lanes, masked=False))
        if partial:
            row = (cut.start + (cut.count - 1) * cut.size) * lanes
            if self.blocking.overlaps:
                row = self.blocking.total_rows - cut.size * lanes
            nodes += self._columns(cut, row, masked=True)
        return nodes

    def panels(self) -> tuple[KernelNode, ...]:
        """The blocks of all rows."""
        return tuple(node for cut in self.blocking.rows for node in self.row_panel(cut))

    def narrow_rows(self, rows: BlockedTile, start: int) -> tuple[KernelNode, ...]:
        """The blocks of the last few rows in vectors as narrow as they are."""
        blocks = replace(
            self,
            tile=replace(self.tile, hints=NO_TILE_HINTS),
            operands=tuple(
                replace(address, offset_bytes=address.offset_bytes + start * stride)
                for address, stride in zip(self.operands, self.axes.lanes.strides, strict=True)
            ),
            blocking=choose_blocking(rows, self.isa),
        )
        return blocks.panels()

    def _columns(self, rows: Cut, row: int, masked: bool) -> tuple[KernelNode, ...]:
        brought = self._brought(rows)
        if brought is not None:
            return self._bringing_columns(rows, row, masked, brought)
        nodes: tuple[KernelNode, ...] = ()
        for cut in self.blocking.columns:
            body = self._block(rows.size, cut, row, masked, self._brings(cut))
            nodes += body if self._repeats(cut) else self._loop(self._blocks_of(cut), body)
        return nodes

    def panels_in_parts(self, room: Address) -> tuple[KernelNode, ...]:
        """All blocks, after copies of the rows they read; not of a vector left over.

        Where the room would be large, one panel is copied at a time.
        """
        loops = all_loops(self.inside)
        is_whole = is_near(self.tile, self.axes, self._depth)
        rows = part_rows(self.tile, self.axes, self.operands[0], room, loops, is_whole)
        copies: tuple[KernelNode, ...] = ()
        products: tuple[KernelNode, ...] = ()
        for piece in row_pieces(self.blocking, is_whole):
            (cut,) = piece.blocking.rows
            if cut.size % 2:
                columns = self._blocking_of_one_vector().columns
                one = replace(self, blocking=replace(piece.blocking, columns=columns))
                products += one.row_panel(cut)
                continue
            blocks = self._in_room(room, rows, piece.blocking)
            copied, formed = rows.copies(cut, piece.blocking), blocks.row_panel(cut)
            if is_whole:
                copies, products = (*copies, *copied), (*products, *formed)
            else:
                panels = self._panels(cut, piece.panels)
                products += self._loop(panels, (*copied, *formed))
        return (*copies, *products)

    def packed_panels(self, room: Address) -> tuple[tuple[KernelNode, ...], tuple[KernelNode, ...]]:
        """Copies of all rows, and all panels for every block of columns."""
        loops = all_loops(self.inside)
        rows = part_rows(self.tile, self.axes, self.operands[0], room, loops, True)
        pieces = [piece.blocking for piece in row_pieces(self.blocking, True)]
        copies = tuple(node for one in pieces for node in rows.copies(one.rows[0], one))
        products: tuple[KernelNode, ...] = ()
        blocks = [self._in_room(room, rows, one) for one in pieces]
        for columns in self.blocking.columns:
            one = (Cut(columns.start, columns.size, 1),)
            body = tuple(
                node
                for some in blocks
                for node in replace(some, blocking=replace(some.blocking, columns=one)).panels()
            )
            products += self._loop(self._blocks_of(columns), body)
        return copies, products

    def _in_room(self, room: Address, rows: PartRows, blocking: Blocking) -> GemmBlocks:
        """Blocks of the one cut of rows that ``blocking`` has, which lie in the room."""
        return replace(
            self,
            axes=replace(self.axes, lanes=rows.lanes),
            operands=(room, *self.operands[1:]),
            inside=rows.reductions(blocking.rows[0].size * blocking.lanes),
            blocking=blocking,
            has_parts=True,
        )

    def _panels(self, cut: Cut, count: int) -> TileAxis:
        """The axis of ``count`` panels as high as those of ``cut``."""
        rows = cut.size * self.blocking.lanes
        return TileAxis(count, tuple(stride * rows for stride in self.axes.lanes.strides))

    def _blocking_of_one_vector(self) -> Blocking:
        vector = BlockedTile(
            rows=self.blocking.lanes,
            columns=self.axes.columns.extent,
            depth=self._depth,
            in_type=self.tile.in_type,
            out_type=self.tile.out_type,
            most_columns=most_columns(self.axes.columns.strides[1]),
        )
        return choose_blocking(vector, self.isa)

    def _bringing_columns(
        self, rows: Cut, row: int, masked: bool, brought: Brought
    ) -> tuple[KernelNode, ...]:
        """The blocks of columns of some rows, the first of which ask for parts of the next tile."""
        assert self.marks is not None
        source = self._source_ahead(row)
        nodes: tuple[KernelNode, ...] = ()
        part = 0
        for cut in self.blocking.columns:
            asking = min(cut.count, brought.parts - part)
            for whole in _split(cut, asking):
                axis = self._blocks_of(whole)
                body = self._block(rows.size, whole, row, masked, False)
                moved = self.operands
                if whole.start == cut.start and asking:
                    body = (brought.call(source, part, self.marks), *body)
                    axis = TileAxis(axis.extent, (*axis.strides, brought.part_bytes))
                    moved = (*moved, Address(slot=self.marks.moving, offset_bytes=0))
                nodes += wrap_in_loops((axis,) if whole.count > 1 else (), moved, body)
            part += asking
        return nodes

    def _blocks_of(self, cut: Cut) -> TileAxis:
        strides = tuple(stride * cut.size for stride in self.axes.columns.strides)
        return TileAxis(cut.count, strides)

    def _brought(self, rows: Cut) -> Brought | None:
        """What blocks of ``rows`` ask for, each a part; None where the first ones ask for all."""
        if self.marks is None or self.outside or not self._is_ahead:
            return None
        if any(self._repeats(cut) for cut in self.blocking.columns):
            return None
        row_bytes = rows.size * self.blocking.lanes * self.tile.in_type.width
        blocks = sum(cut.count for cut in self.blocking.columns)
        return brought_rows(row_bytes, self.inside, blocks)

    def _source_ahead(self, row: int) -> Address:
        """Where row ``row`` of the next tile lies in A."""
        a = self.operands[0]
        ahead = self.tile.ahead[1 if self.axes.swapped else 0]
        offset = a.offset_bytes + ahead + row * self.axes.lanes.strides[0]
        return Address(slot=a.slot, offset_bytes=offset)

    def _repeats(self, cut: Cut) -> bool:
        """True for blocks so short that their calls would show: one call forms them all."""
        most = _ASKING_DEPTH if self.marks is not None or self._is_ahead else _SHORT_DEPTH
        products = self._depth * self.axes.lanes.extent * self.axes.columns.extent
        is_short = not self.outside and self._depth <= most and products <= LONGEST_CALL
        return cut.count > 1 and is_short and not self.tile.flushes

    def _brings(self, cut: Cut) -> bool:
        """True for the first blocks of columns where the rows of the next tile are asked for."""
        return self._is_ahead and cut.start == 0 and not self._repeats(cut)

    @property
    def _is_ahead(self) -> bool:
        """True where the rows of the next tile are to be asked for, and can be."""
        place = 1 if self.axes.swapped else 0
        is_asked = self.tile.hints.prefetched[place] and self.tile.ahead[place] != 0
        is_adjacent = self.axes.lanes.strides[0] == self.tile.in_type.width
        return is_asked and is_adjacent and self.tile.in_type in (DataType.FP32, DataType.FP64)

    @property
    def _depth(self) -> int:
        """Products per result of one call."""
        depth = 1
        for axis in self.inside:
            depth *= axis.extent
        return depth

    def _loop(self, axis: TileAxis, body: tuple[KernelNode, ...]) -> tuple[KernelNode, ...]:
        if axis.extent == 1:
            return body
        return wrap_in_loops((axis,), self.operands, body)

    def _block(
        self, vectors: int, cut: Cut, row: int, masked: bool, brings: bool
    ) -> tuple[KernelNode, ...]:
        starts = zip(self.axes.lanes.strides, self.axes.columns.strides, strict=True)
        a, b, c = (
            Address(slot=address.slot, offset_bytes=address.offset_bytes + m * row + n * cut.start)
            for address, (m, n) in zip(self.operands, starts, strict=True)
        )
        if self.accumulator is None or not self.outside:
            accumulate = not (self.tile.from_zero and not self.outside)
            overlaps = masked and self.blocking.overlaps
            blocks = cut.count if self._repeats(cut) else 1
            block = BlockCall(
                vectors=vectors,
                columns=cut.size,
                masked=masked and not overlaps,
                accumulate=accumulate,
                blocks=blocks,
                brings=brings,
                keeps=overlaps and accumulate,
            )
            return self._reduce(self._calls.call(block, (a, b, c)))
        return self._through_accumulator(self.accumulator, vectors, cut.size, masked, (a, b, c))

    def _reduce(self, call: Call) -> tuple[KernelNode, ...]:
        return wrap_in_loops(self.outside, call.operands, (call,))

    def _through_accumulator(
        self,
        accumulator: Accumulator,
        vectors: int,
        columns: int,
        masked: bool,
        block: tuple[Address, Address, Address],
    ) -> tuple[KernelNode, ...]:
        """Widen the block of C, add every product to the wide copy, round it once."""
        a, b, c = block
        wide = Address(slot=accumulator.slot, offset_bytes=0)
        wide_type = self.tile.out_type.accumulator
        valid = (vectors - 1) * self.blocking.lanes + (
            self.blocking.last_lanes if masked else self.blocking.lanes
        )
        panel_bytes = vectors * self.blocking.lanes * wide_type.width
        near = TileAxis(valid, (self.axes.lanes.strides[2], wide_type.width))
        across = TileAxis(columns, (self.axes.columns.strides[2], panel_bytes))
        load = lower_elementwise(
            Operation.COPY, (near, across), (c, wide), (self.tile.out_type, wide_type), self.isa
        )
        turned = [TileAxis(axis.extent, axis.strides[::-1]) for axis in (near, across)]
        store = lower_elementwise(
            Operation.COPY, turned, (wide, c), (wide_type, self.tile.out_type), self.isa
        )
        widened = BlockCall(
            vectors=vectors,
            columns=columns,
            masked=masked,
            accumulate=True,
            wide_column_bytes=panel_bytes,
        )
        return (*load, *self._reduce(self._calls.call(widened, (a, b, wide))), *store)

    @property
    def _calls(self) -> BlockCalls:
        return BlockCalls(
            tile=self.tile,
            axes=self.axes,
            inside=self.inside,
            isa=self.isa,
            lanes=self.blocking.lanes,
            last_lanes=self.blocking.last_lanes,
            has_parts=self.has_parts,
        )


def _split(cut: Cut, count: int) -> Iterator[Cut]:
    """The first ``count`` pieces of a cut, and the others."""
    if count:
        yield Cut(cut.start, cut.size, count)
    if count < cut.count:
        yield Cut(cut.start + count * cut.size, cut.size, cut.count - count)
