"""Every text case of tests/cases/bad with a code of the checker gets that code on its line.

A case says ``# expect CODE`` on each guilty line, and may give operands in its first lines as
``# operand NAME: BYTES before, BYTES after``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from teir.arrays.operand import BoundOperand
from teir.ir.check import RULES, check
from teir.ir.parsing import parse_program
from teir.ir.printing import print_program

BAD = Path(__file__).parents[2] / "cases" / "bad"
CASES = sorted([*BAD.glob("TEIR3*.teir"), *BAD.glob("TEIR4*.teir")])
OPERAND = re.compile(r"# operand (\S+): (\d+) before, (\d+) after")
EXPECT = re.compile(r"# expect (TEIR\d+)")


def operands_of(text: str) -> dict[str, BoundOperand] | None:
    found = {
        name: BoundOperand(
            name=name,
            address=2**20 * (2 + number),
            before_bytes=int(before),
            after_bytes=int(after),
            writable=True,
            owner=None,
        )
        for number, (name, before, after) in enumerate(OPERAND.findall(text))
    }
    return found or None


def blamed_lines(text: str) -> list[tuple[str, str]]:
    """(code, canonical line) for every guilty line of the case."""
    canonical = print_program(parse_program(text)).text.splitlines()
    found = []
    for row in text.splitlines():
        match = EXPECT.search(row)
        if match is None:
            continue
        bare = row[: match.start()].strip()
        lines = [line.strip() for line in canonical if line.strip().startswith(bare[:12])]
        assert any(line == bare for line in lines), f"write the guilty line canonically: {bare}"
        found.append((match.group(1), bare))
    return found


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_guilty_line_is_blamed(path: Path) -> None:
    text = path.read_text()
    report = check(parse_program(text), operands_of(text))
    found = [(finding.code, (finding.line or "").strip()) for finding in report.findings]
    assert found == blamed_lines(text)
    assert found
    assert path.stem.startswith(found[0][0])
    for finding in report.findings:
        assert finding.expected
        assert finding.found
        assert str(finding).startswith(f"{finding.code} at line {finding.line_number}")


def test_codes_are_unique_and_sentences_end() -> None:
    codes = [rule.code for rule in RULES]
    assert len(set(codes)) == len(codes)
    assert all(rule.sentence.endswith(".") and rule.source for rule in RULES)
