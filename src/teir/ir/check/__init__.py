"""Is a program well formed and safe to run?

`check` applies every rule of section 10.5 and of the language reference, then proves the program
safe (docs/safety.md G2, G4, G5, G10). Every rule is one function with one code; `RULES` lists them.
The proofs are made only for a program whose structure is right: there is one finding per cause.

    teir.ir.check.names, values, paths, primitives, sparse    the rules of structure, TEIR3xx
    teir.ir.check.bounds                                      (a) inside the operands, TEIR401, 402
    teir.ir.check.races                                       (b) no races, TEIR403 to 405
    teir.ir.check.initialised                                 (c) scratch written first, TEIR406
    teir.ir.check.overlap                                     (d) operands apart, TEIR407
    teir.ir.check.index_arrays                                bound index arrays, TEIR410 to 414

Programs that are plainly right, as most are, are shown so by `teir.ir.check.plain` in one pass; the
rules and proofs above look at all others.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from teir.arrays.operand import BoundOperand
from teir.errors import Finding, Rule
from teir.ir.check import bounds
from teir.ir.check.collision import Budget
from teir.ir.check.index_arrays import INDEX_ARRAY_RULES, positions_of
from teir.ir.check.initialised import INITIALISED_RULES, scratch_written_first
from teir.ir.check.names import NAME_RULES
from teir.ir.check.overlap import OVERLAP_RULES, overlaps
from teir.ir.check.paths import PATH_RULES
from teir.ir.check.plain import plain_needs
from teir.ir.check.primitives import PRIMITIVE_RULES
from teir.ir.check.races import RACE_RULES, STEPS, races, tiles_once
from teir.ir.check.report import Need as Need
from teir.ir.check.report import Report as Report
from teir.ir.check.report import RuleCheck, on_the_printed_program
from teir.ir.check.resolved import Resolved, resolve
from teir.ir.check.sparse import SPARSE_RULES
from teir.ir.check.values import LIMIT_RULES, VALUE_RULES
from teir.ir.nodes import Program

STRUCTURE_RULES: tuple[RuleCheck, ...] = (
    *NAME_RULES,
    *VALUE_RULES,
    *PATH_RULES,
    *PRIMITIVE_RULES,
    *SPARSE_RULES,
)

RULES: tuple[Rule, ...] = (
    *(rule for rule, _ in LIMIT_RULES),
    *(rule for rule, _ in STRUCTURE_RULES),
    *bounds.BOUND_RULES,
    *RACE_RULES,
    *INITIALISED_RULES,
    *OVERLAP_RULES,
    *INDEX_ARRAY_RULES,
)
"""Every rule of this package, for the documentation; those of operands are in `teir.arrays`."""


class Details(msgspec.Struct, frozen=True):
    """What the proofs of operands start from; ``hulls`` is None where the structure is wrong."""

    resolved: Resolved
    hulls: bounds.Hulls | None


class Proof(msgspec.Struct, frozen=True):
    """A checked program; operands can be checked against it."""

    report: Report
    _details: list[Details]

    @property
    def details(self) -> Details:
        """What operands are checked against, found out when the first ones come."""
        if not self._details:
            resolved = resolve(self.report.program)
            self._details.append(Details(resolved, bounds.hulls(resolved)))
        return self._details[0]


def check(program: Program, operands: Mapping[str, BoundOperand] | None = None) -> Report:
    """All findings of ``program``, and the bytes each tensor needs.

    With ``operands`` it is also checked that every byte lies inside its operand, that written
    operands are writable, and that none overlaps another one wrongly. Raises nothing.
    """
    proof = prove(program, operands)
    return proof.report if operands is None else _with_operands(proof, operands)


def prove(program: Program, operands: Mapping[str, BoundOperand] | None = None) -> Proof:
    """Everything that can be proved of ``program`` by itself; its report has the findings.

    Of ``operands`` only the index arrays of sparse axes are looked at.
    """
    needs = plain_needs(program)
    if needs is not None:
        return Proof(Report(program, (), needs), [])
    return prove_by_rules(program, operands)


def prove_by_rules(program: Program, operands: Mapping[str, BoundOperand] | None = None) -> Proof:
    """As `prove`, by the rules and proofs one after the other, whatever the program."""
    resolved = resolve(program)
    findings = _broken(resolved, LIMIT_RULES) or _broken(resolved, STRUCTURE_RULES)
    if findings:
        blamed = on_the_printed_program(resolved, findings)
        return Proof(Report(program, blamed, {}), [Details(resolved, None)])
    positions: bounds.Positions | None = None
    if operands is not None and resolved.sparse:
        findings, positions = positions_of(resolved, operands)
    found = bounds.hulls(resolved, positions)
    findings += bounds.addresses_limited(found)
    findings += tiles_once(resolved, Budget(STEPS))
    findings += races(resolved, Budget(STEPS))
    findings += scratch_written_first(resolved, Budget(STEPS))
    return Proof(_report(resolved, found, findings), [Details(resolved, found)])


def check_operands(proof: Proof, operands: Mapping[str, BoundOperand]) -> Report:
    """The findings of ``proof`` and those that ``operands`` add.

    What a sparse program reads and writes depends on its index arrays, so it is proved once more
    with those of ``operands``: no proof made before them holds.
    """
    if proof.details.resolved.sparse:
        proof = prove_by_rules(proof.report.program, operands)
    return _with_operands(proof, operands)


def _with_operands(proof: Proof, operands: Mapping[str, BoundOperand]) -> Report:
    """As `check_operands`, for a proof that has seen the index arrays of ``operands``."""
    details = proof.details
    resolved, found = details.resolved, details.hulls
    if found is None:
        return proof.report
    findings = bounds.operands_known(resolved, operands)
    findings += bounds.operands_present(resolved, found, operands)
    findings += bounds.operands_writable(resolved, operands)
    findings += bounds.operands_cover(resolved, found, operands)
    findings += overlaps(resolved, found, operands, Budget(STEPS))
    if not findings:
        return proof.report
    return _report(resolved, found, [*proof.report.findings, *findings])


def _report(resolved: Resolved, found: bounds.Hulls, findings: list[Finding]) -> Report:
    blamed = on_the_printed_program(resolved, findings) if findings else ()
    return Report(resolved.program, blamed, found.needs())


def _broken(resolved: Resolved, rules: tuple[RuleCheck, ...]) -> list[Finding]:
    findings: list[Finding] = []
    for _, find in rules:
        findings += find(resolved)
    return findings
