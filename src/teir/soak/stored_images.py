"""Operands of sparse programs: index arrays drawn at random, and numbers for what they reach.

Every sparse axis has one segment. No operand has room around the bytes the program may touch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from teir.ir.nodes import Axis, IterationNode, Node, Program, Segment, Tensor
from teir.soak.operands import Buffer, Image

_DRAWN = 4099
"""Numbers that are drawn; large operands repeat them."""


def stored_images(program: Program, seed: int, largest: int) -> dict[str, Image]:
    """Valid index arrays with empty, short, equal and full fibres; else integers as drawn."""
    draw = np.random.default_rng(seed)
    drawn: dict[str, tuple[Buffer, Buffer]] = {}
    stored: dict[str, int] = {}
    for path in _sparse_paths(program):
        *above, axis = path
        (segment,) = axis.segments
        if axis.name not in stored:
            pos, crd = _level(draw, _fibres(above, segment, stored), axis.extent)
            drawn[axis.name], stored[axis.name] = (pos, crd), crd.size
    arrays: dict[str, Buffer] = {}
    for axis in program.axes:
        for segment in axis.segments if axis.name in drawn else ():
            arrays[segment.pos], arrays[segment.crd] = drawn[axis.name]
    reached = _reached(program, stored)
    return {
        tensor.name: _image(draw, tensor, arrays.get(tensor.name), reached[tensor.name], largest)
        for tensor in program.tensors
    }


def _sparse_paths(program: Program) -> Iterator[tuple[Axis, ...]]:
    """The axes from a root down to every sparse one, outer ones first."""
    axes = program.axis_table()

    def below(node: Node, above: tuple[Axis, ...]) -> Iterator[tuple[Axis, ...]]:
        if not isinstance(node, IterationNode):
            return
        path = (*above, axes[node.axis])
        if path[-1].is_sparse:
            yield path
        for child in node.children:
            yield from below(child, path)

    for root in program.roots:
        yield from below(root, ())


def _fibres(above: list[Axis], segment: Segment, stored: dict[str, int]) -> int:
    """How many fibres a level has below the axes that move its bounds."""
    count = 1
    for axis in above:
        if axis.strides[segment.pos]:
            count *= _visits(axis, segment.pos, stored)
    return count


def _visits(axis: Axis, tensor: str, stored: dict[str, int]) -> int:
    """Places of a tensor that an axis moves over: positions, or its extent."""
    if any(tensor in (one.crd, *one.by_position) for one in axis.segments):
        return stored[axis.name]
    return axis.extent


def _level(draw: np.random.Generator, fibres: int, extent: int) -> tuple[Buffer, Buffer]:
    lists: list[Buffer] = []
    most = int(draw.choice((3, extent)))
    while len(lists) < fibres:
        size = int(draw.integers(0, min(extent, most, 40) + 1))
        fibre = np.sort(draw.choice(extent, size, replace=False))
        lists += [fibre] * int(draw.integers(1, 5))
    if not any(one.size for one in lists[:fibres]):
        lists[0] = np.array([extent - 1])
    pos = np.cumsum([0, *(one.size for one in lists[:fibres])])
    return pos, np.concatenate(lists[:fibres])


def _reached(program: Program, stored: dict[str, int]) -> dict[str, int]:
    """Bytes from the base of every tensor to the end of what may be touched."""
    axes, primitives = program.axis_table(), program.primitive_table()
    found = dict.fromkeys(program.tensor_table(), 0)
    for path, invocation in program.invocations():
        primitive = primitives[invocation.primitive]
        named = [axes[name] for name in (*(node.axis for node in path), *primitive.axes)]
        for tensor in primitive.operands:
            high = program.tensor_table()[tensor].data_type.width if tensor in found else 0
            for axis in named:
                visits = max(1, _visits(axis, tensor, stored))
                high += axis.strides[tensor] * (visits - 1) + axis.offsets[tensor]
            if tensor in found:
                found[tensor] = max(found[tensor], high)
    return found


def _image(
    draw: np.random.Generator, tensor: Tensor, indices: Buffer | None, reached: int, largest: int
) -> Image:
    dtype = tensor.data_type.numpy_dtype()
    if indices is not None:
        typed = indices.astype(dtype)
    else:
        numbers = draw.integers(-largest, largest + 1, _DRAWN).astype(np.float64).astype(dtype)
        typed = np.resize(numbers, -(-reached // dtype.itemsize))
    content = np.ascontiguousarray(typed).view(np.uint8)
    return Image(data_type=tensor.data_type, content=content, base=0)
