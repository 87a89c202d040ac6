"""The entry point of the command line, which is interrupted in peace from here on.

The commands, and the numerical libraries below them, take a while to import: that is part of a run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        from teir.cli.commands import run_command

        return run_command(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def main() -> None:
    """The console script ``teir``."""
    sys.exit(run(sys.argv[1:]))
