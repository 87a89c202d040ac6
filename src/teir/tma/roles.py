"""Roles of IterDomains: which are partitioned, which are boxes, tiles and strides.

Passes run over the path to a fixed point, the first that finds something starts the round again.
Each consumes the steps it explains:

    (a) everything Bulk                       -> Bulk
    (b) nothing Bulk                          -> not Bulk
    (c) (Bulk, not Bulk) -> one               striding: one is a box, its outer part the tile
    (d) (not Bulk, Bulk or box) -> one        boxing: one is partitioned
    (e) (not Bulk, partitioned) -> one        rotation up, where the box divides the partitioned
    (f) (partitioned, Bulk) -> one            tiles merge into a larger box, dense boxes only

What is left is a view of the allocation domain (tile loads, section 1.4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from teir.tma.domain import IterDomain, MergeExpression, SplitExpression
from teir.tma.path import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxed:
    """A partitioned IterDomain and what is known of its box.

    ``box`` is None where rotation made the box of several IterDomains. ``tiles`` are Bulk, outer
    to inner; ``stride`` is the stride IterDomain of a strided box.
    """

    partitioned: IterDomain
    box: IterDomain | None
    box_extent: int
    tiles: tuple[IterDomain, ...]
    stride: IterDomain | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """What the passes found, and the steps they left: ``view``."""

    bulk: frozenset[IterDomain]
    not_bulk: frozenset[IterDomain]
    boxed: tuple[Boxed, ...]
    explained: tuple[Step, ...]
    view: tuple[Step, ...]


_Pass = Callable[[Step, Roles], Roles | None]
"""The roles with what ``step`` explains, None where it explains nothing."""


def infer_roles(
    path: tuple[Step, ...], bulk: frozenset[IterDomain], not_bulk: frozenset[IterDomain]
) -> Roles:
    """Roles on ``path``, given which loop IterDomains are Bulk and which are not."""
    roles = Roles(bulk=bulk, not_bulk=not_bulk, boxed=(), explained=(), view=path)
    passes = (_all_bulk, _none_bulk, _striding, _boxing, _rotate_up, _merge_tiles)
    while True:
        for one_pass in passes:
            found = _run(one_pass, roles)
            if found is not roles:
                roles = found
                break
        else:
            return roles


def _run(one_pass: _Pass, roles: Roles) -> Roles:
    """One walk along the path; the same object where nothing was explained."""
    before = roles
    left: list[Step] = []
    explained: list[Step] = []
    for step in before.view:
        found = one_pass(step, roles)
        if found is None:
            left.append(step)
            continue
        roles = found
        explained.append(step)
    if not explained:
        return before
    return replace(roles, explained=(*before.explained, *explained), view=tuple(left))


def _all_bulk(step: Step, roles: Roles) -> Roles | None:
    if not all(one in roles.bulk for one in step.from_):
        return None
    return replace(roles, bulk=roles.bulk | frozenset(step.to))


def _none_bulk(step: Step, roles: Roles) -> Roles | None:
    if not all(one in roles.not_bulk for one in step.from_):
        return None
    return replace(roles, not_bulk=roles.not_bulk | frozenset(step.to))


def _striding(step: Step, roles: Roles) -> Roles | None:
    if not _two_to_one(step):
        return None
    outer, inner = step.from_
    if outer not in roles.bulk or inner not in roles.not_bulk:
        return None
    box = step.to[0]
    new = Boxed(partitioned=box, box=box, box_extent=box.extent, tiles=(outer,), stride=inner)
    return replace(roles, boxed=(*roles.boxed, new))


def _boxing(step: Step, roles: Roles) -> Roles | None:
    if not _two_to_one(step):
        return None
    outer, inner = step.from_
    if outer not in roles.not_bulk:
        return None
    known = next((one for one in roles.boxed if one.box == inner), None)
    if known is not None:
        return _replaced(roles, known, replace(known, partitioned=step.to[0]))
    if inner not in roles.bulk:
        return None
    new = Boxed(
        partitioned=step.to[0], box=inner, box_extent=inner.extent, tiles=(inner,), stride=None
    )
    return replace(roles, boxed=(*roles.boxed, new))


def _rotate_up(step: Step, roles: Roles) -> Roles | None:
    if not _two_to_one(step):
        return None
    outer, inner = step.from_
    known = next((one for one in roles.boxed if one.partitioned == inner), None)
    if outer not in roles.not_bulk or known is None or inner.extent % known.box_extent:
        return None
    return _replaced(roles, known, replace(known, partitioned=step.to[0]))


def _merge_tiles(step: Step, roles: Roles) -> Roles | None:
    if not _two_to_one(step):
        return None
    outer, inner = step.from_
    known = next((one for one in roles.boxed if one.partitioned == outer), None)
    if known is None or known.stride is not None or inner not in roles.bulk:
        return None
    new = Boxed(
        partitioned=step.to[0],
        box=None,
        box_extent=known.box_extent * inner.extent,
        tiles=(*known.tiles, inner),
        stride=None,
    )
    return _replaced(roles, known, new)


def _two_to_one(step: Step) -> bool:
    return (
        isinstance(step.expression, SplitExpression | MergeExpression)
        and len(step.from_) == 2
        and len(step.to) == 1
    )


def _replaced(roles: Roles, old: Boxed, new: Boxed) -> Roles:
    return replace(roles, boxed=tuple(new if one is old else one for one in roles.boxed))
