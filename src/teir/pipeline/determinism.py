"""deterministic: which runs of an einsum give the same bits (docs/safety.md G7)."""

from __future__ import annotations

from enum import Enum
from typing import Any

from teir.errors import Rule, refuse, shown

DETERMINISTIC = Rule(
    code="TEIR646",
    sentence="deterministic is 'runs' or 'threads'.",
    source="docs/safety.md G7",
)

FIXED_THREADS = 8
"""A program that must not depend on the threads is made as for so many, whatever runs it.

A constant: neither the machine's cores nor the environment of the process may change a bit.
"""


class Determinism(Enum):
    """Which calls with the same operands on one kind of machine give the same bits."""

    RUNS = "runs"
    """Calls with the same number of threads and the same keywords."""
    THREADS = "threads"
    """Calls with any number of threads: the program does not depend on it."""

    __hash__ = object.__hash__


def checked_determinism(deterministic: Any) -> Determinism:
    """The mode by its name. Raises TeirError (TEIR646) for what is none."""
    if isinstance(deterministic, Determinism):
        return deterministic
    if not isinstance(deterministic, str) or deterministic not in _BY_NAME:
        expected = " or ".join(map(repr, _BY_NAME))
        refuse(DETERMINISTIC, "deterministic", expected, shown(deterministic))
    return _BY_NAME[deterministic]


_BY_NAME = {mode.value: mode for mode in Determinism}


def planned_threads(determinism: Determinism, threads: int) -> int:
    """The number of threads a program is made for when ``threads`` run it."""
    match determinism:
        case Determinism.RUNS:
            return threads
        case Determinism.THREADS:
            return FIXED_THREADS
