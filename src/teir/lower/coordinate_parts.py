"""Lowering of roots whose fibres are walked in parts, as `teir.ir.coordinate_parts` says.

    i { j' { Zero T; k' { T += B C }; A += T D } }

    list the first parts;    i { j' of the list { Zero T; k' of the part { T += B C }; A += T D } }
    as often as is needed { list the next parts;    the same, without Zeros of results }

A list is to a part what the index arrays are to the operand: what is lowered is the same nest over
other arrays, so that the kernels are those of whole fibres.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.coordinate_parts import PartedNest, parted_nest
from teir.ir.nodes import Axis, Bytes, IterationNode, Node, Segment
from teir.lower.context import Context, Path
from teir.lower.kernel_program import Address, Call, KernelNode, Loop, Storage
from teir.lower.walked_kernels import FibreParts


@dataclass(frozen=True, slots=True)
class _Lists:
    """The names of the arrays of a list, and the call that makes the first or the next one."""

    rows: str
    fibres: str
    bounds: str
    first: Call
    following: Call


def lower_in_parts(
    node: IterationNode, path: Path, context: Context
) -> tuple[KernelNode, ...] | None:
    """The root in parts; None where nothing asks for that or it is not legal."""
    slots = context.slots
    types = {name: slots.slots[number].data_type for name, number in slots.number.items()}
    nest = parted_nest(node, context.axes, context.primitives, types)
    if nest is None:
        return None
    walked = context.axes[nest.walk.axis]
    size = context.parted.get(nest.leaf.primitive, walked.extent)
    if size >= walked.extent:
        return None
    made = _lists(nest, size, types, context)
    inside = _over_lists(nest, made, context)
    first = following = inside.siblings((node,), path, inside)
    if nest.cleared:
        following = inside.siblings((_without(node, nest.cleared),), path, inside)
    times = -(-walked.extent // size) - 1
    again = Loop(extent=times, steps=(), index=None, body=(made.following, *following))
    return (made.first, *first, again)


def _lists(nest: PartedNest, size: int, types: Mapping[str, DataType], context: Context) -> _Lists:
    """Room for a list of parts of all fibres.

    There is a place for every fibre there may be; of most lists only the first ones are used.
    """
    axes = [context.axes[one.axis] for one in (nest.rows, nest.fibres, nest.walk)]
    outer, inner = axes[1].segments[0], axes[2].segments[0]
    names = (outer.pos, outer.crd, inner.pos, inner.crd)
    pos1, crd1, pos2, crd2 = (types[name] for name in names)
    fibres = axes[0].extent * axes[1].extent
    room = context.room
    made = (
        ("limit of parts", DataType.I64, DataType.I64.width),
        ("ends of parts", pos2, fibres * pos2.width),
        ("rows of parts", pos1, (axes[0].extent + 1) * pos1.width),
        ("fibres of parts", crd1, fibres * crd1.width),
        ("bounds of parts", pos2, 2 * fibres * pos2.width),
    )
    added = [room.add(name, kind, Storage.RUN, bytes_) for name, kind, bytes_ in made]
    operands = (*(context.slots.number[name] for name in names), *added)
    kernel = FibreParts(types=(pos1, crd1, pos2, crd2), is_numbered=nest.is_numbered)
    calls = [
        Call(
            kernel=kernel,
            operands=tuple(Address(slot=slot, offset_bytes=0) for slot in operands),
            arguments=(axes[0].extent, size, first, int(bool(nest.cleared))),
        )
        for first in (1, 0)
    ]
    rows, listed, bounds = (name for name, _, _ in made[2:])
    return _Lists(rows, listed, bounds, first=calls[0], following=calls[1])


def _over_lists(nest: PartedNest, made: _Lists, context: Context) -> Context:
    """The context in which the loops of the nest walk the arrays of the list."""
    slots, number = tuple(context.room.slots), dict(context.slots.number)
    added = {one.tensor: place for place, one in enumerate(slots[-3:], len(slots) - 3)}
    width = {name: slots[place].data_type.width for name, place in added.items()}
    rows, above, below = (context.axes[one.axis] for one in (nest.rows, nest.fibres, nest.walk))
    outer, inner = above.segments[0], below.segments[0]
    old = {outer.pos, outer.crd, inner.pos}
    kept = {name: step for name, step in above.strides.items() if name not in old}
    lists = {made.fibres: width[made.fibres], made.bounds: 2 * width[made.bounds]}
    axes = (
        _moving(rows, {made.rows: width[made.rows]}),
        Axis(
            name=above.name,
            extent=above.extent * (rows.extent if nest.is_numbered else 1),
            strides=Bytes(kept | lists),
            segments=(Segment(pos=made.rows, crd=made.fibres, by_position=(made.bounds,)),),
        ),
        replace(below, segments=(replace(inner, pos=made.bounds),)),
    )
    return replace(
        context,
        axes=context.axes | {axis.name: axis for axis in axes},
        slots=replace(context.slots, slots=slots, number=number | added),
        is_part=True,
    )


def _moving(axis: Axis, steps: Mapping[str, int]) -> Axis:
    return replace(axis, strides=Bytes({**axis.strides, **steps}))


def _without(node: IterationNode, names: frozenset[str]) -> IterationNode:
    """The node without the leaves of these names."""
    kept: list[Node] = []
    for child in node.children:
        if isinstance(child, IterationNode):
            kept.append(_without(child, names))
        elif child.name not in names:
            kept.append(child)
    return replace(node, children=tuple(kept))
