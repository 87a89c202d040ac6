"""The tiles of a program as grids: what figures 10.7.1 and 10.7.2 of the specification draw.

Iterated axes index the tiles of a tensor, consumed axes span the inside of a tile. For a product of
two inputs the grids are placed so that M axes align the rows of in0 and out, N axes the columns of
in1 and out, and K axes connect the columns of in0 to the rows of in1. Axes of all three tensors
(batches) are drawn at index 0. Any other primitive gets one grid per tensor, side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from teir.ir.nodes import Axis, InvocationNode, IterationNode, Operation, Primitive, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorGrid:
    """The grid of one tensor: iterated axes by rows and columns, consumed axes inside a tile."""

    tensor: str
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    tile_rows: tuple[Axis, ...]
    tile_columns: tuple[Axis, ...]

    def tile_offset_bytes(self, row: int, column: int) -> int:
        """Where tile (row, column) starts, relative to tile (0, 0)."""
        return self._offset(self.rows, row) + self._offset(self.columns, column)

    def element_offset_bytes(self, row: int, column: int) -> int:
        """Where element (row, column) of a tile lies, relative to the tile's start."""
        return self._offset(self.tile_rows, row) + self._offset(self.tile_columns, column)

    def _offset(self, axes: tuple[Axis, ...], number: int) -> int:
        offset = 0
        for axis in reversed(axes):
            number, index = divmod(number, axis.extent)
            offset += axis.strides[self.tensor] * index
        return offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The grids of one invocation.

    ``is_product`` says that the three grids are aligned as in0 below left, in1 above right, out
    below right. ``batch`` holds the axes drawn at index 0.
    """

    primitive: Primitive
    grids: tuple[TensorGrid, ...]
    batch: tuple[Axis, ...]
    is_product: bool


def picture_of(program: Program) -> Picture | None:
    """The picture of the program's main invocation; None where it has none or is sparse.

    Main is the first Contraction, else the first invocation that is not a Zero.
    """
    primitives, axes = program.primitive_table(), program.axis_table()
    if any(axis.is_sparse for axis in program.axes):
        return None
    leaves = list(program.invocations())
    for wanted in ({Operation.CONTRACTION}, set(Operation) - {Operation.ZERO}, set(Operation)):
        for path, leaf in leaves:
            if primitives[leaf.primitive].operation in wanted:
                return _picture(path, leaf, primitives, axes)
    return None


def _picture(
    path: tuple[IterationNode, ...],
    leaf: InvocationNode,
    primitives: dict[str, Primitive],
    axes: dict[str, Axis],
) -> Picture:
    primitive = primitives[leaf.primitive]
    iterated = tuple(axes[node.axis] for node in path)
    return _product_picture(primitive, iterated, axes) or _plain_picture(primitive, iterated, axes)


def _product_picture(
    primitive: Primitive, iterated: tuple[Axis, ...], axes: dict[str, Axis]
) -> Picture | None:
    if primitive.operation is not Operation.CONTRACTION or len(primitive.inputs) != 2:
        return None
    in0, in1 = primitive.inputs
    sides: dict[tuple[bool, bool, bool], list[Axis]] = {}
    for axis in iterated:
        present = tuple(axis.strides[name] != 0 for name in (in0, in1, primitive.output))
        sides.setdefault((present[0], present[1], present[2]), []).append(axis)
    m, n, k, c = (
        tuple(sides.pop(key, ()))
        for key in (
            (True, False, True),
            (False, True, True),
            (True, True, False),
            (True, True, True),
        )
    )
    sides.pop((False, False, False), None)
    if sides:
        return None
    tile_m, tile_n, tile_k = (
        tuple(axes[name] for name in names) for names in (primitive.m, primitive.n, primitive.k)
    )
    grids = (
        TensorGrid(tensor=in0, rows=m, columns=k, tile_rows=tile_m, tile_columns=tile_k),
        TensorGrid(tensor=in1, rows=k, columns=n, tile_rows=tile_k, tile_columns=tile_n),
        TensorGrid(
            tensor=primitive.output, rows=m, columns=n, tile_rows=tile_m, tile_columns=tile_n
        ),
    )
    return Picture(primitive=primitive, grids=grids, batch=c, is_product=True)


def _plain_picture(
    primitive: Primitive, iterated: tuple[Axis, ...], axes: dict[str, Axis]
) -> Picture:
    tile_rows = tuple(axes[name] for name in (*primitive.c, *primitive.m, *primitive.k))
    tile_columns = tuple(axes[name] for name in primitive.n)
    half = (len(iterated) + 1) // 2
    grids = []
    for tensor in dict.fromkeys(primitive.operands):
        rows, columns = (
            tuple(axis for axis in some if axis.strides[tensor] != 0)
            for some in (iterated[:half], iterated[half:])
        )
        grids.append(
            TensorGrid(
                tensor=tensor,
                rows=rows,
                columns=columns,
                tile_rows=tuple(axis for axis in tile_rows if axis.strides[tensor] != 0),
                tile_columns=tuple(axis for axis in tile_columns if axis.strides[tensor] != 0),
            )
        )
    return Picture(primitive=primitive, grids=tuple(grids), batch=(), is_product=False)


def extent_of(axes: tuple[Axis, ...]) -> int:
    """The number of index combinations of ``axes``."""
    return prod(axis.extent for axis in axes)


def shown_indices(extent: int, most: int) -> tuple[int | None, ...]:
    """The indices that are drawn: all of them, or the first, a gap (None) and the last."""
    if extent <= most:
        return tuple(range(extent))
    return (*range(most - 2), None, extent - 1)
