"""Random products as plain loops around single elements: what passes make tiles of.

All loops are sequential, in any order, over operands whose axes lie in any order; a Zero under
the first reduction and a ReLU under the last are there or not.
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.ir.nodes import (
    Axis,
    Bytes,
    GuardKind,
    GuardTerm,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Primitive,
    Program,
    Tensor,
)
from teir.soak.draws import DrawInt, chance, choose, shuffled
from teir.soak.parts import DrawnProgram, exact_integers, largest_input

_TYPES = (DataType.FP32, DataType.FP64, DataType.C64, DataType.BF16)
_HOLDERS = {
    "b": ("in0", "in1", "out"),
    "m": ("in0", "out"),
    "n": ("in1", "out"),
    "k": ("in0", "in1"),
    "l": ("in0", "in1"),
}


def draw_loop_nest(draw: DrawInt, work: int) -> DrawnProgram:
    """A product of at most ``work`` multiply-adds, batched or not, over one or two reductions."""
    in_type = choose(draw, _TYPES)
    out_type = DataType.FP32 if in_type is DataType.BF16 else in_type
    extents = _extents(draw, work)
    types = {"in0": in_type, "in1": in_type, "out": out_type}
    strides = _strides(draw, extents, types)
    reductions = [name for name in extents if name in "kl"]
    leaves = _leaves(draw, reductions, with_relu=not out_type.is_complex and chance(draw, 30))
    node: tuple[Node, ...] = leaves
    for name in shuffled(draw, tuple(extents)):
        node = (
            IterationNode(name=f"loop_{name}", axis=name, policy=Policy.SEQUENTIAL, children=node),
        )
    program = Program(
        name="drawn",
        tensors=tuple(Tensor(name=name, data_type=kind) for name, kind in types.items()),
        axes=tuple(
            Axis(name=name, extent=extent, strides=Bytes(strides[name]))
            for name, extent in extents.items()
        ),
        primitives=_primitives(leaves),
        roots=node,
    )
    terms = extents["k"] * extents.get("l", 1)
    room = min(exact_integers(in_type), exact_integers(out_type)) if in_type is out_type else 2**20
    largest = largest_input(2, terms, in_type, room)
    return DrawnProgram(program=program, largest=largest, divisors=frozenset())


def _extents(draw: DrawInt, work: int) -> dict[str, int]:
    extents = {"k": draw(1, 24)}
    if chance(draw, 30):
        extents["l"] = draw(1, 4)
    if chance(draw, 40):
        extents["b"] = draw(1, 9)
    room = work
    for extent in extents.values():
        room //= extent
    extents["m"] = draw(1, max(1, min(40, room)))
    extents["n"] = draw(1, max(1, min(40, room // extents["m"])))
    return extents


def _strides(
    draw: DrawInt, extents: dict[str, int], types: dict[str, DataType]
) -> dict[str, dict[str, int]]:
    """Each tensor's axes in a random order, one behind the other, with a gap now and then."""
    strides: dict[str, dict[str, int]] = {name: {} for name in extents}
    for tensor, data_type in types.items():
        reach = data_type.width * (2 if chance(draw, 10) else 1)
        for name in shuffled(draw, tuple(extents)):
            if tensor in _HOLDERS[name]:
                strides[name][tensor] = reach
                reach = reach * extents[name] + (data_type.width if chance(draw, 20) else 0)
    return strides


def _leaves(draw: DrawInt, reductions: list[str], *, with_relu: bool) -> tuple[InvocationNode, ...]:
    def at(kind: GuardKind) -> tuple[GuardTerm, ...]:
        return tuple(GuardTerm(kind=kind, axis=name) for name in reductions)

    leaves = [InvocationNode(name="product", primitive="contraction")]
    if chance(draw, 70):
        leaves.insert(0, InvocationNode(name="zero", primitive="zero", guard=at(GuardKind.FIRST)))
    if with_relu:
        leaves.append(InvocationNode(name="relu", primitive="relu", guard=at(GuardKind.LAST)))
    return tuple(leaves)


def _primitives(leaves: tuple[InvocationNode, ...]) -> tuple[Primitive, ...]:
    known = {
        "zero": (Operation.ZERO, ()),
        "contraction": (Operation.CONTRACTION, ("in0", "in1")),
        "relu": (Operation.RELU, ("out",)),
    }
    return tuple(
        Primitive(
            name=leaf.primitive,
            operation=known[leaf.primitive][0],
            inputs=known[leaf.primitive][1],
            output="out",
        )
        for leaf in leaves
    )
