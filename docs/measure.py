"""Measure the figures of the documentation on this machine: ``python3 docs/measure.py``.

Runs the installed package, writes ``figures.json`` beside this file; `docs/generate.py` turns it
into the tables of the documentation and the README.
"""

from __future__ import annotations

import datetime
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import teir
from teir.cli.timing import in_time_unit

FOLDER = Path(__file__).parent
_FIRST_CALLS = "first-calls"
"""The argument with which this program times first calls and prints them."""


def main() -> None:
    _json("warm", "--json")
    machine = _json("info", "--json")
    machine["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    demos = [_json("demo", "--json", "--threads", "1")]
    if machine["threads"] > 1:
        demos.append(_json("demo", "--json", "--threads", str(machine["threads"])))
    record = {"machine": machine, "demo": demos, "overheads": overheads()}
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    (FOLDER / "figures.json").write_text(text, encoding="utf-8")


def overheads() -> list[dict[str, str]]:
    """What a user waits for besides the arithmetic."""
    a, b, c = (np.ones((2, 2)) for _ in range(3))
    planned = teir.plan("ij,jk->ik", a, b)
    rows = [
        ("`import teir`, in a new process, less the interpreter's start", _import_seconds()),
        (
            "`plan(a, b, out=c)`, extents 2, all checks included",
            _call(lambda: planned(a, b, out=c)),
        ),
        (
            "`teir.einsum`, extents 2, a known contraction",
            _call(lambda: teir.einsum("ij,jk->ik", a, b)),
        ),
        (
            "first call of a contraction never seen before, its kernels on disk (`teir warm`)",
            _first_call({}),
        ),
        ("the same, its kernels compiled on the way", _first_call({"TEIR_CACHE": "off"})),
    ]
    return [{"what": what, "median": in_time_unit(seconds)} for what, seconds in rows]


def _first_call(environment: dict[str, str]) -> float:
    """The median of `_first_calls` in a process with these variables."""
    command = [sys.executable, __file__, _FIRST_CALLS]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, env={**os.environ, **environment}
    )
    return statistics.median(json.loads(done.stdout))


def _first_calls() -> list[float]:
    """Times of the first einsum over shapes none of which came before, warm calls taken off."""
    seconds = []
    for extent in range(33, 54):
        a, b = np.ones((extent, extent + 1)), np.ones((extent + 1, extent + 2))
        start = perf_counter()
        teir.einsum("ij,jk->ik", a, b)
        first = perf_counter() - start
        seconds.append(first - _call(lambda: teir.einsum("ij,jk->ik", a, b), 3))  # noqa: B023
    return seconds


def _call(call: Callable[[], object], rounds: int = 7) -> float:
    call()
    times = []
    for _ in range(rounds):
        start = perf_counter()
        for _ in range(1000 if rounds > 3 else 1):
            call()
        times.append((perf_counter() - start) / (1000 if rounds > 3 else 1))
    return statistics.median(times)


def _import_seconds() -> float:
    empty = statistics.median(_process_seconds("pass") for _ in range(7))
    return statistics.median(_process_seconds("import teir") for _ in range(7)) - empty


def _process_seconds(program: str) -> float:
    start = perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return perf_counter() - start


def _json(*arguments: str) -> Any:
    command = [sys.executable, "-c", "from teir.cli.main import main; main()", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


if __name__ == "__main__":
    if _FIRST_CALLS in sys.argv:
        print(json.dumps(_first_calls()))
    else:
        main()
