"""Rows that deep fibres gather from beyond the second cache, in slabs of columns that stay in it.

    parallel i over i                      scratch D_slab: FP64
      sequential j.B over j.B              sequential loop_m_2 over m_2
        scratch T1: FP64                     do_copy: copy                 (reads D)
        clear_T1: zero_T1           ->       parallel i over i
        sequential k.B over k.B                sequential j.B over j.B
          T1: add_T1                             scratch T1: FP64
        A: add_A                                 clear_T1: zero_T1
                                                 sequential k.B over k.B
                                                   T1: add_T1              (reads D_slab)
                                                 A: add_A

Where the third cache is far a gather of scattered rows takes as long as their lines take from
there. A slab has so many lines of every row that all of it stays in the second cache; fibres are
walked once per slab. No sum changes, for the axis along a row moves everything that is written.

Measured on a Golden Cove core, 28,800 rows of FP64 gathered 20 times each, a slab of one line:
copying it takes 0.4 ms, walking the fibres 2.2 ms, and without slabs a line of every row takes
3.1 ms and more. Rows gathered three times took twice as long in slabs. What fibres add into often
does too: every slab of it begins and ends inside lines. Rows of scratch begin with lines, and
gained nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import (
    Axis,
    Bytes,
    InvocationNode,
    IterationNode,
    Node,
    Operation,
    Policy,
    Program,
    Tensor,
)
from teir.passes.cache_blocks import is_third_cache_far
from teir.passes.cutting import looped
from teir.passes.draft import Draft, Path, Siblings, below
from teir.passes.facts import Facts
from teir.passes.gathers import Gather, gathered_bytes, gathers_of, row_bytes
from teir.passes.groups import with_axes
from teir.target import LINE_BYTES

_LEAST_GATHERS = 16
"""Gathers of a row, on average: a line is copied in the time that six of them win."""
_MOST_SLABS = 4
"""Every slab reads what is stored again, from memory where the operand fills the third cache: eight
slabs took 0.9 of the time in calls of their own and 1.1 between others."""
_LEAST_SUMMED = 48
"""Gathers for every row of a result: with 59 slabs took 0.8 of the time, with 30 1.08."""


@dataclass(frozen=True, slots=True)
class _Slabs:
    """What is gathered in slabs of so many columns."""

    gather: Gather
    columns: int


def with_gathered_slabs(program: Program, stored: Mapping[str, int], facts: Facts) -> Program:
    """The program with the roots that gather in slabs, where that pays.

    ``stored``: the elements of index arrays of coordinates by the name of their tensor. For one
    thread: others have second caches of their own. The same object where nothing pays.
    """
    is_far = is_third_cache_far(facts.l2_bytes, facts.l3_bytes)
    if facts.threads > 1 or facts.vector_bytes != LINE_BYTES or not is_far:
        return program
    draft, scratch = Draft(program), program.scratch
    roots: Siblings = ()
    for root in program.roots:
        slabs = _slabs(draft, root, stored, facts)
        if slabs is None:
            roots += (root,)
            continue
        made, tensor = _in_slabs(draft, root, slabs)
        roots, scratch = (*roots, *made), (*scratch, tensor)
    return draft.finish(roots, scratch)


def _slabs(draft: Draft, root: Node, stored: Mapping[str, int], facts: Facts) -> _Slabs | None:
    """How the root gathers in slabs; None where that is not legal or does not pay."""
    found = {
        gather: columns
        for path, leaf in _leaves(root)
        for gather in gathers_of(draft, path, leaf)
        if (columns := _columns(draft, gather, facts))
        and _is_gathered_often(draft, path, gather, stored)
    }
    if len(found) != 1:
        return None
    ((gather, columns),) = found.items()
    gathers = stored[draft.axes[gather.rows].segments[0].crd]
    for path, leaf in _leaves(root):
        used = _used(draft, path, leaf)
        if not _is_moved(draft, leaf, gather.row, used, draft.written((root,))):
            return None
        rows = _result_rows(draft, leaf, [one for one in used if one.name != gather.row], stored)
        if gathers < _LEAST_SUMMED * rows:
            return None
    has_guards = any(node.guard for node in below((root,)))
    return None if has_guards or draft.axes[gather.row].offsets else _Slabs(gather, columns)


def _leaves(node: Node, path: Path = ()) -> Iterator[tuple[Path, InvocationNode]]:
    """The leaves of a subtree and their ancestors."""
    match node:
        case InvocationNode():
            yield path, node
        case IterationNode():
            for child in node.children:
                yield from _leaves(child, (*path, node))


def _used(draft: Draft, path: Path, leaf: InvocationNode) -> list[Axis]:
    """The axes around and inside a leaf."""
    inside = draft.primitives[leaf.primitive].axes
    return [draft.axes[name] for name in dict.fromkeys((*(node.axis for node in path), *inside))]


def _columns(draft: Draft, gather: Gather, facts: Facts) -> int:
    """Columns of a slab: as many whole lines as fit the second cache; 0 where slabs do not pay."""
    data_type = draft.tensors[gather.tensor].data_type
    if data_type not in (DataType.FP32, DataType.FP64):
        return 0
    lines = row_bytes(draft, gather) // LINE_BYTES
    line_bytes = draft.axes[gather.rows].extent * LINE_BYTES
    room = facts.l2_bytes - facts.l2_bytes // 16
    if gathered_bytes(draft, gather) < 3 * facts.l2_bytes // 2 or line_bytes > room:
        return 0
    most = max(one for one in range(1, lines + 1) if lines % one == 0 and one * line_bytes <= room)
    return most * LINE_BYTES // data_type.width if lines <= _MOST_SLABS * most else 0


def _is_gathered_often(draft: Draft, path: Path, gather: Gather, stored: Mapping[str, int]) -> bool:
    """Whether scattered rows are gathered many times: fibres of matrices gather near ones."""
    rows = draft.axes[gather.rows]
    above = [draft.axes[node.axis] for node in path]
    is_deep = any(one.is_sparse and one.strides[rows.segments[0].pos] for one in above)
    return is_deep and stored.get(rows.segments[0].crd, 0) >= _LEAST_GATHERS * rows.extent


def _is_moved(
    draft: Draft, leaf: InvocationNode, axis: str, used: list[Axis], written: frozenset[str]
) -> bool:
    """Whether parts of the axis have nothing in common of what is written around the leaf."""
    primitive = draft.primitives[leaf.primitive]
    if axis not in primitive.axes:
        return False
    others = [one for one in used if one.name != axis]
    return all(
        _is_apart(draft.axes[axis], others, tensor, draft.width(tensor))
        for tensor in written.intersection(primitive.operands)
    )


def _is_apart(axis: Axis, others: list[Axis], tensor: str, width: int) -> bool:
    """Whether the others lead from no index of ``axis`` to where another index of it is."""
    step = axis.strides[tensor]
    if step < width or any(one.strides[tensor] < 0 or one.offsets[tensor] for one in others):
        return False
    near = [one for one in others if one.strides[tensor] < step]
    far = [one for one in others if one.strides[tensor] >= step]
    reach = width + sum((one.extent - 1) * one.strides[tensor] for one in near)
    return reach <= step and all(one.strides[tensor] % (step * axis.extent) == 0 for one in far)


def _result_rows(
    draft: Draft, leaf: InvocationNode, others: list[Axis], stored: Mapping[str, int]
) -> int:
    """The rows that these axes lead to of what the leaf writes; 0 of scratch."""
    tensor = draft.primitives[leaf.primitive].output
    if tensor not in {one.name for one in draft.program.tensors}:
        return 0
    count = 1
    for axis in others:
        numbers = [one.crd for one in axis.segments if tensor in one.by_position]
        if numbers:
            count = min(stored.get(one, axis.extent) for one in numbers)
        elif axis.strides[tensor]:
            count *= axis.extent
    return count


def _in_slabs(draft: Draft, root: Node, slabs: _Slabs) -> tuple[Siblings, Tensor]:
    """The root in a loop over slabs, and the scratch that holds one."""
    gather, columns = slabs.gather, slabs.columns
    row, rows = draft.axes[gather.row], draft.axes[gather.rows]
    width, data_type = draft.width(gather.tensor), draft.tensors[gather.tensor].data_type
    slab = draft.scratch(f"{gather.tensor}_slab", data_type)
    loops = [node for node in below((root,)) if isinstance(node, IterationNode)]
    own = {tensor.name for node in loops for tensor in node.scratch}
    far = {name: columns * step for name, step in row.strides.items() if name not in own}
    blocks = draft.axis(row.name, "blocks", row.extent // columns, far, {})
    near = {**row.strides, slab.name: width}
    inside = draft.axis(row.name, "inside", columns, near, {})
    strides = Bytes({**rows.strides, slab.name: columns * width})
    draft.axes[rows.name] = replace(rows, strides=strides)
    both = {name: strides[name] for name in (gather.tensor, slab.name)}
    every = draft.axis(rows.name.partition(".")[0], "rows", rows.extent, both, {})
    copy = draft.invoke(Operation.COPY, (gather.tensor,), slab.name, m=(every, inside))
    reading = _reading(draft, root, (), gather, inside, slab.name)
    return looped(draft, blocks, (copy, reading), Policy.SEQUENTIAL), slab


def _reading(draft: Draft, node: Node, path: Path, gather: Gather, inside: str, slab: str) -> Node:
    """The subtree on the columns of a slab, which it gathers."""
    match node:
        case InvocationNode():
            gathers = gather in gathers_of(draft, path, node)
            inputs = {gather.tensor: slab} if gathers else {}
            return with_axes(draft, node, {gather.row: inside}, (), inputs)
        case IterationNode():
            inner = (*path, node)
            children = (_reading(draft, one, inner, gather, inside, slab) for one in node.children)
            return replace(node, children=tuple(children))
