"""Figure 12: lines and branches of checker, loader and lowering that the tests reach."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

LINES, BRANCHES = 95.0, 90.0
"""Percent that each part must have."""

PARTS = {
    "checker": ("ir/check/", "expr/"),
    "loader": ("ir/",),
    "lowering": ("lower/",),
}
"""Files below the package by part; the first part that names a file has it."""


@dataclass(slots=True)
class Reached:
    """Lines and branches of a part: how many there are, how many the tests reach."""

    lines: int = 0
    lines_reached: int = 0
    branches: int = 0
    branches_reached: int = 0

    @property
    def line_percent(self) -> float:
        return 100 * self.lines_reached / max(1, self.lines)

    @property
    def branch_percent(self) -> float:
        return 100 * self.branches_reached / max(1, self.branches)


def measure_coverage(tests: Path) -> dict[str, Reached]:
    """What the tests in the directory ``tests`` reach, by part."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "coverage.json"
        rooms = ("ir", "expr", "lower")
        command = [sys.executable, "-m", "pytest", str(tests), "-q", "--cov-branch"]
        command += [f"--cov=teir.{room}" for room in rooms]
        subprocess.run(
            [*command, f"--cov-report=json:{report}"], check=False, stdout=subprocess.DEVNULL
        )
        return parts_of(json.loads(report.read_text())["files"])


def parts_of(files: dict[str, dict[str, dict[str, int]]]) -> dict[str, Reached]:
    """The sums over the files of each part, from the report of the ``coverage`` package."""
    parts = {name: Reached() for name in PARTS}
    for path, record in files.items():
        below = path.rpartition("teir/")[2]
        name = next((part for part, starts in PARTS.items() if below.startswith(starts)), None)
        if name is None:
            continue
        summary, part = record["summary"], parts[name]
        part.lines += summary["num_statements"]
        part.lines_reached += summary["covered_lines"]
        part.branches += summary["num_branches"]
        part.branches_reached += summary["covered_branches"]
    return parts
