"""The metadata entry ``coordinates_at_once`` of a Contraction: its fibres are walked in parts.

    primitive add = Contraction FP64 (B, C -> T; M=[], N=[j], K=[])
                    with {"coordinates_at_once": 2048}

All fibres below a root are walked as far as coordinate 2047 first, then all of them as far as 4095,
and so on, so that what their coordinates choose of an operand is met again while it is near:

    i { Zero A; j' { Zero T; k' { T += B C }; A += T D } }

Each part runs the whole root, but for fibres of which it holds nothing, and, from the second part
on, for Zeros of results: results are sums of what the parts give. The first part runs for all
fibres where there are such Zeros. Other roots than those that `parted_nest` finds ignore the entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from teir.dtypes import DataType
from teir.ir.nodes import (
    Axis,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
)

_KEY = "coordinates_at_once"
_MOST_FIBRES = 1 << 20
"""More may be too many to list the parts of, as native code does."""
_MOST_COORDINATES = 2**31 - 1


def coordinates_at_once(primitive: Primitive) -> int | None:
    """The entry of a Contraction that has no other; None where it is not a positive number."""
    if len(primitive.metadata) != 1 or primitive.operation is not Operation.CONTRACTION:
        return None
    ((key, text),) = primitive.metadata
    is_number = key == _KEY and text.isascii() and text.isdigit() and len(text) < 16
    return int(text) or None if is_number else None


def with_coordinates_at_once(count: int) -> tuple[tuple[str, str], ...]:
    """The metadata that has this entry only."""
    return ((_KEY, str(count)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedNest:
    """A root whose fibres may be walked in parts.

    ``rows`` holds ``fibres``, which holds ``walk``, all of which is ``leaf``. ``cleared`` are the
    Zeros of what keeps its value from one part to the next. ``is_numbered``: what the level of
    ``fibres`` moves follows its positions, else its coordinates.
    """

    rows: IterationNode
    fibres: IterationNode
    walk: IterationNode
    leaf: InvocationNode
    cleared: frozenset[str]
    is_numbered: bool


def parted_nest(
    root: Node,
    axes: Mapping[str, Axis],
    primitives: Mapping[str, Primitive],
    types: Mapping[str, DataType],
) -> PartedNest | None:
    """The nest of a root; None where parts of its fibres do not add up to its results."""
    if not isinstance(root, IterationNode) or axes[root.axis].is_sparse:
        return None
    fibres = _only_loop(root)
    walk = None if fibres is None else _only_loop(fibres)
    if fibres is None or walk is None or len(walk.children) != 1 or walk.scratch:
        return None
    (leaf,) = walk.children
    is_nest = _follow_one_another([axes[node.axis] for node in (root, fibres, walk)], types)
    if not is_nest or not isinstance(leaf, InvocationNode):
        return None
    cleared = _cleared((root, fibres, walk), axes, primitives)
    is_numbered = _is_numbered(root, axes[fibres.axis], axes[walk.axis], primitives)
    if cleared is None or is_numbered is None:
        return None
    return PartedNest(
        rows=root, fibres=fibres, walk=walk, leaf=leaf, cleared=cleared, is_numbered=is_numbered
    )


def _only_loop(node: IterationNode) -> IterationNode | None:
    """The only loop a node holds; None where there is another number of them."""
    loops = [child for child in node.children if isinstance(child, IterationNode)]
    return loops[0] if len(loops) == 1 else None


def _follow_one_another(nest: list[Axis], types: Mapping[str, DataType]) -> bool:
    """Whether the index arrays of two levels are walked element by element, and no more moves them.

    ``nest``: the rows, then both levels. False where there may be too many fibres.
    """
    if any(axis.offsets for axis in nest) or [len(one.segments) for one in nest] != [0, 1, 1]:
        return False
    rows, above, below = nest
    if rows.extent * above.extent > _MOST_FIBRES or below.extent > _MOST_COORDINATES:
        return False
    (outer,), (inner,) = above.segments, below.segments
    arrays = (outer.pos, outer.crd, inner.pos, inner.crd)
    steps = {
        (rows.name, outer.pos),
        (above.name, outer.crd),
        (above.name, inner.pos),
        (below.name, inner.crd),
    }
    return (
        len({*arrays}) == len(arrays)
        and inner.pos in outer.by_position
        and not {*inner.by_position}.intersection(above.strides, rows.strides)
        and all(
            axis.strides[name] == types[name].width * ((axis.name, name) in steps)
            for axis in nest
            for name in arrays
        )
    )


def _cleared(
    nest: tuple[IterationNode, ...], axes: Mapping[str, Axis], primitives: Mapping[str, Primitive]
) -> frozenset[str] | None:
    """The Zeros of results; None where a result is no sum of what parts of fibres give."""
    private = {tensor.name for node in nest for tensor in node.scratch}
    derived: set[str] = set()
    read: set[str] = set()
    zeros: dict[str, str] = {}
    for place, leaf in _leaves(nest[0], ()):
        one = primitives[leaf.primitive]
        if leaf.guard or any(node.guard for node in place):
            return None
        if one.operation is Operation.ZERO:
            if one.output not in private:
                if derived or not _is_cleared_once(place, axes, one):
                    return None
                zeros[leaf.name] = one.output
            continue
        sources = [name for name in one.inputs if name in derived]
        is_first = place[-1] is nest[-1] and not derived
        if one.operation is not Operation.CONTRACTION or len(sources) != 1 - is_first:
            return None
        derived.add(one.output)
        read.update(one.inputs)
    results = derived - private
    return None if results & read or not results else frozenset(zeros)


def _leaves(
    node: Node, path: tuple[IterationNode, ...]
) -> Iterator[tuple[tuple[IterationNode, ...], InvocationNode]]:
    match node:
        case InvocationNode():
            yield path, node
        case IterationNode():
            for child in node.children:
                yield from _leaves(child, (*path, node))


def _is_cleared_once(
    path: tuple[IterationNode, ...], axes: Mapping[str, Axis], zero: Primitive
) -> bool:
    """Whether no two iterations around a Zero clear the same."""
    inner = axes[path[-1].axis]
    step, tile = inner.strides[zero.output], [axes[name] for name in zero.axes]
    reach = sum((one.extent - 1) * one.strides[zero.output] for one in tile)
    if reach >= step:
        return False
    if len(path) == 1:
        return path[0].policy is Policy.PARALLEL
    by_position = {name for segment in inner.segments for name in segment.by_position}
    return zero.output in by_position and not axes[path[0].axis].strides[zero.output]


def _is_numbered(
    root: IterationNode, above: Axis, below: Axis, primitives: Mapping[str, Primitive]
) -> bool | None:
    """Whether the level above moves operands by position; None where by coordinate as well."""
    used = _operands(root, primitives)
    by_position = {*above.segments[0].by_position}
    moved = {name for name in used if above.strides[name]}
    if below.segments[0].pos in used or not moved.isdisjoint(below.segments[0].by_position):
        return None
    numbered = moved & by_position
    return None if numbered and moved - by_position else bool(numbered)


def _operands(root: IterationNode, primitives: Mapping[str, Primitive]) -> set[str]:
    used: Iterable[str] = (
        name for _, leaf in _leaves(root, ()) for name in primitives[leaf.primitive].operands
    )
    return set(used)
