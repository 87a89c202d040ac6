"""Loops over the tiles of a product of blocked matrices: what multiplies, and what each loop moves.

sequential m over m            over rows
  sequential n over n          over columns
    zero: zero_tile
    sequential k over k        over sums: they become the outermost sums of the tile
      gemm: gemm_tile
    relu: relu_tile
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.memory_hints import MemoryHints
from teir.ir.nodes import (
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
)
from teir.passes.chains import Chain
from teir.passes.draft import Draft, Siblings, below
from teir.passes.groups import Group, extent_of, grouped, kinds

_PLAIN = frozenset((DataType.FP32, DataType.FP64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A product of one axis of rows, adjacent in ``a`` and the output, and one of columns.

    ``group`` is the product with all its sums, which asks for its results, and what belongs to it.
    """

    draft: Draft
    group: Group
    a: str
    b: str
    output: str
    row: str
    column: str
    summed: tuple[str, ...]

    @property
    def width(self) -> int:
        """Bytes of one element of any operand."""
        return self.draft.width(self.output)

    @property
    def depth(self) -> int:
        """Products of one sum."""
        return extent_of(self.draft, self.summed)

    @property
    def row_bytes(self) -> int:
        """Those of the rows of one tile."""
        return self.depth * self.width * self.draft.axes[self.row].extent


@dataclass(frozen=True, slots=True)
class Sides:
    """The loops of a chain, outermost first: kept around, and the axes over rows and columns."""

    around: tuple[IterationNode, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]


def tile_below(draft: Draft, node: IterationNode) -> Tile | None:
    """The tile of the one product of plain numbers below; None where there is another thing."""
    primitive = _only_product(draft, node)
    if primitive is None:
        return None
    body: Siblings = (node,)
    while len(body) == 1 and isinstance(body[0], IterationNode):
        if not moves(draft, body[0].axis, primitive.output):
            break
        body = body[0].children
    items = tuple(grouped(draft, tuple(_with_sums(draft, child) for child in body)))
    if len(items) != 1 or not isinstance(items[0], Group):
        return None
    return _tile(draft, items[0])


def _only_product(draft: Draft, node: IterationNode) -> Primitive | None:
    leaves = [leaf for leaf in below((node,)) if isinstance(leaf, InvocationNode)]
    found = [draft.primitives[leaf.primitive] for leaf in leaves]
    products = [one for one in found if one.operation is Operation.CONTRACTION]
    if len(products) != 1 or any(leaf.guard for leaf in leaves):
        return None
    (primitive,) = products
    types = {draft.tensors[name].data_type for name in primitive.operands}
    is_plain = len(types) == 1 and types <= _PLAIN and not primitive.metadata and not primitive.c
    is_product = len(primitive.inputs) == 2 and len(set(primitive.operands)) == 3
    return primitive if is_plain and is_product else None


def _with_sums(draft: Draft, node: Node) -> Node:
    """The product below loops over its sums with these as its outermost ones, asking for results;
    other nodes as they are."""
    loops: list[str] = []
    leaf = node
    while isinstance(leaf, IterationNode):
        if len(leaf.children) != 1 or leaf.policy is Policy.PARALLEL or leaf.scratch:
            return node
        loops.append(leaf.axis)
        (leaf,) = leaf.children
    primitive = draft.primitives[leaf.primitive]
    if primitive.operation is not Operation.CONTRACTION:
        return node
    if any(draft.axes[name].is_sparse or moves(draft, name, primitive.output) for name in loops):
        return node
    hints = MemoryHints(streams=False, prefetched=frozenset((primitive.output,)))
    asking = replace(primitive, metadata=hints.metadata())
    return replace(leaf, primitive=draft.primitive(asking, k=(*loops, *primitive.k)))


def _tile(draft: Draft, group: Group) -> Tile | None:
    primitive = draft.primitives[group.main.primitive]
    rows, columns = kinds(draft, primitive)
    output = primitive.output
    summed = tuple(name for name in primitive.axes if not moves(draft, name, output))
    if len(rows) != 1 or len(columns) != 1 or len(summed) + 2 != len(primitive.axes):
        return None
    if not summed or not all(moves(draft, k, one) for k in summed for one in primitive.inputs):
        return None
    first, second = primitive.inputs
    a, b = (first, second) if moves(draft, rows[0], first) else (second, first)
    strides, width = draft.axes[rows[0]].strides, draft.width(output)
    if strides[a] != width or strides[output] != width:
        return None
    return Tile(
        draft=draft,
        group=group,
        a=a,
        b=b,
        output=output,
        row=rows[0],
        column=columns[0],
        summed=summed,
    )


def sides_of(draft: Draft, chain: Chain, tile: Tile) -> Sides | None:
    """What the loops of the chain move; None where they come in another order.

    What moves neither rows nor columns alone stands outside, or sums inside.
    """
    around: list[IterationNode] = []
    rows: list[str] = []
    columns: list[str] = []
    loops = list(chain.loops)
    while loops and not moves(draft, loops[-1].axis, tile.output):
        loops.pop()
    for loop in loops:
        is_row, is_column = (moves(draft, loop.axis, one) for one in (tile.a, tile.b))
        if is_row is is_column or not moves(draft, loop.axis, tile.output):
            if rows or columns:
                return None
            around.append(loop)
        else:
            (rows if is_row else columns).append(loop.axis)
    return Sides(tuple(around), tuple(rows), tuple(columns)) if rows and columns else None


def moves(draft: Draft, axis: str, tensor: str) -> bool:
    """True where an axis moves a tensor."""
    return draft.axes[axis].strides[tensor] != 0
