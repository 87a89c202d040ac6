"""Programs that use everything the text form can say, meaningful or not.

Every name leads somewhere, so they can be read back; values, roles and guards are arbitrary.
"""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

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
    Segment,
    Tensor,
)

_CHARACTERS = 'ab_1.-> #,:"\\\n\x00\u2028éλ😀'
_WORDS = [
    "p",
    "in0",
    "B.pos1",
    "_",
    "tensor",
    "if",
    "over",
    "first",
    "",
    "1",
    "a b",
    'q"',
    "#",
    "λ",
]
NAMES = st.one_of(st.sampled_from(_WORDS), st.text(_CHARACTERS, max_size=6))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(_CHARACTERS, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(_CHARACTERS, max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)
# A strategy is examined when it is made: those that do not depend on the program are made once.
_SOME_NAMES = {
    most: st.lists(NAMES, min_size=1, max_size=most, unique=True) for most in (3, 4, 5, 8)
}
_TITLES = st.text(_CHARACTERS, max_size=8)
_TYPES = st.sampled_from(DataType)
_DECLARED_TYPES = st.none() | _TYPES
_OPERATIONS = st.sampled_from(Operation)
_POLICIES = st.sampled_from(Policy)
_KEYS = st.text(_CHARACTERS, max_size=6).filter(lambda key: key not in ("data_type", "operands"))
_METADATA = st.dictionaries(_KEYS, JSON, max_size=2)


@st.composite
def any_programs(draw: st.DrawFn, records: bool = False) -> Program:
    """A program; with ``records`` only what the record form accepts."""
    tensor_names = draw(_SOME_NAMES[5])
    axis_names = draw(_SOME_NAMES[4])
    primitive_names = draw(_SOME_NAMES[3])
    node_names = draw(_SOME_NAMES[8])
    tensors = [Tensor(name=name, data_type=draw(_TYPES)) for name in tensor_names]
    owned = [tensors.pop() for _ in range(draw(st.integers(0, len(tensors) - 1)))]
    roots, left = _forest(draw, node_names, axis_names, primitive_names, owned)
    widths = {tensor.name: tensor.data_type.width for tensor in (*tensors, *owned)}
    operands, named = st.sampled_from(tensor_names), st.sampled_from(axis_names)
    inputs, roles = st.lists(operands, max_size=3), st.lists(named, max_size=3).map(tuple)
    primitives = [
        _primitive(draw, name, inputs, operands, roles, records) for name in primitive_names
    ]
    segments = _segments(sorted(widths))
    return Program(
        name=draw(_TITLES),
        tensors=tuple(tensors),
        scratch=tuple(left),
        axes=tuple(_axis(draw, name, widths, segments, records) for name in axis_names),
        primitives=tuple(primitives),
        roots=roots,
    )


def _segments(tensors: list[str]) -> st.SearchStrategy[list[Segment]]:
    names = st.sampled_from(tensors)
    one = st.builds(
        Segment, pos=names, crd=names, by_position=st.lists(names, max_size=2).map(tuple)
    )
    return st.lists(one, max_size=2)


def _axis(
    draw: st.DrawFn,
    name: str,
    widths: dict[str, int],
    segments: st.SearchStrategy[list[Segment]],
    records: bool,
) -> Axis:
    low = 0 if records else -(2**62)
    steps = {tensor: draw(st.integers(low, 2**50)) * width for tensor, width in widths.items()}
    offsets = {tensor: draw(st.integers(-8, 8)) * width for tensor, width in widths.items()}
    return Axis(
        name=name,
        extent=draw(st.integers(1 if records else -(2**62), 2**62 - 1)),
        strides=Bytes(steps),
        offsets=Bytes(offsets),
        segments=tuple(draw(segments)),
    )


def _primitive(
    draw: st.DrawFn,
    name: str,
    inputs: st.SearchStrategy[list[str]],
    operands: st.SearchStrategy[str],
    roles: st.SearchStrategy[tuple[str, ...]],
    records: bool,
) -> Primitive:
    operation = draw(_OPERATIONS)
    contracts = operation is Operation.CONTRACTION or not records
    metadata = draw(_METADATA)
    return Primitive(
        name=name,
        operation=operation,
        inputs=tuple(draw(inputs)),
        output=draw(operands),
        c=draw(roles) if contracts else (),
        m=draw(roles),
        n=draw(roles),
        k=draw(roles) if contracts else (),
        data_type=draw(_DECLARED_TYPES),
        metadata=tuple(
            (key, msgspec.json.encode(metadata[key]).decode()) for key in sorted(metadata)
        ),
    )


def _forest(
    draw: st.DrawFn,
    names: list[str],
    axes: list[str],
    primitives: list[str],
    owned: list[Tensor],
) -> tuple[tuple[Node, ...], list[Tensor]]:
    """Nodes are drawn leaves first; an iteration node takes some of those without a parent.

    Returns the roots and the scratch tensors that no node took.
    """
    left = list(owned)
    orphans: list[Node] = []
    walked, invoked = st.sampled_from(axes), st.sampled_from(primitives)
    terms = st.builds(GuardTerm, kind=st.sampled_from(GuardKind), axis=walked)
    guards = st.lists(terms, max_size=2)
    for name in names:
        guard = tuple(draw(guards))
        taken = draw(st.integers(0, len(orphans)))
        if taken == 0:
            orphans.append(InvocationNode(name=name, primitive=draw(invoked), guard=guard))
            continue
        children = tuple(orphans[-taken:])
        del orphans[-taken:]
        mine = [left.pop() for _ in range(draw(st.integers(0, len(left))))]
        orphans.append(
            IterationNode(
                name=name,
                axis=draw(walked),
                policy=draw(_POLICIES),
                children=children,
                guard=guard,
                scratch=tuple(mine),
            )
        )
    return tuple(orphans), left
