"""Text to `Assignment`.

    assignment = access ("=" | "+=") ["-"] product {("+" | "-") product}
    product    = access {"*" access}
    access     = name [indices]
    indices    = "[" [name {"," name}] "]" | "(" [name {"," name}] ")"
    name       = letter or "_", then letters, digits, "_"

Blanks may stand between tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from teir.errors import TeirError
from teir.expr.index_notation import Access, Assignment, Product
from teir.expr.index_notation_check import structure_findings
from teir.expr.index_notation_rules import GRAMMAR, at_column

_TOKEN = re.compile(r"\s*(?:(?P<name>[^\W\d]\w*)|(?P<sign>\+=|[-+*=,\[\]()]))")
_BEGINS_WITH_ACCESS = re.compile(r"\s*[^\W\d]\w*\s*\[[\w,\s]*\]\s*(?:[-+*]|$)")
_CLOSING = {"[": "]", "(": ")"}


def is_index_notation(text: str) -> bool:
    """True for a text that only index notation can be: an einsum has no '=', and no ``B[i,j]``."""
    return "=" in text or _BEGINS_WITH_ACCESS.match(text) is not None


@lru_cache(maxsize=256)
def parse_index_notation(text: str) -> Assignment:
    """The statement ``text`` as a value, kept for later calls with the same text.

    Raises TeirError: one finding for the first wrong character, or all about wrong indices.
    """
    assignment = _Reader(text).assignment()
    findings = structure_findings(assignment)
    if findings:
        raise TeirError(tuple(findings))
    return assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    word: str
    column: int
    is_name: bool

    def __str__(self) -> str:
        return repr(self.word) if self.word else "the end"


class _Reader:
    """The tokens of one text and the place of the next one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._next = self._scan()

    def _scan(self) -> _Token:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            column = len(self._text) - len(self._text[self._at :].lstrip())
            return _Token(word=self._text[column : column + 1], column=column, is_name=False)
        self._at = match.end()
        kind = "name" if match["name"] is not None else "sign"
        return _Token(word=match[kind], column=match.start(kind), is_name=kind == "name")

    def _take(self) -> _Token:
        token = self._next
        self._next = self._scan()
        return token

    def _refuse(self, expected: str, hint: str | None = None) -> TeirError:
        found, column = str(self._next), self._next.column
        return TeirError((at_column(GRAMMAR, self._text, column, expected, found, hint),))

    def _sign(self, *words: str) -> str:
        if self._next.is_name or self._next.word not in words:
            raise self._refuse(" or ".join(map(repr, words)))
        return self._take().word

    def _name(self, what: str) -> _Token:
        if not self._next.is_name:
            raise self._refuse(f"the name of {what}", _hint(self._next.word))
        return self._take()

    def _sees(self, *words: str) -> bool:
        return not self._next.is_name and self._next.word in words

    def assignment(self) -> Assignment:
        output = self._access()
        accumulates = self._sign("=", "+=") == "+="
        is_negative = self._sees("-") and bool(self._take())
        products = [self._product(is_negative)]
        while self._sees("+", "-"):
            products.append(self._product(self._take().word == "-"))
        if self._next.word:
            raise self._refuse("'*', '+', '-' or the end")
        return Assignment(
            output=output, products=tuple(products), accumulates=accumulates, text=self._text
        )

    def _product(self, is_negative: bool) -> Product:
        factors = [self._access()]
        while self._sees("*"):
            self._take()
            factors.append(self._access())
        return Product(factors=tuple(factors), is_negative=is_negative)

    def _access(self) -> Access:
        name = self._name("a tensor")
        if not self._sees("[", "("):
            return Access(tensor=name.word, indices=(), column=name.column)
        closing = _CLOSING[self._take().word]
        indices: list[_Token] = []
        if not self._sees(closing):
            indices.append(self._name("an index"))
            while self._sign(",", closing) == ",":
                indices.append(self._name("an index"))
        else:
            self._take()
        return Access(
            tensor=name.word,
            indices=tuple(token.word for token in indices),
            column=name.column,
            columns=tuple(token.column for token in indices),
        )


def _hint(word: str) -> str | None:
    """What to write instead of what other notations have where a tensor is due."""
    if word == "(":
        return "multiply it out: B[i,j] * D[j] + C[i,j] * D[j]"
    is_number = word == "." or word.isdigit()
    return "name the number and pass it as an operand: s * B[i,j]" if is_number else None
