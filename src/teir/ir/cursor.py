"""A place in one line of the text form: takes tokens from left to right."""

from __future__ import annotations

import re
import string

import msgspec

from teir.errors import Finding, Rule, TextPlace
from teir.ir.limits import IDENTIFIER_BYTES, NUMBER_CHARACTERS
from teir.ir.name_rules import shown
from teir.ir.reading_rules import IDENTIFIER_LENGTH, NUMBER_LENGTH, TEXT_SYNTAX
from teir.ir.spelling import PLAIN_NAME

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TOKEN = re.compile(rf"[ \t]*+({PLAIN_NAME.pattern}|[0-9]+|{_STRING}|->|[^ \t])")
_NAME_STARTS = frozenset(f"{string.ascii_letters}_")
_WITHOUT_COMMENT = re.compile(rf'(?:[^"#]++|{_STRING}|")*+')


class LineError(Exception):
    """Ends the reading of one line; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding


class Cursor:
    """Stands at ``token`` of line ``number``; at the end of the line the token is empty.

    A token is a plain name, digits, a JSON string, ``->`` or one other character. Columns are
    worked out only when a finding or a new name asks for them.
    """

    __slots__ = ("_at", "_starts", "_tokens", "number", "text", "token")

    def __init__(self, row: str, number: int) -> None:
        self.text = _without_comment(row) if "#" in row else row
        self.number = number
        self._tokens: list[str] = _TOKEN.findall(self.text)
        self._tokens.append("")
        self._at = 0
        self._starts: list[int] | None = None
        self.token = self._tokens[0]

    def step(self) -> None:
        """Moves behind the token at the cursor."""
        self._at += 1
        self.token = self._tokens[self._at]

    @property
    def index(self) -> int:
        """The number of the token in its line."""
        return self._at

    @property
    def start(self) -> int:
        """Where the token starts in the line, counted from 0."""
        return self._start_of(self._at)

    @property
    def place(self) -> TextPlace:
        return self.place_of(self._at)

    def place_of(self, index: int) -> TextPlace:
        """The place of a token of this line."""
        return TextPlace(line=self.number, column=self._start_of(index) + 1)

    def _start_of(self, index: int) -> int:
        if self._starts is None:
            self._starts = [found.start(1) for found in _TOKEN.finditer(self.text)]
            self._starts.append(len(self.text.rstrip(" \t")))
        return self._starts[index]

    @property
    def following(self) -> str:
        """The token after this one; empty at the end."""
        return self._tokens[self._at + 1] if self.token else ""

    @property
    def token_after_next(self) -> str:
        """The token two places on; empty beyond the end."""
        return self._tokens[self._at + 2] if self.following else ""

    @property
    def is_name(self) -> bool:
        """Whether a plain name stands at the cursor."""
        return self.token[:1] in _NAME_STARTS

    def skip(self, token: str) -> bool:
        """Moves behind ``token`` if it stands at the cursor."""
        if self.token != token:
            return False
        self._at += 1
        self.token = self._tokens[self._at]
        return True

    def expect(self, token: str) -> None:
        """Moves behind ``token``, which must stand at the cursor."""
        if not self.skip(token):
            raise self.error(f"`{token}`")

    def name(self, what: str) -> str:
        """A plain or quoted name."""
        name = self.token
        if name[:1] == '"' and len(name) > 1:
            name = self._string()
        elif not self.is_name:
            raise self.error(what)
        if len(name) > IDENTIFIER_BYTES.largest // 4:
            size = len(name.encode())
            if size > IDENTIFIER_BYTES.largest:
                expected = f"at most {IDENTIFIER_BYTES.largest} bytes"
                raise self.error(expected, rule=IDENTIFIER_LENGTH, found=f"{size} bytes")
        self.step()
        return name

    def string(self, what: str) -> str:
        """A quoted text of any length."""
        if self.token[:1] != '"' or len(self.token) == 1:
            raise self.error(what)
        text = self._string()
        self.step()
        return text

    def integer(self, what: str) -> int:
        """An integer with an optional minus sign."""
        sign = -1 if self.skip("-") else 1
        digits = self.token
        if not "0" <= digits[:1] <= "9":
            raise self.error(what)
        if len(digits) > NUMBER_CHARACTERS.largest:
            expected = f"at most {NUMBER_CHARACTERS.largest} digits"
            raise self.error(expected, rule=NUMBER_LENGTH, found=f"{len(digits)} digits")
        self.step()
        return sign * int(digits)

    def skip_characters(self, count: int) -> None:
        """Moves to the first token that starts ``count`` or more characters behind this one."""
        end = self.start + count
        while self.token and self.start < end:
            self.step()

    def finish(self) -> None:
        """Nothing but a comment may follow."""
        if self.token:
            raise self.error("the end of the line")

    def error(self, expected: str, *, rule: Rule = TEXT_SYNTAX, found: str = "") -> LineError:
        """The error that ``expected`` does not stand at the cursor."""
        witness = found or (f"`{_short(self.token)}`" if self.token else "the end of the line")
        line = _short(self.text)
        return LineError(
            Finding(rule=rule, place=self.place, expected=expected, found=witness, line=line)
        )

    def _string(self) -> str:
        try:
            text: str = msgspec.json.decode(self.token, type=str)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise self.error("a JSON string", found=shown(self.token)) from error
        return text


def _without_comment(row: str) -> str:
    found = _WITHOUT_COMMENT.match(row)
    return found.group() if found else row


def _short(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"
