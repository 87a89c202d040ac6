"""The meaning of a TEIR program: a slow, clear interpreter over byte buffers.

Everything else in this package is compared with this file. It follows the specification word by
word: the address formula of section 10.4, guards and order as written (section 10.2). An axis
contributes ``offset + stride * index`` once per tensor when an ancestor iterates it, and its
offset once when the primitive consumes it. ``parallel`` nodes run in an arbitrary order drawn from
``seed``. Scratch is filled with NaN whenever it becomes undefined. The last word on what the
primitives compute is `teir.ir.tile_arithmetic`.

Sparse axes: iteration visits the positions of the segment; the coordinate loaded from ``crd`` is
the index for every tensor except ``crd`` itself and the ``by_position`` tensors, which are
addressed with the position. ``first`` and ``last`` speak of the running number of the visit.

A checked program never fails here. An unchecked one may, with an exception, but no byte outside
the given buffers is read or written.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, assert_never

import numpy as np

from teir.dtypes import DataType
from teir.ir.lanes import fibre_lanes, lanes_of
from teir.ir.nodes import (
    Axis,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Segment,
    Tensor,
)
from teir.ir.part_windows import Window, windows_of
from teir.ir.subnormals import flushes_subnormals
from teir.ir.tile_arithmetic import Tile, combine, contract, convert

Buffer = np.ndarray[Any, np.dtype[Any]]

POISON = 0xFF
"""Every byte of undefined scratch: a NaN in each floating-point type."""


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
        tensor.name: _Memory(
            data_type=tensor.data_type,
            content=_bytes_of(tensor.name, operands),
            base=(bases or {}).get(tensor.name, 0),
        )
        for tensor in program.tensors
    }
    _Run(program, memory, random.Random(seed)).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """The bytes of one tensor and where its base address lies in them."""

    data_type: DataType
    content: Buffer
    base: int

    def view(self, address: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> Buffer:
        """The bytes of a tile: shape ``(*extents, width)``."""
        spans = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)]
        low = self.base + address + sum(span for span in spans if span < 0)
        high = self.base + address + sum(span for span in spans if span > 0) + self.data_type.width
        if low < 0 or high > self.content.size:
            raise IndexError(
                f"bytes {low} to {high} lie outside a buffer of {self.content.size} bytes"
            )
        return np.ndarray(
            (*extents, self.data_type.width),
            np.uint8,
            self.content,
            self.base + address,
            (*strides, 1),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Visit:
    """One iteration of one axis: the ``number``-th of ``count``."""

    axis: Axis
    number: int
    count: int
    coordinate: int
    positions: Mapping[str, int]
    """The index of the tensors that are addressed by position."""

    def bytes_on(self, tensor: str) -> int:
        index = self.positions.get(tensor, self.coordinate)
        return self.axis.offsets[tensor] + self.axis.strides[tensor] * index


_Path = tuple[_Visit, ...]


class _Run:
    """One run: the program's tables, the memory, the order of parallel iterations."""

    def __init__(self, program: Program, memory: dict[str, _Memory], order: random.Random) -> None:
        self._program = program
        self._axes = program.axis_table()
        self._primitives = program.primitive_table()
        self._memory = memory | {
            tensor.name: _scratch_memory(program, tensor, memory) for tensor in _scratch(program)
        }
        self._order = order
        self._window: Window | None = None

    def run(self) -> None:
        self._undefine(self._program.scratch)
        types = {name: one.data_type for name, one in self._memory.items()}
        for root in self._program.roots:
            for window in windows_of(root, self._axes, self._primitives, types):
                self._window = window
                self._enter(root, ())

    def _enter(self, node: Node, path: _Path) -> None:
        if not all(_holds(term, path) for term in node.guard):
            return
        match node:
            case InvocationNode():
                if self._window is None or self._window.runs(node):
                    self._invoke(self._primitives[node.primitive], path)
            case IterationNode():
                self._iterate(node, path)
            case _:
                assert_never(node)

    def _iterate(self, node: IterationNode, path: _Path) -> None:
        visits = list(self._visits(self._axes[node.axis], path))
        window = self._window
        if window is not None and window.chooses_fibres(node):
            walked = self._axes[window.nest.walk.axis]
            visits = [one for one in visits if any(self._visits(walked, (*path, one)))]
        if node.policy is Policy.PARALLEL:
            self._order.shuffle(visits)
        child = node.children[0]
        if isinstance(child, InvocationNode):
            primitive = self._primitives[child.primitive]
            if fibre_lanes(primitive) is not None:
                self._sum(primitive, path, visits)
                return
        for visit in visits:
            self._undefine(node.scratch)
            for child in node.children:
                self._enter(child, (*path, visit))

    def _visits(self, axis: Axis, path: _Path) -> Iterator[_Visit]:
        if not axis.is_sparse:
            for index in range(axis.extent):
                yield _Visit(
                    axis=axis, number=index, count=axis.extent, coordinate=index, positions={}
                )
            return
        levels = [self._walk(axis, segment, path) for segment in axis.segments]
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

    def _walk(self, axis: Axis, segment: Segment, path: _Path) -> dict[int, int]:
        """Coordinate to absolute position, in the order of the positions."""
        start = self._address(segment.pos, path)
        width = self._memory[segment.pos].data_type.width
        level: dict[int, int] = {}
        for position in range(
            self._load_index(segment.pos, start), self._load_index(segment.pos, start + width)
        ):
            step = axis.offsets[segment.crd] + axis.strides[segment.crd] * position
            coordinate = self._load_index(segment.crd, self._address(segment.crd, path) + step)
            if coordinate in level or not 0 <= coordinate < axis.extent:
                raise IndexError(
                    f"{segment.crd} holds coordinate {coordinate} at position {position}: "
                    f"expected a new one below {axis.extent}"
                )
            level[coordinate] = position
        return level

    def _load_index(self, tensor: str, address: int) -> int:
        return int(self._load(tensor, address, (), ())[()])

    def _address(self, tensor: str, path: _Path) -> int:
        """Section 10.4, without the base."""
        return sum(visit.bytes_on(tensor) for visit in path)

    def _undefine(self, scratch: tuple[Tensor, ...]) -> None:
        for tensor in scratch:
            self._memory[tensor.name].content[:] = POISON

    def _invoke(self, primitive: Primitive, path: _Path) -> None:
        axes = tuple(self._axes[name] for name in primitive.axes)
        addresses = {
            tensor: self._address(tensor, path) + sum(axis.offsets[tensor] for axis in axes)
            for tensor in primitive.operands
        }
        written = [axis for axis in axes if axis.strides[primitive.output] != 0]
        if primitive.operation is Operation.ZERO or not self._overlaps(primitive.output, written):
            self._compute(primitive, addresses, axes)
            return
        reduced = tuple(axis for axis in axes if axis.strides[primitive.output] == 0)
        for point in product(*(range(axis.extent) for axis in written)):
            steps = {
                tensor: sum(
                    axis.strides[tensor] * i for axis, i in zip(written, point, strict=True)
                )
                for tensor in addresses
            }
            moved = {tensor: addresses[tensor] + steps[tensor] for tensor in addresses}
            self._compute(primitive, moved, reduced)

    def _sum(self, primitive: Primitive, path: _Path, visits: list[_Visit]) -> None:
        """One sum over the visits of a loop, in chains by their numbers."""
        factors: list[list[Tile]] = [[] for _ in primitive.inputs]
        for visit in visits:
            for tensor, tiles in zip(primitive.inputs, factors, strict=True):
                tiles.append(self._tile(tensor, self._address(tensor, (*path, visit)), ()))
        output, source = primitive.output, self._memory[primitive.inputs[0]].data_type
        inputs = tuple(np.array(tiles, source.numpy_dtype()) for tiles in factors)
        address, data_type = self._address(output, path), self._memory[output].data_type
        start = convert(self._tile(output, address, ()), data_type.accumulator)
        result = contract(inputs, start, source, fibre_lanes(primitive))
        self._store(output, address, (), convert(result, data_type))

    def _overlaps(self, tensor: str, axes: list[Axis]) -> bool:
        """True when two elements of the written tile may share a byte (then order matters)."""
        reach = self._memory[tensor].data_type.width
        for axis in sorted(axes, key=lambda axis: axis.strides[tensor]):
            if axis.extent > 1 and axis.strides[tensor] < reach:
                return True
            reach += axis.strides[tensor] * (axis.extent - 1)
        return False

    def _compute(
        self, primitive: Primitive, addresses: Mapping[str, int], axes: tuple[Axis, ...]
    ) -> None:
        """One invocation on a tile whose written elements share no bytes.

        The axes with stride 0 on the output come last, in their order: a Contraction sums over
        them, every other primitive writes the same value again.
        """
        output = primitive.output
        free = tuple(axis for axis in axes if axis.strides[output] != 0)
        reduced = tuple(axis for axis in axes if axis.strides[output] == 0)
        inputs = tuple(
            self._tile(tensor, addresses[tensor], free + reduced) for tensor in primitive.inputs
        )
        data_type = self._memory[output].data_type
        accumulator = data_type.accumulator
        match primitive.operation:
            case Operation.ZERO:
                shape = tuple(axis.extent for axis in free)
                result = np.zeros(shape, accumulator.numpy_dtype())
            case Operation.CONTRACTION:
                start = convert(self._tile(output, addresses[output], free), accumulator)
                source = self._memory[primitive.inputs[0]].data_type
                lanes, flushes = lanes_of(primitive), flushes_subnormals(primitive)
                result = contract(inputs, start, source, lanes, flushes)
            case Operation.COPY:
                result = _last(inputs[0], len(reduced))
            case _:
                wide = tuple(convert(tile, accumulator) for tile in inputs)
                result = _last(combine(primitive.operation, wide), len(reduced))
        self._store(output, addresses[output], free, convert(result, data_type))

    def _tile(self, tensor: str, address: int, axes: tuple[Axis, ...]) -> Tile:
        """The tile as an array: an axis with stride 0 is read once and broadcast."""
        strides = tuple(axis.strides[tensor] for axis in axes)
        extents = tuple(axis.extent if axis.strides[tensor] != 0 else 1 for axis in axes)
        tile = self._load(tensor, address, extents, strides)
        return np.broadcast_to(tile, tuple(axis.extent for axis in axes))

    def _load(
        self, tensor: str, address: int, extents: tuple[int, ...], strides: tuple[int, ...]
    ) -> Tile:
        memory = self._memory[tensor]
        stored = np.ascontiguousarray(memory.view(address, extents, strides))
        return stored.view(memory.data_type.numpy_dtype())[..., 0]

    def _store(self, tensor: str, address: int, axes: tuple[Axis, ...], tile: Tile) -> None:
        extents = tuple(axis.extent for axis in axes)
        strides = tuple(axis.strides[tensor] for axis in axes)
        stored = np.ascontiguousarray(tile.reshape((*tile.shape, 1))).view(np.uint8)
        self._memory[tensor].view(address, extents, strides)[...] = stored


def _holds(term: GuardTerm, path: _Path) -> bool:
    (visit,) = (visit for visit in path if visit.axis.name == term.axis)
    match term.kind:
        case GuardKind.FIRST:
            return visit.number == 0
        case GuardKind.LAST:
            return visit.number == visit.count - 1
        case _:
            assert_never(term.kind)


def _last(tile: Tile, reduced: int) -> Tile:
    """What remains when every index of the trailing dimensions is written in turn."""
    index: tuple[Any, ...] = (..., *((-1,) * reduced))
    kept: Tile = tile[index]
    return kept


def _bytes_of(name: str, operands: Mapping[str, Buffer]) -> Buffer:
    if name not in operands:
        raise LookupError(f"no operand for tensor {name}")
    array = operands[name]
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    if array.flags.f_contiguous:
        return array.T.reshape(-1).view(np.uint8)
    raise ValueError(f"the operand for tensor {name} is not contiguous")


def _scratch(program: Program) -> Iterator[Tensor]:
    yield from program.scratch
    for node in program.nodes():
        if isinstance(node, IterationNode):
            yield from node.scratch


def _scratch_memory(program: Program, scratch: Tensor, memory: Mapping[str, _Memory]) -> _Memory:
    """Undefined memory that holds every byte the program may touch of ``scratch``."""
    axes, primitives = program.axis_table(), program.primitive_table()
    spans: list[tuple[int, int]] = []
    for path, invocation in program.invocations():
        primitive = primitives[invocation.primitive]
        if scratch.name not in primitive.operands:
            continue
        named = (*(node.axis for node in path), *primitive.axes)
        lowest = sum(axes[name].offsets[scratch.name] for name in named)
        reach = sum(_reach(axes[name], scratch.name, memory) for name in named)
        spans.append((lowest, lowest + reach + scratch.data_type.width))
    low = min((start for start, _ in spans), default=0)
    high = max((end for _, end in spans), default=0)
    content = np.full(high - low, POISON, np.uint8)
    return _Memory(data_type=scratch.data_type, content=content, base=-low)


def _reach(axis: Axis, tensor: str, memory: Mapping[str, _Memory]) -> int:
    """Bytes from the first to the last index of ``axis`` on ``tensor``."""
    largest = axis.extent - 1
    for segment in axis.segments:
        if tensor in segment.by_position:
            largest = memory[segment.crd].content.size // memory[segment.crd].data_type.width
    return axis.strides[tensor] * largest
