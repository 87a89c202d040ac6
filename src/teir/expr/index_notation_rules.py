"""The rules of index notation, and the findings that point at a character of it."""

from __future__ import annotations

from teir.errors import Finding, Rule, TextPlace

_SOURCE = "docs/sparse-scheduling.md, index notation"

GRAMMAR = Rule(
    code="TEIR650",
    sentence="Index notation is an access, '=' or '+=', and products of accesses and numbers "
    "joined by '+' and '-': A[i,l] = B[i,j] * C[j,l] - 0.5 * D[i,l].",
    source=_SOURCE,
)
OUTPUT_TWICE = Rule(
    code="TEIR651",
    sentence="The indices of the output are different, and the output is no input.",
    source=_SOURCE,
)
OUTPUT_INDEX = Rule(
    code="TEIR652",
    sentence="Every index of the output appears in every product.",
    source=_SOURCE,
)
SAME_RANK = Rule(
    code="TEIR653",
    sentence="A tensor has the same number of indices wherever it is used.",
    source=_SOURCE,
)
OPERANDS = Rule(
    code="TEIR654",
    sentence="Every tensor on the right has one operand with one axis per index.",
    source=_SOURCE,
)
SAME_EXTENT = Rule(
    code="TEIR655",
    sentence="All axes with the same index have the same extent.",
    source=_SOURCE,
)
COMPLEX_NUMBER = Rule(
    code="TEIR656",
    sentence="A complex number stands in index notation whose result is complex.",
    source=_SOURCE,
)

RULES = (GRAMMAR, OUTPUT_TWICE, OUTPUT_INDEX, SAME_RANK, OPERANDS, SAME_EXTENT, COMPLEX_NUMBER)

_SHOWN = 100


def at_column(
    rule: Rule, text: str, column: int, expected: str, found: str, hint: str | None = None
) -> Finding:
    """A finding that quotes ``text`` and puts a caret under the character at ``column``."""
    start = 0 if len(text) <= _SHOWN else max(0, column - _SHOWN // 2)
    quoted = "".join(c if c.isprintable() else "\ufffd" for c in text[start : start + _SHOWN])
    blanks = len(quoted) - len(quoted.lstrip())
    caret = " " * (column - start - blanks) + "^"
    return Finding(
        rule=rule,
        place=TextPlace(line=1, column=column + 1),
        expected=expected,
        found=found,
        hint=hint,
        line=f"{quoted.strip()}\n    {caret}",
    )
