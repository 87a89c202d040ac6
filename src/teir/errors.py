"""Findings and the exception that carries them.

A finding is a frozen value: the rule that was broken, the place, what was expected, what was
found, and a hint where one helps. `TeirError` is the one exception type a user catches; it carries
every finding of the failed step, in program order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Never


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of the language or of an entry point.

    ``code`` is stable (users and tests refer to it), ``sentence`` is the rule itself in one
    sentence, ``source`` names the section, paper or manual it comes from.
    """

    code: str
    sentence: str
    source: str


class Part(Enum):
    """The kind of program part a finding blames."""

    PROGRAM = "program"
    TENSOR = "tensor"
    SCRATCH = "scratch"
    AXIS = "axis"
    PRIMITIVE = "primitive"
    NODE = "node"
    ITER_DOMAIN = "IterDomain"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlace:
    """A part of a program by name; the printer knows its line."""

    part: Part
    name: str

    def __str__(self) -> str:
        return self.part.value if self.part is Part.PROGRAM else f"{self.part.value} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPlace:
    """A position in a text the user gave; line and column count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPlace:
    """A field of a JSON document, as ``$.axes[2].strides[0]``."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentPlace:
    """An argument of a call: an operand's name, a keyword, a command-line option, a file."""

    name: str

    def __str__(self) -> str:
        return self.name


Place = ProgramPlace | TextPlace | RecordPlace | ArgumentPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One broken rule: where, what the rule expects, what was found."""

    rule: Rule
    place: Place
    expected: str
    found: str
    hint: str | None = None
    line: str | None = None
    """The printed line of the program or expression that is blamed, when there is one."""
    line_number: int | None = None

    @property
    def code(self) -> str:
        """The code of the rule, such as TEIR403; docs/rules.md lists them."""
        return self.rule.code

    def __str__(self) -> str:
        where = str(self.place)
        if self.line_number is not None:
            where = f"line {self.line_number} ({where})"
        expected, found = _short(self.expected), _short(self.found)
        rows = [f"{self.code} at {where}: expected {expected}, found {found}"]
        if self.line is not None:
            rows.append(f"    {self.line.strip()}")
        rows.append(f"    rule: {self.rule.sentence} [{self.rule.source}]")
        if self.hint is not None:
            rows.append(f"    hint: {self.hint}")
        return "\n".join(rows)


_MOST_SHOWN = 500
"""Characters of what a finding expected, and of what it found."""


def _short(text: str) -> str:
    """As much of a text as a person reads: names and numbers of an input may be any length."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"


class TeirError(ValueError):
    """Raised with every finding of the step that failed."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__(findings)
        self.findings = findings

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings)


def at_argument(
    rule: Rule, argument: str, expected: str, found: str, hint: str | None = None
) -> Finding:
    """The finding about an argument of a call."""
    place = ArgumentPlace(name=argument)
    return Finding(rule=rule, place=place, expected=expected, found=found, hint=hint)


def refuse(rule: Rule, argument: str, expected: str, found: str, hint: str | None = None) -> Never:
    """Raise the one finding about an argument of a call."""
    raise TeirError((at_argument(rule, argument, expected, found, hint),))


def shown(value: object) -> str:
    """``repr(value)``, for messages; Python refuses to write numbers of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return f"a {type(value).__name__} too long to write"


class NoRoomError(TeirError, MemoryError):
    """A TeirError for want of memory: who waits for a MemoryError gets it too."""
