"""What no JSON reader checks, found in one pass before one runs.

Nesting, duplicate keys, the length of numbers and the number of containers. The pass knows only
as much JSON as it needs; whatever else is wrong is left for the reader that comes after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import msgspec

from teir.errors import Rule
from teir.ir.limits import JSON_CONTAINERS, JSON_NESTING, LISTED_FINDINGS, NUMBER_CHARACTERS
from teir.ir.name_rules import shown
from teir.ir.reading_rules import COUNTS, DUPLICATE_KEY, JSON_DEPTH, NUMBER_LENGTH
from teir.ir.spelling import PLAIN_NAME, quote

_TOKEN = re.compile(r'[{}\[\],]|"[^"\\]*+(?:\\.[^"\\]*+)*+"|"|[^\s{}\[\],":]++', re.DOTALL)
_QUICK_TOKEN = re.compile(
    r'[{}\[\]]|"[^"\\]*+(?:\\.[^"\\]*+)*+"(?:\s*+:)?|"|[^\s{}\[\],":]{33,}+', re.DOTALL
)
"""Brackets, keys, texts, what looks like a number that is too long; nothing else matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A broken rule at a path such as ``$.axes[2].extent``."""

    rule: Rule
    path: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """The faults of the first JSON value of a text, and where that value ends."""

    end: int
    faults: tuple[Fault, ...]


@dataclass(slots=True)
class _Level:
    """An object or array that is still open; ``keys`` is None for an array."""

    keys: set[str] | None
    key: str | None = None
    index: int = 0

    @property
    def expects_key(self) -> bool:
        return self.keys is not None and self.key is None

    def step(self) -> str:
        return f"[{self.index}]" if self.key is None else path_step(self.key)


@dataclass(slots=True)
class _Scan:
    levels: list[_Level] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    containers: int = 0

    def fault(self, rule: Rule, expected: str, found: str) -> None:
        path = "$" + "".join(level.step() for level in self.levels if not level.expects_key)
        self.faults.append(Fault(rule=rule, path=path, expected=expected, found=found))

    @property
    def is_hopeless(self) -> bool:
        return (
            self.containers > JSON_CONTAINERS.largest
            or len(self.levels) > JSON_NESTING.largest
            or len(self.faults) >= LISTED_FINDINGS.largest
        )


def path_step(key: str) -> str:
    """``.key``, or ``["a key"]`` where it is no plain name."""
    return f".{key}" if PLAIN_NAME.fullmatch(key) and "." not in key else f"[{quote(key)}]"


def scan(text: str) -> Scanned:
    """Scans the JSON value at the start of ``text``; time is linear in its length."""
    end = end_without_fault(text)
    return Scanned(end=end, faults=()) if end is not None else scan_with_paths(text)


def end_without_fault(text: str) -> int | None:
    """Where the first value ends, None if it may have a fault: quick, and without paths."""
    if text.lstrip(" \t\r\n")[:1] not in ("{", "["):
        return None
    levels: list[set[str] | None] = []
    containers = 0
    for found in _QUICK_TOKEN.finditer(text):
        token = found.group()
        first = token[0]
        if first in "{[":
            levels.append(set() if first == "{" else None)
            containers += 1
            if len(levels) > JSON_NESTING.largest or containers > JSON_CONTAINERS.largest:
                return None
        elif first in "}]":
            levels.pop()
            if not levels:
                return found.end()
        elif first != '"' or token == '"':
            return None
        elif token[-1] == ":":
            keys = levels[-1]
            if keys is None or "\\" in token or token in keys:
                return None
            keys.add(token)
    return None


def scan_with_paths(text: str) -> Scanned:
    """What `scan` gives, with the path of every fault."""
    state = _Scan()
    end = len(text)
    for token in _TOKEN.finditer(text):
        _take(state, token.group())
        if state.is_hopeless:
            break
        if not state.levels or token.group() == '"':
            end = token.end()
            break
    return Scanned(end=end, faults=tuple(state.faults))


def _take(state: _Scan, token: str) -> None:
    match token[0]:
        case "{" | "[":
            _open(state, token)
        case "}" | "]":
            if state.levels:
                state.levels.pop()
        case ",":
            _next(state.levels)
        case '"':
            if state.levels and state.levels[-1].expects_key:
                _key(state, token)
        case _:
            if len(token) > NUMBER_CHARACTERS.largest and token[0] in "-0123456789":
                expected = f"at most {NUMBER_CHARACTERS.largest} characters"
                state.fault(NUMBER_LENGTH, expected, f"{len(token)} characters")


def _open(state: _Scan, token: str) -> None:
    state.containers += 1
    state.levels.append(_Level(keys=set() if token == "{" else None))
    if len(state.levels) > JSON_NESTING.largest:
        expected = f"at most {JSON_NESTING.largest} levels"
        state.fault(JSON_DEPTH, expected, f"{len(state.levels)} levels")
    if state.containers > JSON_CONTAINERS.largest:
        expected = f"at most {JSON_CONTAINERS.largest} objects and arrays"
        state.fault(COUNTS, expected, "one more")


def _next(levels: list[_Level]) -> None:
    if not levels:
        return
    innermost = levels[-1]
    innermost.key = None
    innermost.index += 1


def _key(state: _Scan, token: str) -> None:
    level = state.levels[-1]
    key = _unescaped(token)
    if level.keys is None:
        return
    if key in level.keys:
        level.key = key
        state.fault(DUPLICATE_KEY, "each key once", f"{shown(key)} again")
    level.key = key
    level.keys.add(key)


def _unescaped(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    try:
        key: str = msgspec.json.decode(token, type=str)
    except msgspec.DecodeError:
        return token[1:-1]
    return key
