"""Products of two-byte numbers whose factors are copied to FP32 first, piece by piece.

Where no instruction multiplies BF16 or FP16, a register block converts every vector of A at every
step, by the units that multiply: blocks of 4 x 6 reach 67 % of the peak on Golden Cove in BF16 and
31 in FP16. A factor that meets many others is better converted once. To the second cache what was
converted goes at 9 bytes a cycle, so pieces of a sum stay in the first one, unless very many meet:

    GemmBlock BF16(A, B -> C)    ->    Zero FP32(sums)
                                       Loop over pieces of the sum
                                         Copy BF16(A) -> FP32 rows
                                         Copy BF16(B) -> FP32 columns
                                         GemmBlock FP32(rows, columns -> sums)
                                       Copy FP32(sums) -> BF16 C

The products, their order and what is taken for zero are the same, so every bit is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import Operation
from teir.lower.axes import TileAxis, blocks_of, fuse_adjacent, wrap_in_loops
from teir.lower.contraction_tile import NO_TILE_HINTS, ContractionTile
from teir.lower.elementwise import lower_elementwise
from teir.lower.gemm import lower_gemm
from teir.lower.gemm_axes import GemmAxes, in_order
from teir.lower.kernel_program import Address, KernelNode, Storage
from teir.lower.slots import ScratchRoom
from teir.target import LINE_BYTES, Isa, in_lines, rows_apart

_WIDE = DataType.FP32
_WIDTH = _WIDE.width
_FEWEST_ROWS, _FEWEST_COLUMNS = 32, 8
_VECTOR = 16
"""Rows that are formed at once are a multiple of it, but for the last ones."""
_STEPS = 32
"""Adjacent steps of a piece of a sum are a multiple of it, but for the last ones."""


class _Reach(msgspec.Struct, frozen=True, gc=False):
    """The most rows and columns that are formed at once, and bytes of factors in FP32."""

    rows: int
    columns: int
    factor_bytes: int


_FIRST_CACHE = _Reach(96, 48, 24 << 10)
_SECOND_CACHE = _Reach(192, 192, 384 << 10)
_MANY = 96
"""Rows, and columns, from which on factors go to the second cache. Measured on Golden Cove:
tiles of 32 x 32 and 48 x 40 reach 71 and 74 % of the peak in the first, 61 and 66 in the second,
tiles of 168 x 168 reach 57 and 76."""


class _Scratch(msgspec.Struct, frozen=True, gc=False):
    """Where rows, columns and sums are in FP32, each in a slot of its own."""

    rows: Address
    columns: Address
    sums: Address


class _Product(msgspec.Struct, frozen=True, gc=False):
    """Some rows by some columns, sums in pieces of ``most_steps``.

    ``loops`` are the reductions, outermost first, with strides on A and B.
    """

    tile: ContractionTile
    axes: GemmAxes
    loops: tuple[TileAxis, ...]
    scratch: _Scratch
    most_steps: int
    rows: int
    columns: int
    isa: Isa

    def nodes(self, operands: tuple[Address, ...]) -> tuple[KernelNode, ...]:
        """The product of what begins at ``operands``: straight into C where one piece is all."""
        a, b, c = operands
        if self.most_steps >= prod(axis.extent for axis in self.loops):
            c_strides = self.axes.lanes.strides[2], self.axes.columns.strides[2]
            return self._piece(replace(self.tile, operands=operands), self.loops, c_strides)
        outside, pieces = _pieces_of_sum(self.loops, self.most_steps)
        summed = replace(
            self.tile, operands=(a, b, self.scratch.sums), out_type=_WIDE, from_zero=False
        )
        strides = (_WIDTH, self.rows * _WIDTH)
        formed: list[KernelNode] = []
        for piece in pieces:
            moved = _moved((a, b), piece.axis, piece.start)
            body = self._piece(
                replace(summed, operands=(*moved, summed.operands[2])), piece.inside, strides
            )
            formed += wrap_in_loops(_loop(piece.axis, piece.length, piece.count), moved, body)
        around = wrap_in_loops(outside, (a, b), tuple(formed))
        return (*self._first_sums(c), *around, *self._results(c))

    def _first_sums(self, c: Address) -> tuple[KernelNode, ...]:
        sums, there = self._sum_axes(), (self.tile.out_type, _WIDE)
        if self.tile.from_zero:
            axes = [TileAxis(axis.extent, axis.strides[:1]) for axis in sums]
            return lower_elementwise(Operation.ZERO, axes, (self.scratch.sums,), (_WIDE,), self.isa)
        axes = [TileAxis(axis.extent, axis.strides[::-1]) for axis in sums]
        return lower_elementwise(Operation.COPY, axes, (c, self.scratch.sums), there, self.isa)

    def _results(self, c: Address) -> tuple[KernelNode, ...]:
        back = (_WIDE, self.tile.out_type)
        return lower_elementwise(
            Operation.COPY, self._sum_axes(), (self.scratch.sums, c), back, self.isa
        )

    def _sum_axes(self) -> list[TileAxis]:
        """Columns and rows, with strides in scratch and on C."""
        c_m, c_n = self.axes.lanes.strides[2], self.axes.columns.strides[2]
        return [
            TileAxis(self.columns, (self.rows * _WIDTH, c_n)),
            TileAxis(self.rows, (_WIDTH, c_m)),
        ]

    def _piece(
        self, into: ContractionTile, inside: tuple[TileAxis, ...], c_strides: tuple[int, int]
    ) -> tuple[KernelNode, ...]:
        """Copies of the factors of a piece of the sum, then their products."""
        a, b, c = into.operands
        depth = prod(axis.extent for axis in inside)
        narrow = self.tile.in_type.width
        along = TileAxis(self.rows, (narrow, _WIDTH))
        row_axes = (*_in_scratch(inside, 0, self.rows * _WIDTH), along)
        b_n, b_k = rows_apart(depth * _WIDTH), _WIDTH
        if inside[-1].strides[1] != narrow:
            b_n, b_k = _WIDTH, in_lines(self.columns * _WIDTH)
        across = TileAxis(self.columns, (self.axes.columns.strides[1], b_n))
        steps = _in_scratch(inside, 1, b_k)
        column_axes = (across, *steps) if b_k == _WIDTH else (*steps, across)
        axes = GemmAxes(
            TileAxis(self.rows, (_WIDTH, 0, c_strides[0])),
            TileAxis(self.columns, (0, b_n, c_strides[1])),
            (),
            False,
        )
        wide = replace(
            into,
            reductions=(TileAxis(depth, (self.rows * _WIDTH, b_k, 0)),),
            operands=(self.scratch.rows, self.scratch.columns, c),
            in_type=_WIDE,
            hints=NO_TILE_HINTS,
        )
        return (
            *self._copy(row_axes, a, self.scratch.rows),
            *self._copy(column_axes, b, self.scratch.columns),
            *lower_gemm(wide, axes, self.isa, None, None, None),
        )

    def _copy(
        self, axes: Sequence[TileAxis], source: Address, room: Address
    ) -> tuple[KernelNode, ...]:
        types = (self.tile.in_type, _WIDE)
        fused = fuse_adjacent(axes)
        return lower_elementwise(Operation.COPY, fused, (source, room), types, self.isa)


def widens(tile: ContractionTile, axes: GemmAxes, isa: Isa) -> bool:
    """True where both factors of ``tile`` meet many others, and lie so that copying is fast."""
    if not isa.widens_factors or tile.in_type not in (DataType.BF16, DataType.FP16):
        return False
    if not tile.reductions:
        return False
    width = tile.in_type.width
    steps = in_order(tile.reductions[-1], axes.swapped)
    return (
        axes.lanes.strides[0] == width
        and axes.lanes.extent >= _FEWEST_ROWS
        and axes.columns.extent >= _FEWEST_COLUMNS
        and width in (steps.strides[1], axes.columns.strides[1])
    )


def lower_widened(
    tile: ContractionTile, axes: GemmAxes, isa: Isa, slots: ScratchRoom
) -> tuple[KernelNode, ...]:
    """Copies of factors and `GemmBlock` calls, in loops over what is near at once."""
    first, second, output = tile.operands
    operands = (second, first, output) if axes.swapped else (first, second, output)
    reductions = [in_order(axis, axes.swapped) for axis in tile.reductions]
    loops = tuple(TileAxis(axis.extent, axis.strides[:2]) for axis in reductions)
    is_large = min(axes.lanes.extent, axes.columns.extent) >= _MANY
    reach = _SECOND_CACHE if is_large else _FIRST_CACHE
    scratch = _scratch(slots, reach)
    rows = _even(axes.lanes.extent, reach.rows, _VECTOR)
    columns = _even(axes.columns.extent, reach.columns, 1)
    most_steps = reach.factor_bytes // (rows + columns) // _WIDTH
    nodes: list[KernelNode] = []
    for column, wide, groups in _pieces(axes.columns.extent, columns):
        at_column = _moved(operands, axes.columns, column)
        inner: list[KernelNode] = []
        for row, tall, panels in _pieces(axes.lanes.extent, rows):
            moved = _moved(at_column, axes.lanes, row)
            product = _Product(tile, axes, loops, scratch, most_steps, tall, wide, isa)
            inner += wrap_in_loops(_loop(axes.lanes, tall, panels), moved, product.nodes(moved))
        nodes += wrap_in_loops(_loop(axes.columns, wide, groups), at_column, tuple(inner))
    return wrap_in_loops(axes.loops, operands, tuple(nodes))


class _PieceOfSum(msgspec.Struct, frozen=True, gc=False):
    """``count`` pieces of ``axis``, from ``start`` on: so much of it, and all that is inside."""

    axis: TileAxis
    start: int
    length: int
    count: int
    within: tuple[TileAxis, ...]

    @property
    def inside(self) -> tuple[TileAxis, ...]:
        """The reductions of one piece."""
        return (TileAxis(self.length, self.axis.strides), *self.within)


def _pieces_of_sum(
    loops: tuple[TileAxis, ...], most: int
) -> tuple[tuple[TileAxis, ...], tuple[_PieceOfSum, ...]]:
    """The loops around pieces of at most ``most`` steps, fewer than there are, and these."""
    inside: list[TileAxis] = []
    steps = 1
    outside = list(loops)
    while steps * outside[-1].extent <= most:
        axis = outside.pop()
        inside.insert(0, axis)
        steps *= axis.extent
    axis = outside.pop()
    size = _even(axis.extent, most // steps, _STEPS if steps == 1 else 1)
    return tuple(outside), tuple(
        _PieceOfSum(axis, *piece, tuple(inside)) for piece in _pieces(axis.extent, size)
    )


def _in_scratch(
    inside: tuple[TileAxis, ...], operand: int, step_bytes: int
) -> tuple[TileAxis, ...]:
    """Reductions with strides on the operand and in scratch."""
    found = []
    for axis in reversed(inside):
        found.append(TileAxis(axis.extent, (axis.strides[operand], step_bytes)))
        step_bytes *= axis.extent
    return tuple(reversed(found))


def _scratch(slots: ScratchRoom, reach: _Reach) -> _Scratch:
    """Scratch of the thread, the same for all tiles of a program with this reach."""
    factors = reach.factor_bytes + max(reach.rows, reach.columns) * 2 * LINE_BYTES
    sizes = {"rows": factors, "columns": factors, "sums": reach.rows * reach.columns * _WIDTH}
    return _Scratch(*(_slot(slots, name, size) for name, size in sizes.items()))


def _slot(slots: ScratchRoom, name: str, size_bytes: int) -> Address:
    title = f"{size_bytes} bytes of {name} in FP32"
    found = [number for number, slot in enumerate(slots.slots) if slot.tensor == title]
    number = found[0] if found else slots.add(title, _WIDE, Storage.THREAD, size_bytes)
    return Address(slot=number, offset_bytes=0)


def _even(extent: int, most: int, multiple: int) -> int:
    """The length of the fewest equal pieces, a multiple of ``multiple`` where ``most`` lets it."""
    length = -(-extent // -(-extent // most))
    rounded = -(-length // multiple) * multiple
    return min(extent, rounded if rounded <= most else length)


def _pieces(extent: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Start, size and number of equal pieces, and of the one that is left over."""
    count, rest = divmod(extent, size)
    yield 0, size, count
    if rest:
        yield count * size, rest, 1


def _moved(operands: tuple[Address, ...], axis: TileAxis, start: int) -> tuple[Address, ...]:
    return tuple(
        replace(one, offset_bytes=one.offset_bytes + start * stride)
        for one, stride in zip(operands, axis.strides, strict=True)
    )


def _loop(axis: TileAxis, size: int, count: int) -> tuple[TileAxis, ...]:
    """The loop over pieces of an axis, where there are several."""
    if count == 1:
        return ()
    return (blocks_of(axis, count, size),)
