"""The rules of an einsum expression, and the findings that point at a character of it."""

from __future__ import annotations

from teir.errors import Finding, Rule, TextPlace

_GRAMMAR = "numpy.einsum"
_LANGUAGE = "language reference, einsum"

CHARACTER = Rule(
    code="TEIR601",
    sentence="A subscript is a letter, or any character from U+00C0 upwards.",
    source=_LANGUAGE,
)
ELLIPSIS = Rule(
    code="TEIR602",
    sentence="A term has at most one ellipsis, written as three adjacent dots.",
    source=_GRAMMAR,
)
ARROW = Rule(
    code="TEIR603",
    sentence="An expression has at most one arrow '->', and no comma after it.",
    source=_GRAMMAR,
)
OUTPUT_REPEATS = Rule(
    code="TEIR604",
    sentence="A subscript appears at most once in the output.",
    source=_GRAMMAR,
)
OUTPUT_UNKNOWN = Rule(
    code="TEIR605",
    sentence="Every subscript of the output appears in an input.",
    source=_GRAMMAR,
)
OPERAND_COUNT = Rule(
    code="TEIR606",
    sentence="There is one operand for every input term.",
    source=_GRAMMAR,
)
RANK = Rule(
    code="TEIR607",
    sentence="A term has one subscript per axis of its operand; an ellipsis stands for the rest.",
    source=_GRAMMAR,
)
EXTENTS = Rule(
    code="TEIR608",
    sentence="All axes with the same subscript have the same extent, or extent 1, which repeats.",
    source=_GRAMMAR,
)
DIAGONAL = Rule(
    code="TEIR609",
    sentence="A subscript repeated inside one term names axes of equal extent.",
    source=_GRAMMAR,
)
OUTPUT_ELLIPSIS = Rule(
    code="TEIR610",
    sentence="The output has an ellipsis where an ellipsis of an input stands for axes.",
    source=_GRAMMAR,
)
SUBLIST = Rule(
    code="TEIR611",
    sentence="In the sublist form operands alternate with lists of non-negative integers and at "
    "most one Ellipsis; a last list alone is the output.",
    source=_GRAMMAR,
)
TREE_GRAMMAR = Rule(
    code="TEIR617",
    sentence="A tree is '[indices]' for an operand, or children and '->[indices]', each child in "
    "brackets: [[i,k],[k,j]->[i,j]],[j,l]->[i,l].",
    source="docs/trees.md",
)
TREE_SCOPE = Rule(
    code="TEIR618",
    sentence="An index that a node of a tree sums over is used nowhere outside that node.",
    source="docs/trees.md",
)
TREE_DEPTH = Rule(
    code="TEIR619",
    sentence="A tree has at most 200 levels.",
    source="docs/trees.md",
)

RULES = (
    CHARACTER,
    ELLIPSIS,
    ARROW,
    OUTPUT_REPEATS,
    OUTPUT_UNKNOWN,
    OPERAND_COUNT,
    RANK,
    EXTENTS,
    DIAGONAL,
    OUTPUT_ELLIPSIS,
    SUBLIST,
    TREE_GRAMMAR,
    TREE_SCOPE,
    TREE_DEPTH,
)

_SHOWN = 100
"""Characters of a long expression that are quoted around the place."""


def at_character(
    rule: Rule, text: str, position: int, expected: str, found: str, hint: str | None = None
) -> Finding:
    """A finding that quotes ``text`` and puts a caret under the character at ``position``."""
    start = 0 if len(text) <= _SHOWN else max(0, position - _SHOWN // 2)
    quoted = "".join(c if c.isprintable() else "\ufffd" for c in text[start : start + _SHOWN])
    caret = " " * (len("einsum ") + position - start) + "^"
    return Finding(
        rule=rule,
        place=TextPlace(line=1, column=position + 1),
        expected=expected,
        found=found,
        hint=hint,
        line=f"einsum {quoted}\n    {caret}",
    )
