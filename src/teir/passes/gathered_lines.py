"""Rows that fibres gather, copied once to where lines of memory begin.

    parallel i over i                      scratch C_lines: FP64
      sequential j.B over j.B       ->     do_copy: copy                      (reads C)
        A: add_A                           parallel i over i
                                             sequential j.B over j.B
                                               A: add_A                       (reads C_lines)

Arrays of NumPy begin inside a line: a row of n lines then touches n + 1, and the first and the last
are read under masks. Reading rows where lines begin takes 0.82 to 0.91 of the time of a product
whose rows lie in the second cache. The copy moves every row three times (read, its place fetched,
written), and from the cache beyond, for a product streams more than itself through the second: as
long as ten to twenty gathers of the row. So it is made where every row is gathered far more often,
only of rows of whole lines, for the others it saves no line for sure, and only where it fills half
the second cache at most. No sum changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from teir.ir.nodes import (
    Bytes,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Program,
    Tensor,
)
from teir.passes.draft import Draft
from teir.passes.facts import Facts
from teir.passes.gathers import Gather, gathered_bytes, gathers_of, row_bytes
from teir.target import LINE_BYTES

_LEAST_GATHERS = 192
"""Gathers of a row, on average, from which on a copy pays; below 128 of rows of 512 bytes it did
not on a Golden Cove core."""


def with_gathered_lines(program: Program, stored: Mapping[str, int], facts: Facts) -> Program:
    """The program with copies of what its Contractions gather, where they pay.

    ``stored``: the elements of index arrays of coordinates by the name of their tensor. The same
    object where nothing pays.
    """
    if facts.vector_bytes != LINE_BYTES:
        return program
    draft = Draft(program)
    gathers = dict.fromkeys(
        gather for path, leaf in program.invocations() for gather in gathers_of(draft, path, leaf)
    )
    room, copies = facts.l2_bytes // 2, {}
    for gather in gathers:
        size_bytes = gathered_bytes(draft, gather)
        if size_bytes <= room and _pays(draft, gather, stored):
            room -= size_bytes
            copies[gather] = _copy(draft, gather)
    if not copies:
        return program
    lines = {gather: tensor.name for gather, (tensor, _) in copies.items()}
    first = tuple(leaf for _, leaf in copies.values())
    roots = tuple(_reading(draft, node, (), lines) for node in program.roots)
    scratch = tuple(tensor for tensor, _ in copies.values())
    return draft.finish((*first, *roots), (*program.scratch, *scratch))


def _pays(draft: Draft, gather: Gather, stored: Mapping[str, int]) -> bool:
    """Whether one walk over all fibres gathers every row often enough."""
    rows = draft.axes[gather.rows]
    return stored.get(rows.segments[0].crd, 0) >= _LEAST_GATHERS * rows.extent


def _copy(draft: Draft, gather: Gather) -> tuple[Tensor, InvocationNode]:
    """The scratch, its strides on the axes of the gather, and the leaf that fills it."""
    tensor = draft.scratch(f"{gather.tensor}_lines", draft.tensors[gather.tensor].data_type)
    for name, stride in (
        (gather.rows, row_bytes(draft, gather)),
        (gather.row, draft.width(gather.tensor)),
    ):
        known = draft.axes[name]
        strides = Bytes({**known.strides, tensor.name: stride})
        draft.axes[name] = replace(known, strides=strides)
    rows = draft.axes[gather.rows]
    both = {name: rows.strides[name] for name in (gather.tensor, tensor.name)}
    every = draft.axis(gather.rows.partition(".")[0], "rows", rows.extent, both, {})
    leaf = draft.invoke(Operation.COPY, (gather.tensor,), tensor.name, m=(every, gather.row))
    return tensor, leaf


def _reading(
    draft: Draft, node: Node, path: tuple[IterationNode, ...], lines: Mapping[Gather, str]
) -> Node:
    """The node with the copies in the place of what they were made of."""
    match node:
        case IterationNode():
            below = tuple(_reading(draft, one, (*path, node), lines) for one in node.children)
            return replace(node, children=below)
        case InvocationNode():
            names = {
                one.tensor: lines[one] for one in gathers_of(draft, path, node) if one in lines
            }
            if not names:
                return node
            primitive = draft.primitives[node.primitive]
            inputs = tuple(names.get(name, name) for name in primitive.inputs)
            return replace(node, primitive=draft.primitive(primitive, inputs=inputs))
