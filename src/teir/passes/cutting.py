"""Cutting an axis into blocks: the axes that walk the blocks, one block, and what remains."""

from __future__ import annotations

from dataclasses import dataclass

from teir.ir.nodes import IterationNode, Policy
from teir.passes.draft import Draft, Siblings


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an axis: the axis over its blocks (None: one block), and the axis inside one."""

    blocks: str | None
    inside: str


def cut(draft: Draft, axis: str, block: int) -> tuple[Piece, ...]:
    """The whole blocks of an axis, then what remains; offsets go with the outermost axis.

    An axis of at most ``block`` indices is its own single piece.
    """
    whole = draft.axes[axis]
    count, left = divmod(whole.extent, block)
    if count == 0 or (count == 1 and left == 0):
        return (Piece(None, axis),)
    if count == 1:
        first = Piece(None, draft.axis(axis, "first", block, whole.strides, whole.offsets))
    else:
        far = {name: stride * block for name, stride in whole.strides.items()}
        blocks = draft.axis(axis, "blocks", count, far, whole.offsets)
        first = Piece(blocks, draft.axis(axis, "inside", block, whole.strides, {}))
    if left == 0:
        return (first,)
    names = dict.fromkeys((*whole.offsets, *whole.strides))
    start = count * block
    offsets = {name: whole.offsets[name] + start * whole.strides[name] for name in names}
    return (first, Piece(None, draft.axis(axis, "rest", left, whole.strides, offsets)))


def cut_evenly(draft: Draft, axis: str, largest: int) -> tuple[Piece, ...]:
    """The fewest blocks of at most ``largest`` indices, the longer ones first.

    They differ by one index at most.
    """
    whole = draft.axes[axis]
    size, longer = divmod(whole.extent, -(-whole.extent // largest))
    start = longer * (size + 1)
    if start in (0, whole.extent):
        return cut(draft, axis, size)
    names = dict.fromkeys((*whole.offsets, *whole.strides))
    offsets = {name: whole.offsets[name] + start * whole.strides[name] for name in names}
    late = draft.axis(axis, "late", whole.extent - start, whole.strides, offsets)
    early = draft.axis(axis, "early", start, whole.strides, whole.offsets)
    return (*cut(draft, early, size + 1), *cut(draft, late, size))


def looped(draft: Draft, axis: str | None, body: Siblings, policy: Policy) -> Siblings:
    """``body`` inside a loop over ``axis``; as it is without an axis."""
    if axis is None or not body:
        return body
    name = draft.name(f"loop_{axis}")
    return (IterationNode(name=name, axis=axis, policy=policy, children=body),)
