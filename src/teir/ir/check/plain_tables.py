"""Programs in flat tables, for the pass over plain programs: numbers looked up once.

The rules about names, values and primitives are looked at on the way; where one may be broken there
is no table.
"""

from __future__ import annotations

from functools import cache

import msgspec

from teir.dtypes import DataType
from teir.ir.check.collision import is_injective
from teir.ir.check.primitives import (
    expected_inputs,
    lacks_order,
    types_fit,
    writes_equal_values,
)
from teir.ir.check.resolved import WIDTHS
from teir.ir.lanes import LANES, is_lane_count
from teir.ir.limits import ENTRIES, SCHEDULE_DEPTH
from teir.ir.nodes import (
    LIMIT,
    Axis,
    Bytes,
    InvocationNode,
    Node,
    Operation,
    Primitive,
    Program,
)
from teir.ir.subnormals import SUBNORMALS, ZERO

_INDICES = frozenset(data_type for data_type in DataType if data_type.is_index)

Terms = tuple[tuple[int, int], ...]
"""(stride, extent) of what moves an address."""

Walk = tuple[int, Bytes, Bytes]
"""An axis: its extent, strides and offsets."""

Tile = tuple[str, int, int, Terms, bool]
"""What one invocation touches of a tensor: from the first byte on, to the end of the last element;
and whether it is read."""


class Leaf(msgspec.Struct, frozen=True, gc=False):
    """A primitive: its axes, and its tiles, the output last."""

    consumed: frozenset[str]
    tiles: tuple[Tile, ...]


class Schedule(msgspec.Struct, frozen=True, gc=False):
    """Nodes in program order, None where the innermost loop ends; tensors and owners of scratch."""

    events: list[Node | None]
    types: dict[str, DataType]
    owners: dict[str, str | None]
    widths: dict[str, int]


def flat_schedule(program: Program) -> Schedule | None:
    """The schedule in order; None where names repeat or limits are passed."""
    types: dict[str, DataType] = {}
    owners: dict[str, str | None] = {}
    tensors = len(program.tensors) + len(program.scratch)
    for tensor in program.tensors:
        types[tensor.name] = tensor.data_type
    for tensor in program.scratch:
        types[tensor.name] = tensor.data_type
        owners[tensor.name] = None
    events: list[Node | None] = []
    names: list[str] = []
    depth = 0
    stack: list[Node | None] = [*reversed(program.roots)]
    while stack:
        node = stack.pop()
        events.append(node)
        if node is None:
            depth -= 1
            continue
        names.append(node.name)
        if isinstance(node, InvocationNode):
            continue
        depth += 1
        if depth > SCHEDULE_DEPTH.largest or len(names) > ENTRIES.largest or not node.children:
            return None
        for tensor in node.scratch:
            types[tensor.name] = tensor.data_type
            owners[tensor.name] = node.name
            tensors += 1
        stack.append(None)
        stack.extend(reversed(node.children))
    if len(names) > ENTRIES.largest or len(set(names)) != len(names) or len(types) != tensors:
        return None
    widths = dict(zip(types, map(WIDTHS.__getitem__, types.values()), strict=True))
    is_dense = _INDICES.isdisjoint(types.values())
    return Schedule(events, types, owners, widths) if is_dense else None


def flat_walks(axes: tuple[Axis, ...], widths: dict[str, int]) -> dict[str, Walk] | None:
    """The axes by name; None where one is sparse or has a number that is not allowed."""
    walks = {}
    for axis in axes:
        extent, strides, offsets = axis.extent, axis.strides, axis.offsets
        if axis.segments or type(extent) is not int or not 0 < extent < LIMIT:
            return None
        for tensor, stride in strides.items():
            if type(stride) is not int or not 0 < stride < LIMIT or stride % widths[tensor]:
                return None
        for tensor, offset in offsets.items() if offsets else ():
            if type(offset) is not int or abs(offset) >= LIMIT or offset % widths[tensor]:
                return None
        walks[axis.name] = (extent, strides, offsets)
    return walks


def flat_leaf(primitive: Primitive, schedule: Schedule, walks: dict[str, Walk]) -> Leaf:
    """A primitive that keeps every rule, flat. Raises KeyError for another."""
    inputs, output = primitive.inputs, primitive.output
    names = primitive.c + primitive.m + primitive.n + primitive.k
    consumed = frozenset(names)
    types = list(map(schedule.types.__getitem__, (*inputs, output)))
    reached = list(map(walks.__getitem__, names))
    if len(consumed) != len(names) or not _is_right(primitive, types, reached):
        raise KeyError(primitive.name)
    is_contraction = primitive.operation is Operation.CONTRACTION
    moving, moved = [], []
    for extent, strides, offsets in reached:
        if extent > 1:
            moving.append((extent, strides))
        if offsets:
            moved.append(offsets)
    tiles = []
    for tensor in dict.fromkeys((*inputs, output)):
        begin, width, terms = 0, schedule.widths[tensor], []
        for offsets in moved:
            begin += offsets.get(tensor, 0)
        end = begin + width
        for extent, strides in moving:
            if tensor in strides:
                stride = strides[tensor]
                end += stride * (extent - 1)
                terms.append((stride, extent))
        is_read = is_contraction or tensor in inputs
        tiles.append((tensor, begin, end, tuple(terms), is_read))
    if tiles[-1][0] != output:
        # In place: the output is the last tile wherever it stands among the inputs.
        tiles.sort(key=lambda tile: tile[0] == output)
    if is_contraction or not writes_equal_values(primitive):
        _require_apart(reached[: len(names) - len(primitive.k)], tiles[-1])
    return Leaf(consumed, tuple(tiles))


def _require_apart(free: list[Walk], tile: Tile) -> None:
    """No two points of the axes meet in the output. Raises KeyError where that is not shown."""
    output, _, _, terms, _ = tile
    for extent, strides, _ in free:
        if extent > 1 and output not in strides:
            raise KeyError(output)
    if not is_injective(terms):
        raise KeyError(output)


def _is_right(primitive: Primitive, types: list[DataType], reached: list[Walk]) -> bool:
    """The rules about roles, inputs, types and metadata."""
    operation, declared = primitive.operation, primitive.data_type
    if operation is Operation.CONTRACTION:
        if primitive.output in primitive.inputs:
            return False
        if primitive.metadata and not _is_advised_right(primitive, types, reached):
            return False
    elif primitive.c or primitive.k:
        return False
    return (declared is None or declared in types) and _are_taken(operation, *types)


@cache
def _are_taken(operation: Operation, *types: DataType) -> bool:
    """The rules about the number of inputs and the types of operands."""
    return (
        expected_inputs(operation, len(types) - 1) is None
        and types_fit(operation, types)
        and not lacks_order(operation, types[-1])
    )


def _is_advised_right(primitive: Primitive, types: list[DataType], reached: list[Walk]) -> bool:
    """The rules about the metadata of a Contraction."""
    entries = dict(primitive.metadata)
    lanes, subnormals = entries.get(LANES), entries.get(SUBNORMALS)
    if subnormals is not None:
        return subnormals == ZERO and types[:-1] == [DataType.BF16] * 2 and lanes is None
    if lanes is None:
        return True
    return is_lane_count(lanes) and bool(primitive.k) and primitive.output not in reached[-1][1]
