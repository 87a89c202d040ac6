"""Every file of tests/cases/bad with a code of a reader gets exactly the findings it states.

A text case says ``# expect CODE`` on each guilty line; beside a JSON case stands a file ending in
``.expect`` with lines ``# expect CODE at PATH``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from teir.errors import Finding, RecordPlace, TeirError, TextPlace
from teir.ir.etops import ETOPS_RULES
from teir.ir.flat_rules import FLAT_RULES, FLAT_VERSION
from teir.ir.load import load
from teir.ir.name_rules import NAME_RULES
from teir.ir.reading_rules import READING_RULES
from teir.ir.record_rules import RECORD_RULES

BAD = Path(__file__).parents[1] / "cases" / "bad"
CASES = sorted(
    path for path in [*BAD.glob("TEIR1*"), *BAD.glob("TEIR2*")] if path.suffix in (".teir", ".json")
)
RULES = (
    *READING_RULES,
    *NAME_RULES,
    *RECORD_RULES,
    FLAT_VERSION,
    *(rule for rule, _ in FLAT_RULES),
    *ETOPS_RULES,
)
NEEDS_A_SPECIAL_INPUT = {
    *("TEIR100", "TEIR101", "TEIR102", "TEIR108", "TEIR111", "TEIR112", "TEIR117", "TEIR118")
}
"""Files that are none, too large, not UTF-8: in test_load.py."""
EXPECT = re.compile(r"# expect (TEIR\d+)(?: at (\S+))?")


def findings_of(path: Path) -> tuple[Finding, ...]:
    with pytest.raises(TeirError) as caught:
        load(path)
    return caught.value.findings


def stated(path: Path) -> list[tuple[str, str]]:
    """(code, line number or JSON path) of every finding the case states."""
    if path.suffix == ".json":
        return EXPECT.findall(path.with_suffix(".expect").read_text())
    return [
        (match.group(1), str(number))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for match in EXPECT.finditer(line)
    ]


def blamed(finding: Finding) -> tuple[str, str]:
    match finding.place:
        case TextPlace(line=line):
            return finding.code, str(line)
        case RecordPlace(path=path):
            return finding.code, path
        case place:
            raise AssertionError(place)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_the_guilty_place_is_blamed(path: Path) -> None:
    assert [blamed(finding) for finding in findings_of(path)] == stated(path)


def test_every_rule_has_a_case() -> None:
    cased = {path.name.split("-")[0] for path in CASES}
    assert {rule.code for rule in RULES} - cased == NEEDS_A_SPECIAL_INPUT


def test_no_code_is_given_twice() -> None:
    codes = [rule.code for rule in RULES]
    assert len(codes) == len(set(codes))
