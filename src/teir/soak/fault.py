"""A fault to seed into our own compiler: a small change to one source file."""

from __future__ import annotations

from dataclasses import dataclass

PROGRAMS, BOUNDS, PASSES, EINSUMS = "programs", "bounds", "passes", "einsums"
"""What catches a fault: a stage of the soak, or else the tests in a directory."""


@dataclass(frozen=True, slots=True)
class Fault:
    """``before`` becomes ``after`` everywhere in ``file``, below the package's directory."""

    title: str
    file: str
    before: str
    after: str
    caught_by: str
