"""The command from its first import on: an interrupt ends it in exit code 130, without a word."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED_IMPORT = """
import sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from teir.cli.main import main
main()
"""


@pytest.mark.parametrize("module", ["numpy", "typer", "teir.cli.commands", "teir.cli.tune"])
def test_an_interrupt_while_commands_are_imported(module: str) -> None:
    program = INTERRUPTED_IMPORT.format(module=module)
    done = subprocess.run(
        [sys.executable, "-c", program, "info"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
