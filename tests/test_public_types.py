"""What a type checker sees of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

SCRIPT = """
import teir

program: teir.Program = teir.loads('teir 1 "x"')
report: teir.Report = teir.check(program)
native: teir.Executable = teir.compile(program, threads=1)
plan: teir.Plan = teir.plan("ij,kj->ik", (2, 3), (2, 3))
operand: teir.Operand = teir.Operand(bytearray(8), base_bytes=8)
found: tuple[teir.Finding, ...] = teir.TeirError(()).findings
"""


def test_the_public_names_have_types(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
