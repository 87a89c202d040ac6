"""Text and sublists to `Subscripts`: NumPy's grammar, with any number of symbols.

expression = term {"," term} ["->" term]
term       = symbols and at most one "...", blanks allowed between them
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.arrays.integers import as_integer
from teir.errors import Finding, TeirError
from teir.expr.nodes import Subscripts, Term
from teir.expr.rules import ARROW, CHARACTER, ELLIPSIS, SUBLIST, at_character
from teir.expr.tree_parsing import is_tree, parse_nested

_BLANKS = " \t\n\r\f\v"
_FIRST_FREE = 0xC0
_SURROGATES = range(0xD800, 0xE000)
_BRACKETS = (
    "index notation has an '=': A[i,l] = B[i,j] * C[j,l]; a tree begins with a bracket: "
    "[i,j],[j,l]->[i,l]"
)


def parse_expression(text: str) -> Subscripts:
    """An einsum expression, or an einsum tree (see `teir.expr.tree_parsing`).

    Raises TeirError with every finding, each at its character.
    """
    return parse_nested(text) if is_tree(text) else parse_subscripts(text)


def plain_subscripts(text: str) -> Subscripts | None:
    """An expression of nothing but letters, commas and an arrow, as most are; None for others."""
    left, arrow, right = text.partition("->")
    letters = left.replace(",", "") + right
    if not (letters.isalpha() and letters.isascii()):
        return None
    terms: list[Term] = []
    start = 0
    # The two characters of the arrow are as two commas with nothing between.
    for word in text.replace("->", ",,").split(","):
        columns = tuple(range(start, start + len(word)))
        terms.append(Term(symbols=tuple(word), ellipsis=None, columns=columns, start=start))
        start += len(word) + 1
    if not arrow:
        return Subscripts(inputs=tuple(terms), output=None, text=text)
    *inputs, _, output = terms
    return Subscripts(inputs=tuple(inputs), output=output, text=text)


def parse_subscripts(text: str) -> Subscripts:
    """The expression ``text`` as a value.

    Raises TeirError with every finding, each at its character.
    """
    plain = plain_subscripts(text)
    if plain is not None:
        return plain
    findings: list[Finding] = []
    arrow = text.find("->")
    left_end = len(text) if arrow < 0 else arrow
    starts = [0] + [place + 1 for place in range(left_end) if text[place] == ","]
    ends = [start - 1 for start in starts[1:]] + [left_end]
    inputs = tuple(
        _parse_term(text, start, end, findings) for start, end in zip(starts, ends, strict=True)
    )
    output = None if arrow < 0 else _parse_term(text, arrow + 2, len(text), findings)
    if findings:
        raise TeirError(tuple(findings))
    return Subscripts(inputs=inputs, output=output, text=text)


def _parse_term(text: str, start: int, end: int, findings: list[Finding]) -> Term:
    symbols: list[str] = []
    columns: list[int] = []
    ellipsis: int | None = None
    place = start
    while place < end:
        character = text[place]
        if character in _BLANKS:
            place += 1
            continue
        if character == "." and text.startswith("...", place, end) and ellipsis is None:
            ellipsis = len(symbols)
            place += 3
            continue
        if not is_symbol(character):
            finding = _character_finding(text, place, ellipsis)
            if finding.hint is None or all(one.hint != finding.hint for one in findings):
                findings.append(finding)
            place += next((len(word) for word in ("...", "->") if text.startswith(word, place)), 1)
            continue
        symbols.append(character)
        columns.append(place)
        place += 1
    return Term(symbols=tuple(symbols), ellipsis=ellipsis, columns=tuple(columns), start=start)


def _character_finding(text: str, place: int, ellipsis: int | None) -> Finding:
    match text[place]:
        case ".":
            is_second = ellipsis is not None and text.startswith("...", place)
            found = "a second ellipsis" if is_second else "a dot that is not part of one"
            return at_character(ELLIPSIS, text, place, "one ellipsis '...' in a term", found)
        case "-" | ">" | ",":
            is_arrow = text.startswith("->", place)
            found = "a second arrow" if is_arrow else repr(text[place])
            return at_character(ARROW, text, place, "one arrow '->', then one output term", found)
        case "[" | "]":
            return at_character(CHARACTER, text, place, "a letter", repr(text[place]), _BRACKETS)
        case character:
            return at_character(CHARACTER, text, place, "a letter", repr(character))


def is_symbol(character: str) -> bool:
    """True for what a subscript may be: a letter, or what opt_einsum.get_symbol makes."""
    code = ord(character)
    return character.isalpha() or (code >= _FIRST_FREE and code not in _SURROGATES)


def symbol_of(number: int) -> str:
    """The symbol with this number; symbols grow with the number in code point order."""
    if number < 26:
        return chr(ord("A") + number)
    if number < 52:
        return chr(ord("a") + number - 26)
    code = _FIRST_FREE + number - 52
    return chr(code if code < _SURROGATES.start else code + len(_SURROGATES))


def parse_sublists(
    inputs: Sequence[Sequence[object]], output: Sequence[object] | None
) -> Subscripts:
    """The sublist form: one list of integers, and perhaps an Ellipsis, per operand.

    The expression is the text form with one symbol per distinct integer, in increasing order.
    Raises TeirError naming every list that is wrong.
    """
    lists = [*inputs] if output is None else [*inputs, output]
    findings = [finding for entry in lists for finding in _sublist_findings(entry)]
    if findings:
        raise TeirError(tuple(findings))
    named = [[_index(item) for item in entry] for entry in lists]
    numbers = sorted({number for entry in named for number in entry if number is not None})
    symbol = {number: symbol_of(rank) for rank, number in enumerate(numbers)}
    terms = [
        "".join("..." if number is None else symbol[number] for number in entry) for entry in named
    ]
    left = ",".join(terms[: len(inputs)])
    return parse_subscripts(left if output is None else f"{left}->{terms[-1]}")


def _sublist_findings(entry: Sequence[object]) -> list[Finding]:
    text = _shown(entry)
    findings = []
    for item in entry:
        if item is not ... and _index(item) is None:
            findings.append(
                at_character(SUBLIST, text, 0, "non-negative integers or Ellipsis", repr(item))
            )
    if sum(item is ... for item in entry) > 1:
        findings.append(at_character(ELLIPSIS, text, 0, "at most one Ellipsis", "several"))
    return findings


def _index(item: object) -> int | None:
    """The index a sublist names by a non-negative integer; None for all else."""
    number = None if isinstance(item, bool) else as_integer(item)
    return None if number is None or number < 0 else number


def _shown(entry: Sequence[object]) -> str:
    return "[" + ", ".join("..." if item is ... else repr(item) for item in entry) + "]"
