"""Figure 9: faults seeded into our own compiler, and mutants of the checker, are caught."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from teir.soak.fault_list import FAULTS
from teir.soak.faulted import CAUGHT, MISSING, UNNOTICED
from teir.soak.mutation import mutant_count

SECONDS_PER_FAULT = 240.0


def seed_one(item: int, tests: Path) -> dict[str, Any]:
    """Whether fault ``item`` is caught, in an interpreter and a cache of its own.

    A crash is a caught fault; an end that the time limit brings is none.
    """
    fault = FAULTS[item]
    with tempfile.TemporaryDirectory() as cache:
        status = _status([str(item)], tests, cache)
    if status == MISSING:
        return {"wrong": [f"{fault.title}: {fault.file} does not read like that any more"]}
    if status == UNNOTICED:
        return {"wrong": [f"{fault.title} ({fault.file}): nobody noticed"]}
    if status is None or (status > 0 and status != CAUGHT):
        return {"wrong": [f"{fault.title} ({fault.file}): no verdict, status {status}"]}
    return {"named": {fault.caught_by: 1}}


def checker_mutants(count: int, seed: int) -> tuple[tuple[str, int], ...]:
    """A sample of (file below the package, number of the mutant), the same for a seed."""
    package = Path(__file__).parents[1]
    files = sorted((package / "ir" / "check").glob("*.py"))
    all_mutants = [
        (str(file.relative_to(package)), number)
        for file in files
        for number in range(mutant_count(file.read_text()))
    ]
    return tuple(random.Random(seed).sample(all_mutants, min(count, len(all_mutants))))


def mutate_one(item: int, mutants: Sequence[tuple[str, int]], tests: Path) -> dict[str, Any]:
    """Whether mutant ``item`` is caught; a crash and a hang count as caught."""
    file, number = mutants[item]
    with tempfile.TemporaryDirectory() as cache:
        status = _status([file, str(number)], tests, cache)
    if status == UNNOTICED:
        return {"named": {f"{file} {number}": 1}, "skipped": True}
    return {}


def _status(what: Sequence[str], tests: Path, cache: str) -> int | None:
    """The exit status; None where the time was over."""
    command = [sys.executable, "-m", "teir.soak.faulted", *what, str(tests)]
    environment = {**os.environ, "TEIR_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(
            command,
            check=False,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS_PER_FAULT - 10,
        )
    except subprocess.TimeoutExpired:
        return None
    return ended.returncode
