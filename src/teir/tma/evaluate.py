"""The meaning of a schedule, in plain Python: which item each position of the loops stands for.

Verbs are undone one by one, from the loops to the logical domain, on tuples of integers. This is
the definition; slow and never optimised. Inference, walks and the emulator are compared with it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import assert_never

from teir.tma.nodes import Flatten, Merge, Parallel, Reorder, Resize, Split, Swizzle, Transfer, Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A position of the loops: its logical index; ``valid``: every index on the way is in range."""

    index: tuple[int, ...]
    valid: bool


def loop_extents(shape: tuple[int, ...], schedule: tuple[Verb, ...]) -> tuple[int, ...]:
    """The extents of the loops ``schedule`` makes of ``shape``; ceil-div where a split rounds."""
    for verb in schedule:
        shape = _extents_after(shape, verb)
    return shape


def item_at(shape: tuple[int, ...], schedule: tuple[Verb, ...], loops: tuple[int, ...]) -> Item:
    """The item at loop indices ``loops``."""
    domains = [shape]
    for verb in schedule:
        domains.append(_extents_after(domains[-1], verb))
    index, valid = loops, _in_range(loops, domains[-1])
    for verb, extents in zip(reversed(schedule), reversed(domains[:-1]), strict=True):
        index = _undone(index, extents, verb)
        valid = valid and _in_range(index, extents)
    return Item(index=index, valid=valid)


def tiles(transfer: Transfer) -> tuple[frozenset[tuple[int, ...]], ...]:
    """The valid items of every tile, row-major over the loops that are not Bulk."""
    extents = loop_extents(transfer.shape, transfer.schedule)
    rank = len(extents)
    bulk = {axis % rank for axis, kind in transfer.parallel if kind is Parallel.BULK}
    outer = [range(n) if at not in bulk else range(1) for at, n in enumerate(extents)]
    inner = [range(n) if at in bulk else range(1) for at, n in enumerate(extents)]
    found: list[frozenset[tuple[int, ...]]] = []
    for base in itertools.product(*outer):
        items = (
            item_at(
                transfer.shape,
                transfer.schedule,
                tuple(a + b for a, b in zip(base, step, strict=True)),
            )
            for step in itertools.product(*inner)
        )
        found.append(frozenset(item.index for item in items if item.valid))
    return tuple(found)


def _in_range(index: tuple[int, ...], extents: tuple[int, ...]) -> bool:
    return all(0 <= one < extent for one, extent in zip(index, extents, strict=True))


def _extents_after(extents: tuple[int, ...], verb: Verb) -> tuple[int, ...]:
    listed = list(extents)
    rank = len(listed)
    match verb:
        case Split():
            axis = verb.axis % rank
            rest = -(-listed[axis] // verb.factor)
            listed[axis : axis + 1] = [verb.factor, rest] if verb.outer else [rest, verb.factor]
        case Merge():
            outer, inner = verb.outer % rank, verb.inner % rank
            product = listed[outer] * listed[inner]
            listed[min(outer, inner)] = product
            del listed[max(outer, inner)]
        case Reorder():
            listed = [listed[old] for old in _order(rank, verb)]
        case Flatten():
            first, last = verb.first % rank, verb.last % rank
            product = 1
            for extent in listed[first : last + 1]:
                product *= extent
            listed[first : last + 1] = [product]
        case Swizzle():
            pass
        case Resize():
            listed[verb.axis % rank] += verb.left + verb.right
        case _:
            assert_never(verb)
    return tuple(listed)


def _undone(index: tuple[int, ...], extents: tuple[int, ...], verb: Verb) -> tuple[int, ...]:
    """The index in the domain of ``extents``, before ``verb``."""
    listed = list(index)
    rank = len(extents)
    match verb:
        case Split():
            axis = verb.axis % rank
            rest = -(-extents[axis] // verb.factor)
            inner = rest if verb.outer else verb.factor
            listed[axis : axis + 2] = [listed[axis] * inner + listed[axis + 1]]
        case Merge():
            outer, inner = verb.outer % rank, verb.inner % rank
            merged = listed.pop(min(outer, inner))
            pair = {outer: merged // extents[inner], inner: merged % extents[inner]}
            for at in sorted(pair):
                listed.insert(at, pair[at])
        case Reorder():
            order = _order(rank, verb)
            listed = [index[order.index(old)] for old in range(rank)]
        case Flatten():
            first, last = verb.first % rank, verb.last % rank
            merged = listed[first]
            parts: list[int] = []
            for extent in reversed(extents[first + 1 : last + 1]):
                parts.insert(0, merged % extent)
                merged //= extent
            listed[first : first + 1] = [merged, *parts]
        case Swizzle():
            x, y = verb.x % rank, verb.y % rank
            listed[y] ^= listed[x]
        case Resize():
            listed[verb.axis % rank] -= verb.left
        case _:
            assert_never(verb)
    return tuple(listed)


def _order(rank: int, verb: Reorder) -> list[int]:
    """For every new position the old one."""
    placed = {new % rank: old % rank for old, new in verb.moves}
    rest = iter([old for old in range(rank) if old not in placed.values()])
    return [placed[new] if new in placed else next(rest) for new in range(rank)]
