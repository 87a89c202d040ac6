"""Einsum trees: an expression that says which operands meet, and how every result is laid out.

    tree    = join | "[" join "]"
    join    = child {"," child} "->" indices
    child   = indices | "[" join "]"
    indices = "[" [index {"," index}] "]"        index = letters, digits and "_"

    [[i,k],[k,j]->[i,j]],[j,l]->[i,l]

A leaf is an operand, in order of appearance. A node sums over every index of its children that
neither its own indices nor anything outside it names. Blanks may stand between tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from teir.errors import Finding, TeirError
from teir.expr.nodes import Nesting, Subscripts, Term
from teir.expr.rules import (
    OUTPUT_REPEATS,
    OUTPUT_UNKNOWN,
    TREE_DEPTH,
    TREE_GRAMMAR,
    TREE_SCOPE,
    at_character,
)

_BLANKS = " \t\n\r\f\v"
_DEEPEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A leaf (no children) or the meeting of its children; ``columns`` are 0-based places."""

    children: tuple[TreeNode, ...]
    indices: tuple[str, ...]
    columns: tuple[int, ...] = field(compare=False)
    start: int = field(compare=False)

    @property
    def leaves(self) -> Iterator[TreeNode]:
        """The operands below this node, in order."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves

    def __str__(self) -> str:
        """The canonical text of this node below another: in brackets, no blanks."""
        indices = f"[{','.join(self.indices)}]"
        if not self.children:
            return indices
        return f"[{','.join(map(str, self.children))}->{indices}]"


def is_tree(text: str) -> bool:
    """True for a text that only a tree can be: it starts with a bracket."""
    return text.lstrip(_BLANKS).startswith("[")


def print_tree(tree: TreeNode) -> str:
    """The canonical text: no blanks, no brackets around the whole."""
    return str(tree)[1:-1] if tree.children else str(tree)


def parse_tree(text: str) -> TreeNode:
    """The tree ``text`` as a value. Raises TeirError, each finding at its character."""
    reader = _Reader(text)
    tree = reader.whole()
    findings = [*_index_findings(text, tree), *_scope_findings(text, tree)]
    if findings:
        raise TeirError(tuple(findings))
    return tree


def parse_nested(text: str) -> Subscripts:
    """The tree ``text`` as an einsum over its leaves that remembers how they are nested."""
    tree = parse_tree(text)
    leaves = tuple(tree.leaves)
    path: list[tuple[int, ...]] = []
    results: list[tuple[str, ...]] = []
    _meet(tree, list(range(len(leaves))), iter(range(len(leaves))), path, results)
    return Subscripts(
        inputs=tuple(map(_term, leaves)),
        output=_term(tree),
        text=text,
        nesting=Nesting(path=tuple(path), results=tuple(results)),
    )


def _term(node: TreeNode) -> Term:
    return Term(symbols=node.indices, ellipsis=None, columns=node.columns, start=node.start)


def _meet(
    node: TreeNode,
    left: list[int],
    numbers: Iterator[int],
    path: list[tuple[int, ...]],
    results: list[tuple[str, ...]],
) -> int:
    """Append the steps below ``node`` in opt_einsum's convention; the number of its result.

    ``left`` lists the numbers of the operands and results not yet used.
    """
    if not node.children:
        return next(numbers)
    met = [_meet(child, left, numbers, path, results) for child in node.children]
    path.append(tuple(left.index(number) for number in met))
    for number in met:
        left.remove(number)
    result = -len(path)
    left.append(result)
    results.append(node.indices)
    return result


def _index_findings(text: str, node: TreeNode) -> Iterator[Finding]:
    """Results name every index once, and only indices of their children."""
    for child in node.children:
        yield from _index_findings(text, child)
    if not node.children:
        return
    known = {index for child in node.children for index in child.indices}
    for place, (index, column) in enumerate(zip(node.indices, node.columns, strict=True)):
        if index in node.indices[:place]:
            yield at_character(OUTPUT_REPEATS, text, column, "each once", f"{index!r} again")
        elif index not in known:
            expected = "an index of a child"
            yield at_character(OUTPUT_UNKNOWN, text, column, expected, f"{index!r}")


def _scope_findings(text: str, tree: TreeNode) -> Iterator[Finding]:
    """An index that a node sums over is used nowhere outside of it."""
    uses: dict[str, list[int]] = {}
    for leaf in tree.leaves:
        for index, column in zip(leaf.indices, leaf.columns, strict=True):
            uses.setdefault(index, []).append(column)

    def walk(node: TreeNode) -> Iterator[Finding]:
        if not node.children:
            return
        inside = [leaf.start for leaf in node.leaves]
        low, high = inside[0], node.start
        summed = {index for child in node.children for index in child.indices} - {*node.indices}
        for index in sorted(summed):
            outside = [column for column in uses.get(index, ()) if not low <= column < high]
            if outside:
                yield at_character(
                    TREE_SCOPE,
                    text,
                    outside[0],
                    f"no {index!r} here, for another node sums over it",
                    f"{index!r}",
                    f"keep {index!r} in the indices at column {node.start + 1}, or rename it here",
                )
        for child in node.children:
            yield from walk(child)

    yield from walk(tree)


@dataclass(slots=True)
class _Reader:
    """A place in the text that only moves forwards."""

    text: str
    place: int = 0

    def whole(self) -> TreeNode:
        tree = self._join(0) if not self._is_bracketed() else self._child(0)
        if self._peek():
            raise self._refusal("the end")
        if tree.children:
            return tree
        raise self._refusal("'->' and the indices of the result")

    def _is_bracketed(self) -> bool:
        """True where the first bracket closes at the end of the text."""
        depth = 0
        closed = 0
        for place, character in enumerate(self.text):
            depth += (character == "[") - (character == "]")
            if character == "]" and depth == 0:
                closed = place
                break
        return self.text[closed + 1 :].strip(_BLANKS) == "" and closed > 0

    def _join(self, depth: int) -> TreeNode:
        children = [self._child(depth)]
        while self._peek() == ",":
            self.place += 1
            children.append(self._child(depth))
        if not self.text.startswith("->", self.place):
            raise self._refusal("',' or '->'")
        self.place += 2
        result = self._indices()
        return replace(result, children=tuple(children))

    def _child(self, depth: int) -> TreeNode:
        if depth > _DEEPEST:
            raise TeirError(
                (
                    at_character(
                        TREE_DEPTH, self.text, self.place, f"at most {_DEEPEST} levels", "more"
                    ),
                )
            )
        if self._peek() != "[":
            raise self._refusal("'['")
        opened = self.place
        self.place += 1
        if self._peek() != "[":
            self.place = opened
            return self._indices()
        node = self._join(depth + 1)
        self._take("]")
        return node

    def _indices(self) -> TreeNode:
        self._take("[")
        start = self.place - 1
        indices: list[str] = []
        columns: list[int] = []
        while self._peek() != "]" or indices:
            columns.append(self.place)
            indices.append(self._index())
            if self._peek() != ",":
                break
            self.place += 1
        if indices and self._peek() != "]":
            raise self._refusal("',' or ']'")
        self._take("]")
        return TreeNode(children=(), indices=tuple(indices), columns=tuple(columns), start=start)

    def _index(self) -> str:
        self._peek()
        end = self.place
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "_"):
            end += 1
        if end == self.place:
            raise self._refusal("an index")
        word = self.text[self.place : end]
        self.place = end
        return word

    def _take(self, character: str) -> None:
        if self._peek() != character:
            raise self._refusal(repr(character))
        self.place += 1

    def _peek(self) -> str:
        """The next character that is no blank, "" at the end."""
        while self.place < len(self.text) and self.text[self.place] in _BLANKS:
            self.place += 1
        return self.text[self.place : self.place + 1]

    def _refusal(self, expected: str) -> TeirError:
        found = repr(self._peek()) if self._peek() else "the end"
        return TeirError((at_character(TREE_GRAMMAR, self.text, self.place, expected, found),))
