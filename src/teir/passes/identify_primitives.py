"""Find the axes that primitives consume in a nest of loops around single elements (section 5.5.1).

    sequential m over m                     primitive zero = Zero(out; M=[m], N=[n])
      sequential n over n                   primitive product =
        sequential k over k            ->     Contraction(in0, in1 -> out; M=[m], N=[n], K=[k])
          zero: zero if first(k)            zero: zero
          product: product                  product: product

Ternary: K axes stand in no output; the primitive K has unit stride in the second input and a second
one becomes the batch in front of it; M has unit stride in the first input and the output where such
an axis exists, else the smallest stride in the output; N has the smallest stride in the second
input. An axis of all tensors (C) that is adjacent in the output is consumed too. Unary: M has unit
stride in the input; where it has not in the output, the copy transposes and N is the axis that has.
Binary: M has the smallest strides in all tensors, N the next. The other loops stay. Where the
summed axes are not consumed innermost first, the order of the sum changes; without rounding the
result does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from teir.ir.nodes import (
    GuardKind,
    GuardTerm,
    InvocationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Role,
)
from teir.passes.chains import Chain, chain_below, free_loops, is_chained, rebuilt
from teir.passes.draft import Draft, Path, Siblings, change_siblings
from teir.passes.split_axes import role_of
from teir.passes.still_offsets import has_still_offsets


def identify_primitives(program: Program) -> Program:
    """The program whose nests around single elements became primitives on tiles."""
    if has_still_offsets(program):
        return program
    draft = Draft(program)

    def change(nodes: Siblings, path: Path) -> Siblings:
        changed: list[Node] = []
        for node in nodes:
            changed += _identified(draft, node, path)
        return tuple(changed)

    return draft.finish(change_siblings(program.roots, change))


@dataclass(frozen=True, slots=True)
class _Nest:
    """A sequential chain around scalar leaves: those before the main one, and those after."""

    chain: Chain
    before: tuple[InvocationNode, ...]
    main: InvocationNode
    after: tuple[InvocationNode, ...]
    primitive: Primitive


@dataclass(frozen=True, slots=True)
class _Tile:
    """The axes the main primitive consumes."""

    c: tuple[str, ...] = ()
    m: tuple[str, ...] = ()
    n: tuple[str, ...] = ()
    k: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        return self.c + self.m + self.n + self.k


def _identified(draft: Draft, node: Node, path: Path) -> Siblings:
    if isinstance(node, InvocationNode) or node.policy is Policy.PARALLEL:
        return (node,)
    if path and is_chained(draft, path[-1], node):
        return (node,)
    nest = _nest(draft, chain_below(node, draft))
    if nest is None:
        return (node,)
    free = free_loops(draft, nest.chain, path)
    tile = _tile(draft, nest, free)
    if not tile.axes or not _may_consume(draft, nest, tile, free):
        return (node,)
    return _consumed(draft, nest, tile)


def _nest(draft: Draft, chain: Chain) -> _Nest | None:
    """The chain as a nest; None where its leaves are not a main one between Zero and ReLU."""
    leaves = [node for node in chain.body if isinstance(node, InvocationNode)]
    if len(leaves) != len(chain.body) or any(loop.scratch for loop in chain.loops):
        return None
    primitives = [draft.primitives[leaf.primitive] for leaf in leaves]
    if any(primitive.axes for primitive in primitives):
        return None
    places = [at for at, leaf in enumerate(leaves) if not leaf.guard] or [0]
    at = places[0]
    main = primitives[at]
    around = primitives[:at] + primitives[at + 1 :]
    if any(draft.axes[axis].is_sparse for axis in chain.axes):
        return None
    fits = leaves[at].guard == () or len(leaves) == 1
    fits &= all(item.operands == (main.output,) * len(item.operands) for item in around)
    fits &= not around or main.output not in main.inputs
    if not fits or any(term.axis in chain.axes for term in leaves[at].guard):
        return None
    return _Nest(chain, tuple(leaves[:at]), leaves[at], tuple(leaves[at + 1 :]), main)


def _may_consume(draft: Draft, nest: _Nest, tile: _Tile, free: frozenset[str]) -> bool:
    """Free axes always; summed ones where the other leaves run before and after the whole sum."""
    if not set(tile.axes) - set(tile.k) <= free:
        return False
    summed = [axis for axis in nest.chain.axes if axis not in free]
    output = nest.primitive.output
    if tile.k and (
        output in nest.primitive.inputs
        or any(draft.axes[axis].strides[output] for axis in summed)
        or not set(tile.k) <= set(summed)
    ):
        return False
    kinds = ((nest.before, GuardKind.FIRST), (nest.after, GuardKind.LAST))
    for leaves, kind in kinds:
        whole = {GuardTerm(kind=kind, axis=axis) for axis in summed}
        for leaf in leaves:
            own = {term for term in leaf.guard if term.axis in nest.chain.axes}
            if own != whole and (tile.k or any(term.axis in tile.axes for term in own)):
                return False
    return True


def _consumed(draft: Draft, nest: _Nest, tile: _Tile) -> Siblings:
    across = (*tile.c, *tile.m)

    def around(leaf: InvocationNode) -> InvocationNode:
        primitive = draft.primitives[leaf.primitive]
        guard = tuple(term for term in leaf.guard if term.axis not in tile.k)
        name = draft.primitive(primitive, m=across, n=tile.n)
        return replace(leaf, primitive=name, guard=guard)

    main = nest.primitive
    name = draft.primitive(main, c=tile.c, m=tile.m, n=tile.n, k=tile.k)
    body = (
        *map(around, nest.before),
        replace(nest.main, primitive=name),
        *map(around, nest.after),
    )
    loops = [loop for loop in nest.chain.loops if loop.axis not in tile.axes]
    guard = nest.chain.loops[0].guard
    if not loops:
        return tuple(replace(leaf, guard=(*guard, *leaf.guard)) for leaf in body)
    loops = [replace(loop, guard=guard if loop is loops[0] else ()) for loop in loops]
    return (rebuilt(loops, body),)


def _tile(draft: Draft, nest: _Nest, free: frozenset[str]) -> _Tile:
    primitive = nest.primitive
    inner_first = [axis for axis in reversed(nest.chain.axes) if axis in free]
    if primitive.operation is Operation.CONTRACTION:
        return _contraction_tile(draft, nest, inner_first, free)
    return _elementwise_tile(draft, primitive, inner_first)


def _elementwise_tile(draft: Draft, primitive: Primitive, axes: Sequence[str]) -> _Tile:
    """M by the strides of the first input, N adjacent in the output or next to M."""
    moving = [axis for axis in axes if draft.axes[axis].strides[primitive.output]]
    if not moving:
        return _Tile()
    tensors = (*primitive.inputs[:1], primitive.output)

    def near(axis: str) -> tuple[int, ...]:
        return tuple(_stride(draft, axis, tensor) for tensor in tensors)

    m = min(moving, key=near)
    rest = [axis for axis in moving if axis != m]
    if not rest:
        return _Tile(m=(m,))
    transposed = [axis for axis in rest if _is_unit(draft, axis, primitive.output)]
    if transposed and not _is_unit(draft, m, primitive.output):
        return _Tile(m=(m,), n=(transposed[0],))
    return _Tile(m=(m,), n=(min(rest, key=near),))


def _contraction_tile(
    draft: Draft, nest: _Nest, axes: Sequence[str], free: frozenset[str]
) -> _Tile:
    primitive = nest.primitive
    output, first = primitive.output, primitive.inputs[0]
    second = primitive.inputs[1] if len(primitive.inputs) == 2 else first
    kinds: dict[Role, list[str]] = {role: [] for role in Role}
    for axis in axes:
        kinds[role_of(draft.axes[axis].strides, primitive)].append(axis)

    def by_output(axis: str) -> tuple[bool, int, int]:
        unit = _is_unit(draft, axis, first) and _is_unit(draft, axis, output)
        return (not unit, _stride(draft, axis, output), _stride(draft, axis, first))

    m = sorted(kinds[Role.M], key=by_output)[:1]
    n = sorted(
        kinds[Role.N],
        key=lambda axis: (_stride(draft, axis, second), _stride(draft, axis, output)),
    )[:1]
    c = [axis for axis in kinds[Role.C] if _is_unit(draft, axis, output)][:1]
    summed = [axis for axis in reversed(nest.chain.axes) if axis not in free]
    unit = [axis for axis in summed if _is_unit(draft, axis, second)]
    unit += [axis for axis in summed if _is_unit(draft, axis, first)]
    k = (unit or summed)[:1]
    batch = [axis for axis in summed if axis not in k][:1]
    return _Tile(c=tuple(c), m=tuple(m), n=tuple(n), k=(*batch, *k))


def _is_unit(draft: Draft, axis: str, tensor: str) -> bool:
    return draft.axes[axis].strides[tensor] == draft.width(tensor)


def _stride(draft: Draft, axis: str, tensor: str) -> int:
    """The stride, a very large one where the axis does not move the tensor."""
    return draft.axes[axis].strides[tensor] or 1 << 62
