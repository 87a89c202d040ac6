"""The rooms of the package import one way only; the contract stands in pyproject.toml."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_rooms_import_downwards_only() -> None:
    from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

    assert lint_imports(str(ROOT / "pyproject.toml"), no_cache=True) == EXIT_STATUS_SUCCESS


FOREIGN = ("llvmlite", "torch", "scipy", "cotengra", "z3", "matplotlib", "typer", "rich")


@pytest.mark.parametrize("statement", ["import teir", "import teir.ir.check, teir.lower.kernels"])
def test_importing_pulls_in_neither_llvm_nor_an_optional_package(statement: str) -> None:
    program = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "teir" in loaded
    assert not loaded & set(FOREIGN)


def test_importing_the_command_line_does_not_import_llvm() -> None:
    program = "import teir.cli.commands, sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "typer" in done.stdout.split()
    assert "llvmlite" not in done.stdout.split()
