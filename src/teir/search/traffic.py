"""Bytes that each cache fetches for every leaf of a program that runs again and again.

A cache holds what the largest part of the loop nest that fits into it touches; a tensor is fetched
again for every iteration of the loops around that part, except for those directly around it that
do not move the tensor. (Working sets as in Goto and van de Geijn, "Anatomy of high-performance
matrix multiplication", ACM TOMS 34, 2008, section 4, for any nest.)

    sequential i over i          Zero, whose next invocation makes the same tile, is left to that
      z: zero                    kernel and moves nothing
      g: contraction             out is written only: it counts once, else twice

Where a cache holds all tensors of a program, the call before has left them there. Scratch that a
cache holds never leaves it. What is written past the caches counts for memory alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from teir.dtypes import DataType
from teir.ir.memory_hints import memory_hints
from teir.ir.nodes import (
    Axis,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
)
from teir.target import LINE_BYTES

_FITS = 0.75
"""The share of a cache that a working set may take."""

_Invocation: TypeAlias = tuple[tuple[IterationNode, ...], InvocationNode]


@dataclass(frozen=True, slots=True)
class Leaf:
    """An invocation: its loops, the innermost first, and the axes of its tile.

    ``scratch`` are the tensors that the program itself holds; ``reads_output`` says that the
    results of before are read.
    """

    primitive: Primitive
    loops: tuple[Axis, ...]
    tile: tuple[Axis, ...]
    types: dict[str, DataType]
    scratch: frozenset[str]
    is_parallel: bool
    reads_output: bool

    @property
    def trips(self) -> int:
        return prod(axis.extent for axis in self.loops)

    @property
    def tensors(self) -> tuple[str, ...]:
        if self.primitive.operation is Operation.ZERO:
            return (self.primitive.output,)
        return tuple(dict.fromkeys(self.primitive.operands))


def leaves_of(program: Program) -> Iterator[Leaf]:
    """The invocations in the order of the text, but for what a kernel zeroes itself."""
    axes, primitives = program.axis_table(), program.primitive_table()
    tensors = program.tensor_table()
    types = {name: tensor.data_type for name, tensor in tensors.items()}
    scratch = frozenset(tensors) - {tensor.name for tensor in program.tensors}
    before: _Invocation | None = None
    invocations = tuple((tuple(path), leaf) for path, leaf in program.invocations())
    for place, (path, leaf) in enumerate(invocations):
        primitive = primitives[leaf.primitive]
        following = invocations[place + 1] if place + 1 < len(invocations) else None
        if following is not None and _zeroes_for(following, (path, leaf), primitives):
            before = (path, leaf)
            continue
        is_first = before is not None and before[1].guard == leaf.guard
        before = None
        yield Leaf(
            primitive=primitive,
            loops=_iterated(path, leaf, axes),
            tile=tuple(axes[name] for name in primitive.axes if axes[name].extent > 1),
            types=types,
            scratch=scratch,
            is_parallel=any(node.policy is Policy.PARALLEL for node in path),
            reads_output=primitive.operation is Operation.CONTRACTION and not is_first,
        )


def _zeroes_for(
    following: _Invocation, zero: _Invocation, primitives: dict[str, Primitive]
) -> bool:
    """True for a Zero of what the next invocation, inside the same loops, makes."""
    (path, leaf), (next_path, next_leaf) = zero, following
    primitive, after = primitives[leaf.primitive], primitives[next_leaf.primitive]
    if primitive.operation is not Operation.ZERO or after.output != primitive.output:
        return False
    around = next_path[: len(path)]
    return len(around) == len(path) and all(
        one is other for one, other in zip(around, path, strict=True)
    )


def _iterated(
    path: Sequence[IterationNode], leaf: InvocationNode, axes: dict[str, Axis]
) -> tuple[Axis, ...]:
    """The loops around a leaf, the innermost first; a guard lets one iteration through."""
    nodes: tuple[Node, ...] = (*path, leaf)
    guarded = {term.axis for node in nodes for term in node.guard}
    loops = [axes[node.axis] for node in reversed(path) if node.axis not in guarded]
    return tuple(axis for axis in loops if axis.extent > 1)


def footprint(leaves: Sequence[Leaf]) -> float:
    """Bytes of all tensors, each as the leaf touches it that touches most of it."""
    most: dict[str, float] = {}
    for leaf in leaves:
        for name in leaf.tensors:
            most[name] = max(most.get(name, 0.0), _touched(leaf, name, len(leaf.loops)))
    return sum(most.values())


def memory_bytes(leaf: Leaf, cache_bytes: int, footprint_bytes: float) -> float:
    """As `fetched_bytes`, of the last cache, with what goes past all of them.

    Lines that are written in it are read from memory before; those that go past it are not, as in
    the copies that the speed of memory is measured by.
    """
    hints, output = memory_hints(leaf.primitive), leaf.primitive.output
    if hints.streams:
        past = _touched(leaf, output, len(leaf.loops))
        return past + fetched_bytes(leaf, cache_bytes, footprint_bytes)
    reading = replace(leaf, reads_output=True)
    return fetched_bytes(reading, cache_bytes, footprint_bytes)


def fetched_bytes(leaf: Leaf, cache_bytes: int, footprint_bytes: float) -> float:
    """Bytes a cache of this size fetches, and writes back, for all iterations of a leaf of a
    program whose tensors take ``footprint_bytes``."""
    if footprint_bytes <= _FITS * cache_bytes:
        return 0.0
    inside = 0
    sizes = [_touched(leaf, name, inside) for name in leaf.tensors]
    if sum(sizes) > _FITS * cache_bytes:
        return leaf.trips * sum(
            size * _moves(leaf, name, cache_bytes)
            for name, size in zip(leaf.tensors, sizes, strict=True)
        )
    while inside < len(leaf.loops):
        larger = [_touched(leaf, name, inside + 1) for name in leaf.tensors]
        if sum(larger) > _FITS * cache_bytes:
            break
        inside += 1
        sizes = larger
    return sum(
        size * _fetches(leaf, name, inside) * _moves(leaf, name, cache_bytes)
        for name, size in zip(leaf.tensors, sizes, strict=True)
    )


def _moves(leaf: Leaf, tensor: str, cache_bytes: int) -> int:
    """How often a byte of a tensor moves between a cache and the next when it is fetched."""
    is_output = tensor == leaf.primitive.output
    if is_output and memory_hints(leaf.primitive).streams:
        return 0
    if tensor in leaf.scratch:
        kept = _touched(leaf, tensor, len(leaf.loops)) <= _FITS * cache_bytes
        if kept:
            return 0
    return 2 if is_output and leaf.reads_output else 1


def _fetches(leaf: Leaf, tensor: str, inside: int) -> int:
    """How often the loops from ``inside`` on fetch what the loops below them touch."""
    outside = leaf.loops[inside:]
    still = 0
    while still < len(outside) and not outside[still].strides[tensor]:
        still += 1
    return prod(axis.extent for axis in outside[still:])


def _touched(leaf: Leaf, tensor: str, inside: int) -> float:
    """Bytes of the cache lines that the tile and the ``inside`` innermost loops touch."""
    width = leaf.types[tensor].width
    moving = [axis for axis in (*leaf.tile, *leaf.loops[:inside]) if axis.strides[tensor]]
    run = width
    elements = 1
    for axis in sorted(moving, key=lambda axis: axis.strides[tensor]):
        if axis.strides[tensor] <= max(run, LINE_BYTES):
            run += axis.strides[tensor] * (axis.extent - 1)
        else:
            elements *= axis.extent
    return elements * (run + (LINE_BYTES if run % LINE_BYTES else 0) / 2)
