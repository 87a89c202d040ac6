"""The meaning of a TEIR program: a slow, clear interpreter over byte buffers.

Everything else in this package is compared with this file. It follows the specification word by
word: the address formula of section 10.4, guards and order as written (section 10.2). An axis
contributes ``offset + stride * index`` once per tensor when an ancestor iterates it, and its
offset once when the primitive consumes it. ``parallel`` nodes run in an arbitrary order drawn from
``seed``. Scratch is filled with NaN whenever it becomes undefined. `teir.ir.evaluate_primitive`
reads and writes the tiles; the last word on what the primitives compute is
`teir.ir.tile_arithmetic`.

Sparse axes: iteration visits the positions of the segment; the coordinate loaded from ``crd`` is
the index for every tensor except ``crd`` itself and the ``by_position`` tensors, which are
addressed with the position. ``first`` and ``last`` speak of the running number of the visit.

A checked program never fails here. An unchecked one may, with an exception, but no byte outside
the given buffers is read or written.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

import msgspec
import numpy as np

from teir.ir.evaluate_primitive import Leaf, leaf_of
from teir.ir.lanes import fibre_lanes
from teir.ir.nodes import (
    Axis,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Policy,
    Primitive,
    Program,
    Segment,
    Tensor,
)
from teir.ir.part_windows import Window, windows_of
from teir.ir.tile_arithmetic import Tile, contract, convert
from teir.ir.tile_memory import Buffer, TensorMemory, operand_memory, scratch_memory


def evaluate(
    program: Program,
    operands: Mapping[str, Buffer],
    *,
    seed: int = 0,
    bases: Mapping[str, int] | None = None,
) -> None:
    """Run ``program`` on ``operands`` in place.

    ``operands`` maps each tensor to a contiguous array of any shape and type: its bytes are the
    tensor's memory. ``bases`` gives the byte inside that memory where a tensor's base address
    lies, 0 where it names none. ``seed`` fixes the order of ``parallel`` iterations.

    Raises `LookupError` for a missing operand and for an address outside its buffer, `ValueError`
    for an operand that is not contiguous and for arithmetic a type does not have.
    """
    memory = {
        tensor.name: operand_memory(tensor, operands, (bases or {}).get(tensor.name, 0))
        for tensor in program.tensors
    }
    _Run(program, memory, random.Random(seed)).run()


class _Visit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One iteration of one axis: the ``number``-th of ``count``."""

    axis: Axis
    number: int
    count: int
    coordinate: int
    positions: Mapping[str, int]
    """The index of the tensors that are addressed by position."""

    def bytes_on(self, tensor: str) -> int:
        index = self.positions.get(tensor, self.coordinate)
        return self.axis.offsets.get(tensor, 0) + self.axis.strides.get(tensor, 0) * index


@dataclass(frozen=True, slots=True)
class _Place:
    """The iterations around a node, and what they add to the address of each tensor."""

    visits: tuple[_Visit, ...] = ()
    addresses: Mapping[str, int] = field(default_factory=dict)
    """Bytes; 0 for a tensor that is not there."""

    def inside(self, visit: _Visit) -> _Place:
        """Section 10.4, without the base."""
        addresses = dict(self.addresses)
        for tensor in visit.axis.strides.keys() | visit.axis.offsets.keys():
            addresses[tensor] = addresses.get(tensor, 0) + visit.bytes_on(tensor)
        return _Place((*self.visits, visit), addresses)

    def address(self, tensor: str) -> int:
        return self.addresses.get(tensor, 0)


class _Run:
    """One run: the program's tables, the memory, the order of parallel iterations."""

    def __init__(
        self, program: Program, memory: dict[str, TensorMemory], order: random.Random
    ) -> None:
        self._program = program
        self._axes = program.axis_table()
        self._primitives = program.primitive_table()
        self._memory = memory | {
            tensor.name: scratch_memory(program, tensor, memory) for tensor in _scratch(program)
        }
        self._leaves: dict[str, Leaf] = {}
        self._order = order
        self._window: Window | None = None

    def run(self) -> None:
        self._undefine(self._program.scratch)
        types = {name: one.data_type for name, one in self._memory.items()}
        for root in self._program.roots:
            for window in windows_of(root, self._axes, self._primitives, types):
                self._window = window
                self._enter(root, _Place())

    def _enter(self, node: Node, place: _Place) -> None:
        if not all(_holds(term, place) for term in node.guard):
            return
        match node:
            case InvocationNode():
                if self._window is None or self._window.runs(node):
                    self._leaf(node.primitive).invoke(place.addresses)
            case IterationNode():
                self._iterate(node, place)
            case _:
                assert_never(node)

    def _iterate(self, node: IterationNode, place: _Place) -> None:
        visits = list(self._visits(self._axes[node.axis], place))
        window = self._window
        if window is not None and window.chooses_fibres(node):
            walked = self._axes[window.nest.walk.axis]
            visits = [one for one in visits if any(self._visits(walked, place.inside(one)))]
        if node.policy is Policy.PARALLEL:
            self._order.shuffle(visits)
        child = node.children[0]
        if isinstance(child, InvocationNode):
            primitive = self._primitives[child.primitive]
            if fibre_lanes(primitive) is not None:
                self._sum(primitive, place, visits)
                return
        for visit in visits:
            self._undefine(node.scratch)
            inside = place.inside(visit)
            for child in node.children:
                self._enter(child, inside)

    def _visits(self, axis: Axis, place: _Place) -> Iterator[_Visit]:
        if not axis.is_sparse:
            for index in range(axis.extent):
                yield _Visit(
                    axis=axis, number=index, count=axis.extent, coordinate=index, positions={}
                )
            return
        levels = [self._walk(axis, segment, place) for segment in axis.segments]
        shared = [c for c in levels[0] if all(c in level for level in levels[1:])]
        if len(levels) > 1:
            shared.sort()
        if self._window is not None and self._window.cuts(axis):
            shared = [c for c in shared if c in self._window.coordinates]
        for number, coordinate in enumerate(shared):
            positions = {
                tensor: level[coordinate]
                for segment, level in zip(axis.segments, levels, strict=True)
                for tensor in (segment.crd, *segment.by_position)
            }
            yield _Visit(
                axis=axis,
                number=number,
                count=len(shared),
                coordinate=coordinate,
                positions=positions,
            )

    def _walk(self, axis: Axis, segment: Segment, place: _Place) -> dict[int, int]:
        """Coordinate to absolute position, in the order of the positions."""
        start = place.address(segment.pos)
        width = self._memory[segment.pos].data_type.width
        first = place.address(segment.crd) + axis.offsets[segment.crd]
        level: dict[int, int] = {}
        for position in range(
            self._load_index(segment.pos, start), self._load_index(segment.pos, start + width)
        ):
            step = axis.strides[segment.crd] * position
            coordinate = self._load_index(segment.crd, first + step)
            if coordinate in level or not 0 <= coordinate < axis.extent:
                raise IndexError(
                    f"{segment.crd} holds coordinate {coordinate} at position {position}: "
                    f"expected a new one below {axis.extent}"
                )
            level[coordinate] = position
        return level

    def _load_index(self, tensor: str, address: int) -> int:
        return int(self._element(tensor, address)[()])

    def _element(self, tensor: str, address: int) -> Tile:
        return self._memory[tensor].tile((), ()).read(address)

    def _undefine(self, scratch: tuple[Tensor, ...]) -> None:
        for tensor in scratch:
            self._memory[tensor.name].undefine()

    def _leaf(self, name: str) -> Leaf:
        if name not in self._leaves:
            self._leaves[name] = leaf_of(self._primitives[name], self._axes, self._memory)
        return self._leaves[name]

    def _sum(self, primitive: Primitive, place: _Place, visits: list[_Visit]) -> None:
        """One sum over the visits of a loop, in chains by their numbers."""
        factors: list[list[Tile]] = [[] for _ in primitive.inputs]
        for visit in visits:
            inside = place.inside(visit)
            for tensor, tiles in zip(primitive.inputs, factors, strict=True):
                tiles.append(self._element(tensor, inside.address(tensor)))
        source = self._memory[primitive.inputs[0]].data_type
        inputs = tuple(np.array(tiles, source.numpy_dtype()) for tiles in factors)
        result = self._memory[primitive.output]
        stored, address = result.tile((), ()), place.address(primitive.output)
        start = convert(stored.read(address), result.data_type.accumulator)
        total = contract(inputs, start, source, fibre_lanes(primitive))
        stored.write(address, convert(total, result.data_type))


def _holds(term: GuardTerm, place: _Place) -> bool:
    (visit,) = (visit for visit in place.visits if visit.axis.name == term.axis)
    match term.kind:
        case GuardKind.FIRST:
            return visit.number == 0
        case GuardKind.LAST:
            return visit.number == visit.count - 1
        case _:
            assert_never(term.kind)


def _scratch(program: Program) -> Iterator[Tensor]:
    yield from program.scratch
    for node in program.nodes():
        if isinstance(node, IterationNode):
            yield from node.scratch
