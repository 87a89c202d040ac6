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


@st.composite
def any_programs(draw: st.DrawFn, records: bool = False) -> Program:
    """A program; with ``records`` only what the record form accepts."""
    tensor_names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    axis_names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    primitive_names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    node_names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
    tensors = [
        Tensor(name=name, data_type=draw(st.sampled_from(DataType))) for name in tensor_names
    ]
    owned = [tensors.pop() for _ in range(draw(st.integers(0, len(tensors) - 1)))]
    roots, left = _forest(draw, node_names, axis_names, primitive_names, owned)
    widths = {tensor.name: tensor.data_type.width for tensor in (*tensors, *owned)}
    primitives = [
        _primitive(draw, name, tensor_names, axis_names, records) for name in primitive_names
    ]
    return Program(
        name=draw(st.text(_CHARACTERS, max_size=8)),
        tensors=tuple(tensors),
        scratch=tuple(left),
        axes=tuple(_axis(draw, name, widths, records) for name in axis_names),
        primitives=tuple(primitives),
        roots=roots,
    )


def _axis(draw: st.DrawFn, name: str, widths: dict[str, int], records: bool) -> Axis:
    low = 0 if records else -(2**62)
    steps = {tensor: draw(st.integers(low, 2**50)) * width for tensor, width in widths.items()}
    offsets = {tensor: draw(st.integers(-8, 8)) * width for tensor, width in widths.items()}
    names = st.sampled_from(sorted(widths))
    segments = st.builds(
        Segment, pos=names, crd=names, by_position=st.lists(names, max_size=2).map(tuple)
    )
    return Axis(
        name=name,
        extent=draw(st.integers(1 if records else -(2**62), 2**62 - 1)),
        strides=Bytes(steps),
        offsets=Bytes(offsets),
        segments=tuple(draw(st.lists(segments, max_size=2))),
    )


def _primitive(
    draw: st.DrawFn, name: str, tensors: list[str], axes: list[str], records: bool
) -> Primitive:
    operation = draw(st.sampled_from(Operation))
    contracts = operation is Operation.CONTRACTION or not records
    lists = st.lists(st.sampled_from(axes), max_size=3).map(tuple)
    keys = st.text(_CHARACTERS, max_size=6).filter(lambda key: key not in ("data_type", "operands"))
    metadata = draw(st.dictionaries(keys, JSON, max_size=2))
    return Primitive(
        name=name,
        operation=operation,
        inputs=tuple(draw(st.lists(st.sampled_from(tensors), max_size=3))),
        output=draw(st.sampled_from(tensors)),
        c=draw(lists) if contracts else (),
        m=draw(lists),
        n=draw(lists),
        k=draw(lists) if contracts else (),
        data_type=draw(st.none() | st.sampled_from(DataType)),
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
    for name in names:
        terms = st.builds(GuardTerm, kind=st.sampled_from(GuardKind), axis=st.sampled_from(axes))
        guard = tuple(draw(st.lists(terms, max_size=2)))
        taken = draw(st.integers(0, len(orphans)))
        if taken == 0:
            orphans.append(
                InvocationNode(name=name, primitive=draw(st.sampled_from(primitives)), guard=guard)
            )
            continue
        children = tuple(orphans[-taken:])
        del orphans[-taken:]
        mine = [left.pop() for _ in range(draw(st.integers(0, len(left))))]
        orphans.append(
            IterationNode(
                name=name,
                axis=draw(st.sampled_from(axes)),
                policy=draw(st.sampled_from(Policy)),
                children=children,
                guard=guard,
                scratch=tuple(mine),
            )
        )
    return tuple(orphans), left
