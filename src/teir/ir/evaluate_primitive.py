"""What one invocation of a primitive reads, computes and writes, for `teir.ir.evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from teir.dtypes import DataType
from teir.ir.lanes import lanes_of
from teir.ir.nodes import Axis, Operation, Primitive
from teir.ir.subnormals import flushes_subnormals
from teir.ir.tile_arithmetic import Tile, combine, contract, convert
from teir.ir.tile_memory import StoredTile, TensorMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A primitive with the tiles of its operands: what all its invocations have in common.

    Axes of one index are left out: arrays have 64 axes at most. A tile's axes with stride 0 on the
    output come last, in their order, the last one whatever its extent, for lanes are counted along
    it: a Contraction sums over them, every other primitive writes the same value again. ``loops``
    are the axes that the tiles leave out, because elements written along them share bytes: then
    their order matters.
    """

    primitive: Primitive
    offsets: tuple[int, ...]
    """Bytes that the consumed axes add to the address of each operand."""
    loops: tuple[Axis, ...]
    reduced: int
    """How many axes of the tiles have stride 0 on the output."""
    inputs: tuple[StoredTile, ...]
    output: StoredTile
    source: DataType
    target: DataType

    def invoke(self, addresses: Mapping[str, int]) -> None:
        """The primitive where the iterations above add ``addresses`` to those of the tensors."""
        start = [
            addresses.get(tensor, 0) + offset
            for tensor, offset in zip(self.primitive.operands, self.offsets, strict=True)
        ]
        if not self.loops:
            self._compute(start)
            return
        for steps in self._steps():
            self._compute([at + step for at, step in zip(start, steps, strict=True)])

    def _steps(self) -> Iterator[tuple[int, ...]]:
        """Bytes on each operand at every point of the loops, in order."""
        strides = [
            [axis.strides[tensor] for axis in self.loops] for tensor in self.primitive.operands
        ]
        for point in product(*(range(axis.extent) for axis in self.loops)):
            yield tuple(sum(map(int.__mul__, point, along)) for along in strides)

    def _compute(self, addresses: Sequence[int]) -> None:
        """One tile whose written elements share no bytes."""
        inputs = tuple(
            tile.read(address) for tile, address in zip(self.inputs, addresses[:-1], strict=True)
        )
        accumulator = self.target.accumulator
        match self.primitive.operation:
            case Operation.ZERO:
                result = np.zeros(self.output.extents, accumulator.numpy_dtype())
            case Operation.CONTRACTION:
                start = convert(self.output.read(addresses[-1]), accumulator)
                lanes, flushes = lanes_of(self.primitive), flushes_subnormals(self.primitive)
                result = contract(inputs, start, self.source, lanes, flushes)
            case Operation.COPY:
                result = _last(inputs[0], self.reduced)
            case _:
                wide = tuple(convert(tile, accumulator) for tile in inputs)
                result = _last(combine(self.primitive.operation, wide), self.reduced)
        self.output.write(addresses[-1], convert(result, self.target))


def leaf_of(
    primitive: Primitive, axes: Mapping[str, Axis], memory: Mapping[str, TensorMemory]
) -> Leaf:
    """The tiles of ``primitive`` in ``memory``."""
    consumed = [axes[name] for name in primitive.axes]
    output = primitive.output
    free = [axis for axis in consumed if axis.strides[output] != 0 and axis.extent > 1]
    reduced = [axis for axis in consumed if axis.strides[output] == 0]
    reduced = [axis for axis in reduced[:-1] if axis.extent > 1] + reduced[-1:]
    loops: tuple[Axis, ...] = ()
    if primitive.operation is not Operation.ZERO and _overlap(memory[output], output, free):
        loops, free = tuple(free), []
    return Leaf(
        primitive=primitive,
        offsets=tuple(
            sum(axis.offsets[tensor] for axis in consumed) for tensor in primitive.operands
        ),
        loops=loops,
        reduced=len(reduced),
        inputs=tuple(_tile(memory, tensor, free + reduced) for tensor in primitive.inputs),
        output=_tile(memory, output, free),
        source=memory[primitive.operands[0]].data_type,
        target=memory[output].data_type,
    )


def _tile(memory: Mapping[str, TensorMemory], tensor: str, axes: Sequence[Axis]) -> StoredTile:
    return memory[tensor].tile(
        [axis.extent for axis in axes], [axis.strides[tensor] for axis in axes]
    )


def _overlap(memory: TensorMemory, tensor: str, axes: Sequence[Axis]) -> bool:
    """True when two elements of the written tile may share a byte."""
    reach = memory.data_type.width
    for axis in sorted(axes, key=lambda axis: axis.strides[tensor]):
        if axis.extent > 1 and axis.strides[tensor] < reach:
            return True
        reach += axis.strides[tensor] * (axis.extent - 1)
    return False


def _last(tile: Tile, reduced: int) -> Tile:
    """What remains when every index of the trailing dimensions is written in turn."""
    index: tuple[Any, ...] = (..., *((-1,) * reduced))
    kept: Tile = tile[index]
    return kept
