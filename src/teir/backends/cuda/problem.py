"""Roots as one big operation: what is computed, whatever loops and tiles the program says.

    parallel p { parallel r { zero; sequential t { gemm } } }   ->   out = sum of in0 * in1

A root (or a run of roots) is recognised where its loops and the axes its primitive consumes make
one rectangle of independent elements: an element-wise result, or a Contraction with an optional
Zero before it and an optional ReLU after it. All others keep their schedule (`emit_generic`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teir.backends.cuda.emit_generic import touched
from teir.dtypes import DataType
from teir.ir.check.collision import is_injective
from teir.ir.nodes import (
    Axis,
    GuardKind,
    InvocationNode,
    Node,
    Operation,
    Primitive,
    Program,
)
from teir.ir.subnormals import flushes_subnormals
from teir.lower.axes import TileAxis
from teir.lower.kernel_program import Storage
from teir.lower.slots import SlotTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """An operand of a problem: the address of its first element is the tensor's plus ``offset``."""

    tensor: str
    data_type: DataType
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MapProblem:
    """out[i] = operation(inputs[i]) for every i; ``axes`` have one stride per operand."""

    primitive: str
    operation: Operation
    operands: tuple[Operand, ...]
    axes: tuple[TileAxis, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractionProblem:
    """out += sum of left * right; ``from_zero``: out = sum; ``relu``: the maximum with zero last.

    ``operands`` are left, right, out. Axes that do not move ``out`` are summed over.
    """

    primitive: str
    operands: tuple[Operand, Operand, Operand]
    axes: tuple[TileAxis, ...]
    from_zero: bool
    relu: bool


Problem = MapProblem | ContractionProblem


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A leaf; ``path`` holds the axes iterated around it, then those it consumes."""

    path: tuple[Axis, ...]
    node: InvocationNode
    primitive: Primitive


def recognise(roots: Sequence[Node], program: Program, slots: SlotTable) -> Problem | None:
    """The problem that ``roots``, run one after the other, solve; None where they are no such."""
    leaves = _leaves(roots, program)
    if leaves is None:
        return None
    operations = tuple(leaf.primitive.operation for leaf in leaves)
    main = next((one for one in leaves if one.primitive.operation is Operation.CONTRACTION), None)
    if main is None:
        return _map_problem(leaves[0], slots) if len(leaves) == 1 else None
    before, after = operations.index(Operation.CONTRACTION), len(leaves) - 1
    if before > 1 or after - before > 1:
        return None
    zero = leaves[0] if before == 1 else None
    relu = leaves[-1] if after > before else None
    if zero is not None and not _spans(zero, main, Operation.ZERO, GuardKind.FIRST, program):
        return None
    if relu is not None and not _spans(relu, main, Operation.RELU, GuardKind.LAST, program):
        return None
    return _contraction(main, zero is not None, relu is not None, slots)


def _leaves(roots: Sequence[Node], program: Program) -> list[_Leaf] | None:
    """All leaves with the axes around them; None where a node has a guard or scratch."""
    axes, primitives = program.axis_table(), program.primitive_table()
    leaves: list[_Leaf] = []
    stack: list[tuple[tuple[Axis, ...], Node]] = [((), node) for node in reversed(roots)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, InvocationNode):
            primitive = primitives[node.primitive]
            consumed = tuple(axes[name] for name in primitive.axes)
            leaves.append(_Leaf((*path, *consumed), node, primitive))
            continue
        if node.guard or node.scratch:
            return None
        inner = (*path, axes[node.axis])
        stack.extend((inner, child) for child in reversed(node.children))
    return leaves if 1 <= len(leaves) <= 3 else None


def _spans(
    leaf: _Leaf, main: _Leaf, operation: Operation, kind: GuardKind, program: Program
) -> bool:
    """Does ``leaf`` touch what ``main`` adds into, once before (or after) all of it?"""
    out = main.primitive.output
    if leaf.primitive.operation is not operation or leaf.primitive.output != out:
        return False
    if operation is Operation.RELU and leaf.primitive.inputs != (out,):
        return False
    iterated = program.axis_table()
    asked = {term.axis for term in leaf.node.guard}
    if any(term.kind is not kind for term in leaf.node.guard):
        return False
    if any(iterated[name].strides[out] and iterated[name].extent > 1 for name in asked):
        return False
    shared = {axis.name for axis in main.path} & {axis.name for axis in leaf.path}
    consumed = {*leaf.primitive.axes, *main.primitive.axes}
    repeated = [
        axis
        for axis in main.path
        if axis.name in shared - consumed and not axis.strides[out] and axis.extent > 1
    ]
    if any(axis.name not in asked for axis in repeated):
        return False
    return _region(leaf, out) == _region(main, out)


def _region(leaf: _Leaf, tensor: str) -> tuple[int, tuple[TileAxis, ...]]:
    moving = [axis for axis in leaf.path if axis.strides[tensor]]
    tiles = [TileAxis(axis.extent, (axis.strides[tensor],)) for axis in moving]
    return sum(axis.offsets[tensor] for axis in leaf.path), fuse_all(tiles)


def _map_problem(leaf: _Leaf, slots: SlotTable) -> MapProblem | None:
    primitive = leaf.primitive
    names = touched(primitive)
    operands = _operands(names, leaf, slots)
    if leaf.node.guard or operands is None:
        return None
    axes = _tile_axes(leaf, names)
    out = len(names) - 1
    for at, name in enumerate(names[:-1]):
        same = all(axis.strides[at] == axis.strides[out] for axis in axes)
        if name == names[-1] and not (same and operands[at].offset == operands[out].offset):
            return None
    if any(not axis.strides[out] and any(axis.strides) for axis in axes):
        return None
    axes = [axis for axis in axes if axis.strides[out]]
    if not is_injective([(axis.strides[out], axis.extent) for axis in axes]):
        return None
    return MapProblem(
        primitive=primitive.name,
        operation=primitive.operation,
        operands=operands,
        axes=fuse_all(axes),
    )


def _contraction(
    leaf: _Leaf, from_zero: bool, relu: bool, slots: SlotTable
) -> ContractionProblem | None:
    primitive = leaf.primitive
    names = primitive.operands
    operands = _operands(names, leaf, slots)
    if leaf.node.guard or operands is None or len(names) != 3:
        return None
    if names[-1] in names[:-1] or flushes_subnormals(primitive):
        return None
    axes = _tile_axes(leaf, names)
    free = [(axis.strides[2], axis.extent) for axis in axes if axis.strides[2]]
    if not is_injective(free) or any(not any(axis.strides) for axis in axes):
        return None
    left, right, out = operands
    return ContractionProblem(
        primitive=primitive.name,
        operands=(left, right, out),
        axes=fuse_all(axes),
        from_zero=from_zero,
        relu=relu,
    )


def _operands(names: Sequence[str], leaf: _Leaf, slots: SlotTable) -> tuple[Operand, ...] | None:
    found = []
    for name in names:
        slot = slots.slots[slots.number[name]]
        if slot.storage is Storage.THREAD:
            return None
        offset = sum(axis.offsets[name] for axis in leaf.path)
        found.append(Operand(tensor=name, data_type=slot.data_type, offset=offset))
    return tuple(found)


def _tile_axes(leaf: _Leaf, names: Sequence[str]) -> list[TileAxis]:
    return [
        TileAxis(axis.extent, tuple(axis.strides[name] for name in names))
        for axis in leaf.path
        if axis.extent > 1
    ]


def unit_axis(problem: Problem, at: int) -> int | None:
    """The axis along which operand ``at`` is contiguous."""
    width = problem.operands[at].data_type.width
    found = (one for one, axis in enumerate(problem.axes) if axis.strides[at] == width)
    return next(found, None)


def fuse_all(axes: Sequence[TileAxis]) -> tuple[TileAxis, ...]:
    """Merge every pair that all operands walk as one axis; the largest last stride first."""
    left = [axis for axis in axes if axis.extent > 1]
    merged = True
    while merged:
        merged = False
        for outer in left:
            inner = next((one for one in left if one is not outer and _continue(outer, one)), None)
            if inner is not None:
                left = [one for one in left if one is not outer and one is not inner]
                left.append(TileAxis(outer.extent * inner.extent, inner.strides))
                merged = True
                break
    return tuple(sorted(left, key=lambda one: one.strides[::-1], reverse=True))


def _continue(outer: TileAxis, inner: TileAxis) -> bool:
    pairs = zip(outer.strides, inner.strides, strict=True)
    return all(wide == narrow * inner.extent for wide, narrow in pairs)
