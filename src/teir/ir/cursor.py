"""A place in one line of the text form: takes tokens from left to right."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from teir.errors import Finding, Rule, TextPlace
from teir.ir.limits import IDENTIFIER_BYTES, NUMBER_CHARACTERS
from teir.ir.name_rules import shown
from teir.ir.reading_rules import IDENTIFIER_LENGTH, NUMBER_LENGTH, TEXT_SYNTAX
from teir.ir.spelling import PLAIN_NAME

_TOKEN = re.compile(
    rf"""[ \t]*(?:
        (?P<name>{PLAIN_NAME.pattern})
      | (?P<integer>[0-9]+)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<mark>->|[^\s#])
    )""",
    re.VERBOSE,
)
_SPACE = re.compile(r"[ \t]*")


class LineError(Exception):
    """Ends the reading of one line; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding


@dataclass(slots=True)
class Cursor:
    """``text[position:]`` of line ``number`` is still to be read."""

    text: str
    number: int
    position: int = 0
    kind: str = field(init=False)
    """name, integer, string, mark, or end: what stands at the cursor."""
    token: str = field(init=False)
    start: int = field(init=False)
    end: int = field(init=False)

    def __post_init__(self) -> None:
        self._look()

    def _look(self) -> None:
        found = _TOKEN.match(self.text, self.position)
        if found is None:
            space = _SPACE.match(self.text, self.position)
            self.start = self.end = space.end() if space else self.position
            self.kind, self.token = "end", ""
            return
        self.kind = found.lastgroup or "end"
        self.start, self.end = found.span(self.kind)
        self.token = self.text[self.start : self.end]

    def step(self) -> None:
        """Moves behind the token at the cursor."""
        self.position = self.end
        self._look()

    @property
    def place(self) -> TextPlace:
        return TextPlace(line=self.number, column=self.start + 1)

    def at(self, token: str) -> bool:
        """Whether the cursor stands at this word or mark."""
        return self.token == token and self.kind in ("name", "mark")

    def skip(self, token: str) -> bool:
        """Moves behind ``token`` if it stands at the cursor."""
        if not self.at(token):
            return False
        self.step()
        return True

    def expect(self, token: str) -> None:
        """Moves behind ``token``, which must stand at the cursor."""
        if not self.skip(token):
            raise self.error(f"`{token}`")

    def name(self, what: str) -> str:
        """A plain or quoted name."""
        if self.kind == "name":
            name = self.token
        elif self.kind == "string":
            name = self._string()
        else:
            raise self.error(what)
        size = len(name.encode())
        if size > IDENTIFIER_BYTES.largest:
            expected = f"at most {IDENTIFIER_BYTES.largest} bytes"
            raise self.error(expected, rule=IDENTIFIER_LENGTH, found=f"{size} bytes")
        self.step()
        return name

    def string(self, what: str) -> str:
        """A quoted text of any length."""
        if self.kind != "string":
            raise self.error(what)
        text = self._string()
        self.step()
        return text

    def integer(self, what: str) -> int:
        """An integer with an optional minus sign."""
        sign = -1 if self.skip("-") else 1
        if self.kind != "integer":
            raise self.error(what)
        digits = len(self.token)
        if digits > NUMBER_CHARACTERS.largest:
            expected = f"at most {NUMBER_CHARACTERS.largest} digits"
            raise self.error(expected, rule=NUMBER_LENGTH, found=f"{digits} digits")
        value = sign * int(self.token)
        self.step()
        return value

    def finish(self) -> None:
        """Nothing but a comment may follow."""
        if self.kind != "end":
            raise self.error("the end of the line")

    def error(self, expected: str, *, rule: Rule = TEXT_SYNTAX, found: str = "") -> LineError:
        """The error that ``expected`` does not stand at the cursor."""
        witness = found or (f"`{_short(self.token)}`" if self.token else "the end of the line")
        return LineError(
            Finding(rule=rule, place=self.place, expected=expected, found=witness, line=self.line)
        )

    @property
    def line(self) -> str:
        """The line as a finding quotes it."""
        return _short(self.text)

    def _string(self) -> str:
        try:
            text: str = msgspec.json.decode(self.token, type=str)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise self.error("a JSON string", found=shown(self.token)) from error
        return text


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"
