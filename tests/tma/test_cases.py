"""The acceptance cases: schedule in, tensor map or reason for refusal out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teir.tma.answer import expectation
from teir.tma.case_form import transfer_of

FOLDER = Path(__file__).parent
CASES: list[dict[str, Any]] = [
    case
    for name in ("cases.json", "more_cases.json")
    for case in json.loads((FOLDER / name).read_text())["cases"]
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_expectation(case: dict[str, Any]) -> None:
    assert expectation(transfer_of(case, "$")) == case["expect"]
