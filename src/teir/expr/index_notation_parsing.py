"""Text to `Assignment`.

    assignment = access ("=" | "+=") ["-"] product {("+" | "-") product}
    product    = factor {"*" factor | "/" number}      at least one factor is an access
    factor     = access | number
    number     = digits ["." [digits]] [exponent] ["j"], or "." digits and so on
    access     = name [indices]
    indices    = "[" [name {"," name}] "]" | "(" [name {"," name}] ")"
    name       = letter or "_", then letters, digits, "_"

Blanks may stand between tokens.
"""

from __future__ import annotations

import cmath
import math
import re
from dataclasses import dataclass
from functools import lru_cache

from teir.errors import TeirError
from teir.expr.index_notation import Access, Assignment, Number, Product, signed
from teir.expr.index_notation_check import structure_findings
from teir.expr.index_notation_rules import GRAMMAR, at_column

_TOKEN = re.compile(
    r"\s*(?:(?P<name>[^\W\d]\w*)"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?j?)"
    r"|(?P<sign>\+=|[-+*/=,\[\]()]))"
)
_BEGINS_WITH_ACCESS = re.compile(r"\s*[^\W\d]\w*\s*\[[\w,\s]*\]\s*(?:[-+*]|$)")
_CLOSING = {"[": "]", "(": ")"}
_ALONE = (
    "add it to a dense result afterwards, or multiply it by a tensor of ones: a sparse result "
    "would store every element"
)
_DIVIDED = "a term is divided by numbers only: B[i,j] / 2; pass 1 / C as an operand"


def is_index_notation(text: str) -> bool:
    """True for a text that only index notation can be: an einsum has no '=', and no ``B[i,j]``."""
    return "=" in text or ("[" in text and _BEGINS_WITH_ACCESS.match(text) is not None)


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
    is_name: bool = False
    is_number: bool = False

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
            return _Token(word=self._text[column : column + 1], column=column)
        self._at = match.end()
        kind = match.lastgroup or "sign"
        return _Token(
            word=match[kind],
            column=match.start(kind),
            is_name=kind == "name",
            is_number=kind == "number",
        )

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
            raise self._refuse("'*', '/', '+', '-' or the end")
        return Assignment(
            output=output, products=tuple(products), accumulates=accumulates, text=self._text
        )

    def _product(self, is_negative: bool) -> Product:
        factors: list[Access] = []
        number: Number = 1.0
        column = begin = self._next.column
        word = "*"
        while word:
            if self._next.is_number or word == "/":
                column = column if number != 1 else self._next.column
                number = self._multiplied(number, word)
            else:
                factors.append(self._access())
            word = self._take().word if self._sees("*", "/") else ""
        if not factors and self._next.is_name:
            raise self._refuse("'*'")
        if not factors:
            expected, found = "a tensor that the number multiplies", "a number alone"
            finding = at_column(GRAMMAR, self._text, begin, expected, found, _ALONE)
            raise TeirError((finding,))
        is_minus, number = signed(number)
        return Product(
            factors=tuple(factors),
            is_negative=is_negative != is_minus,
            number=number,
            column=column,
        )

    def _multiplied(self, number: Number, word: str) -> Number:
        """A number times the next one, or divided by it."""
        if not self._next.is_number:
            raise self._refuse("a number", _DIVIDED)
        text = self._next.word
        value: Number = complex(text) if text.endswith("j") else float(text)
        is_zero = word == "/" and value == 0
        made = number * value if word == "*" else math.nan if is_zero else number / value
        if not cmath.isfinite(made):
            raise self._refuse("a number that keeps the product of numbers finite")
        self._take()
        return made

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
    is_signed = word in ("-", "+")
    return "a sign stands before a term, not in it: - 2 * B[i,j]" if is_signed else None
