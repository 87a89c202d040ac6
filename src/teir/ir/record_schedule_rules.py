"""Schedule, node and guard rules of section 10.5 on a record file, one function per rule."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from teir.errors import Finding, Place, RecordPlace
from teir.ir.limits import SCHEDULE_DEPTH
from teir.ir.name_rules import NameSpace
from teir.ir.reading_rules import DEPTH
from teir.ir.record_entries import Entries
from teir.ir.record_rules import (
    ACYCLIC,
    CHILDREN_EXIST,
    GUARD_TERM,
    ONE_PARENT,
    ROOT_IS_NO_CHILD,
    ROOT_ONCE,
)


def children_exist(entries: Entries) -> Iterator[Finding]:
    """An iteration node's children list is non-empty."""
    for entry in entries.iterations:
        if not entry.record.children:
            yield Finding(
                rule=CHILDREN_EXIST,
                place=entry.place(".children"),
                expected="at least one node",
                found="none",
            )


def guard_term(entries: Entries) -> Iterator[Finding]:
    """A guard is either None or a conjunction of first and last terms."""
    for entry in entries.nodes:
        for index, term in enumerate(entry.record.guard or ()):
            if (term.first is UNSET) == (term.last is UNSET):
                yield Finding(
                    rule=GUARD_TERM,
                    place=entry.place(f".guard[{index}]"),
                    expected='{"first": axis} or {"last": axis}',
                    found="neither" if term.first is UNSET else "both in one term",
                )


def root_once(entries: Entries) -> Iterator[Finding]:
    """Every root appears in roots exactly once."""
    seen: set[str] = set()
    for index, root in enumerate(entries.roots):
        if root in seen:
            yield Finding(
                rule=ROOT_ONCE,
                place=RecordPlace(path=f"$.schedule.roots[{index}]"),
                expected="each root once",
                found=f"{root!r} again",
            )
        seen.add(root)


def root_is_no_child(entries: Entries) -> Iterator[Finding]:
    """Every root appears in no children list."""
    roots = frozenset(entries.roots)
    for place, child in _child_mentions(entries):
        if child in roots:
            yield Finding(
                rule=ROOT_IS_NO_CHILD,
                place=place,
                expected="a node that is no root",
                found=f"the root {child!r}",
            )


def one_parent(entries: Entries) -> Iterator[Finding]:
    """Every non-root node appears in exactly one children list."""
    roots = frozenset(entries.roots)
    parents: dict[str, str] = {}
    for place, child in _child_mentions(entries):
        if child in roots:
            continue
        first = parents.setdefault(child, str(place))
        if first != str(place):
            yield Finding(
                rule=ONE_PARENT,
                place=place,
                expected="each node in one children list, once",
                found=f"{child!r}, which stands at {first} too",
            )
    if NameSpace.NODE not in entries.complete:
        return
    for entry in entries.nodes:
        name = str(entry.record.id)
        if name not in roots and name not in parents:
            yield Finding(
                rule=ONE_PARENT,
                place=entry.place(".id"),
                expected="a root, or a node in one children list",
                found=f"{name!r}, which is never reached",
            )


def acyclic(entries: Entries) -> Iterator[Finding]:
    """No node appears in its own transitive descendants; one finding for each closing child."""
    children = _children(entries)
    done: set[str] = set()
    for start in children:
        path: dict[str, None] = {}
        stack = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                del path[name]
                done.add(name)
                continue
            if name in done or name in path:
                continue
            path[name] = None
            stack.append((name, True))
            for position, child in enumerate(children[name][1]):
                if child in path:
                    yield Finding(
                        rule=ACYCLIC,
                        place=RecordPlace(path=f"{children[name][0]}.children[{position}]"),
                        expected="no node below itself",
                        found=f"{child!r}, an ancestor of {name!r} or that node itself",
                    )
                elif child in children:
                    stack.append((child, False))


def depth(entries: Entries) -> Iterator[Finding]:
    """A path of the schedule is no longer than the limit."""
    children = _children(entries)
    reached: dict[str, int] = {}
    level = list(dict.fromkeys(entries.roots))
    for number in range(SCHEDULE_DEPTH.largest + 1):
        if number == SCHEDULE_DEPTH.largest and level:
            yield Finding(
                rule=DEPTH,
                place=RecordPlace(path="$.schedule"),
                expected=f"at most {SCHEDULE_DEPTH.largest} nodes on one path",
                found=f"more on the path to {level[0]!r}",
            )
            return
        reached.update(dict.fromkeys(level, number))
        below = [child for name in level if name in children for child in children[name][1]]
        level = [child for child in dict.fromkeys(below) if child not in reached]


def _children(entries: Entries) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Path and children of every iteration node, by its identifier."""
    return {
        str(entry.record.id): (entry.path, tuple(map(str, entry.record.children)))
        for entry in entries.iterations
    }


def _child_mentions(entries: Entries) -> Iterator[tuple[Place, str]]:
    for entry in entries.iterations:
        for index, child in enumerate(entry.record.children):
            yield entry.place(f".children[{index}]"), str(child)


SCHEDULE_RULES = (
    (CHILDREN_EXIST, children_exist),
    (GUARD_TERM, guard_term),
    (ROOT_ONCE, root_once),
    (ROOT_IS_NO_CHILD, root_is_no_child),
    (ONE_PARENT, one_parent),
    (ACYCLIC, acyclic),
    (DEPTH, depth),
)
