"""The result of a check: findings on the printed program, and the bytes each tensor needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from teir.errors import Finding, Part, ProgramPlace, Rule, TeirError
from teir.ir.check.resolved import Resolved
from teir.ir.nodes import Program
from teir.ir.printing import print_program

RuleCheck = tuple[Rule, Callable[[Resolved], Iterable[Finding]]]
"""A rule and the function that finds where a program breaks it."""


class Need(msgspec.Struct, frozen=True, gc=False):
    """The bytes ``[low, high)`` of a tensor, relative to its base, that a program may touch."""

    low: int
    high: int

    @property
    def before_bytes(self) -> int:
        """Room an operand must have before its base."""
        return max(0, -self.low)

    @property
    def after_bytes(self) -> int:
        """Room an operand must have from its base on."""
        return max(0, self.high)


class Report(msgspec.Struct, frozen=True, gc=False):
    """What a check found.

    ``findings`` come in program order. ``needs`` has one entry per tensor and scratch tensor that
    some invocation touches; it is empty where the structure of the program is wrong. Tensors
    addressed by position have an entry only once their index arrays are bound.
    """

    program: Program
    findings: tuple[Finding, ...]
    needs: Mapping[str, Need]

    def __repr__(self) -> str:
        """A line; `findings`, `needs` and `notes` have the rest."""
        codes = ", ".join(finding.rule.code for finding in self.findings)
        return f"<Report on {self.program.name!r}: {codes or 'ok'}>"

    @property
    def ok(self) -> bool:
        """True where nothing was found: the program may run."""
        return not self.findings

    @property
    def notes(self) -> tuple[str, ...]:
        """What is allowed but worth knowing, computed when asked for."""
        from teir.ir.check.initialised import accumulation_notes

        return accumulation_notes(self.program) if self.ok else ()

    def raise_if_wrong(self) -> None:
        """Raise TeirError with all findings, if there are any."""
        if self.findings:
            raise TeirError(self.findings)


def blame(
    rule: Rule, part: Part, name: str, expected: str, found: str, hint: str | None = None
) -> Finding:
    """A finding at a part of the program; its line is filled in by `on_the_printed_program`."""
    place = ProgramPlace(part=part, name=name)
    return Finding(rule=rule, place=place, expected=expected, found=found, hint=hint)


def on_the_printed_program(resolved: Resolved, findings: list[Finding]) -> tuple[Finding, ...]:
    """The findings in program order, each with its printed line."""
    if not resolved.is_within_limits:
        return tuple(findings)
    blamed = print_program(resolved.program).blame(findings)
    return tuple(sorted(blamed, key=lambda finding: finding.line_number or 0))
