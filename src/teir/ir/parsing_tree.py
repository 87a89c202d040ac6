"""The schedule of the text form: node lines and their depth become a tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from teir.errors import Finding
from teir.ir.limits import SCHEDULE_DEPTH
from teir.ir.nodes import InvocationNode, IterationNode, Node, Policy
from teir.ir.parsing_lines import NodeLine
from teir.ir.reading_rules import DEPTH, INDENTATION
from teir.ir.record_rules import CHILDREN_EXIST, INVOCATION_IS_LEAF


@dataclass(slots=True)
class _Open:
    """An iteration node whose children are still being read, at most one per level."""

    line: NodeLine
    children: list[Node] = field(default_factory=list)
    indent: int | None = None
    """Indentation of the children, None before the first."""


def grow(lines: tuple[NodeLine, ...]) -> tuple[tuple[Node, ...], tuple[Finding, ...]]:
    """The roots, and what is wrong with the indentation."""
    roots: list[Node] = []
    findings: list[Finding] = []
    stack: list[_Open] = []
    previous: NodeLine | None = None
    for line in lines:
        while stack and line.indent <= stack[-1].line.indent:
            _close(stack, roots, findings)
        findings.extend(_misplaced(line, previous, stack))
        if len(stack) >= SCHEDULE_DEPTH.largest:
            return (), (*findings, _too_deep(line))
        if stack:
            stack[-1].indent = line.indent
        if line.policy is None:
            leaf = InvocationNode(name=line.name, primitive=line.target, guard=line.guard)
            _join(stack, roots, leaf)
        else:
            stack.append(_Open(line))
        previous = line
    while stack:
        _close(stack, roots, findings)
    return tuple(roots), tuple(findings)


def _misplaced(line: NodeLine, previous: NodeLine | None, stack: list[_Open]) -> list[Finding]:
    if previous is not None and previous.policy is None and line.indent > previous.indent:
        return [
            Finding(
                rule=INVOCATION_IS_LEAF,
                place=line.place,
                expected=f"no node below the invocation node {previous.name}",
                found=f"{line.name}, {line.indent - previous.indent} spaces deeper",
            )
        ]
    wanted = stack[-1].indent if stack else 0
    if wanted is None or wanted == line.indent:
        return []
    return [
        Finding(
            rule=INDENTATION,
            place=line.place,
            expected=f"{wanted} spaces, as its siblings have",
            found=f"{line.indent} spaces",
        )
    ]


def _close(stack: list[_Open], roots: list[Node], findings: list[Finding]) -> None:
    """The innermost open node is complete and joins its parent."""
    done = stack.pop()
    if not done.children:
        findings.append(
            Finding(
                rule=CHILDREN_EXIST,
                place=done.line.place,
                expected="at least one child below it",
                found="none",
            )
        )
    node = IterationNode(
        name=done.line.name,
        axis=done.line.target,
        policy=done.line.policy or Policy.SEQUENTIAL,
        children=tuple(done.children),
        guard=done.line.guard,
        scratch=tuple(done.line.scratch),
    )
    _join(stack, roots, node)


def _join(stack: list[_Open], roots: list[Node], node: Node) -> None:
    (stack[-1].children if stack else roots).append(node)


def _too_deep(line: NodeLine) -> Finding:
    return Finding(
        rule=DEPTH,
        place=line.place,
        expected=f"at most {SCHEDULE_DEPTH.largest} nodes on one path",
        found="one more",
    )
