"""Figure 8: the tests of the bad-input catalogue, counted by running them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

WORDS = (
    "bad",
    "refuse",
    "reject",
    "wrong",
    "unusable",
    "hostile",
    "malformed",
    "invalid",
    "missing",
    "unknown",
    "raises",
    "rule",
)
"""A test whose name holds one of these words gives bad input and demands the right answer."""


def count_catalogue(tests: Path) -> tuple[int, int]:
    """(tests that passed, all tests) of the catalogue under the directory ``tests``."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        command = [sys.executable, "-m", "pytest", str(tests), "-q", f"--junitxml={report}"]
        subprocess.run([*command, "-k", " or ".join(WORDS)], check=False, stdout=subprocess.DEVNULL)
        suite = ElementTree.parse(report).getroot().find("testsuite")
    if suite is None:
        return 0, 0
    total = int(suite.attrib["tests"]) - int(suite.attrib["skipped"])
    return total - int(suite.attrib["failures"]) - int(suite.attrib["errors"]), total
