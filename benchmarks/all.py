"""Every class in every type, everybody beside everybody: all results of a release.

    python benchmarks/all.py [--only NAME] [--no-peers] [--prefix "chrt -f 10 taskset -c 1"]
        [--work FOLDER] [--results FOLDER]

Runs `classes.py` in slices of a few cases, in both environments of `columns.py`, joins them in
``results/class-CLASS-DTYPE.json`` with a plot beside it, and sums up in ``results/summary.json``;
``--results`` names another folder, for another machine.
A run that was stopped goes on where it was: a slice is measured again only where the sources of the
package or of the benchmarks have changed. ``--prefix`` is put before the command of every slice;
slices on several threads get it without ``taskset``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from classes import DTYPES, chosen_cases
from columns import Column, columns_here, run_column
from plots import plot_class
from record import RESULTS, machine
from tables import merge, peaks, print_summary, scaling, summarise

import teir
from teir.cli.peers.libraries import peer_versions

ROUNDS = 5
_SLICES = {"a": 3, "b": 14, "c": 6, "d": 8, "e": 16}
"""Cases per slice: what takes well below a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One results file."""

    class_name: str
    dtype: str
    threads: int = 1
    with_peers: bool = True

    @property
    def name(self) -> str:
        threads = "" if self.threads == 1 else f"-{self.threads}-threads"
        return f"class-{self.class_name}-{self.dtype}{threads}"

    @property
    def columns(self) -> tuple[Column, ...]:
        is_bfloat = self.dtype == "bfloat16"
        return columns_here() if self.with_peers and not is_bfloat else (Column.INSTALLED,)


JOBS = (
    *(Job(class_name=name, dtype=dtype) for dtype in ("float32", "float64") for name in "abcde"),
    *(Job(class_name=name, dtype="bfloat16") for name in "abce"),
    *(
        Job(class_name=name, dtype=dtype, with_peers=False)
        for dtype in ("complex64", "complex128")
        for name in "ab"
    ),
    *(
        Job(class_name=name, dtype=dtype, threads=2, with_peers=False)
        for name in "abc"
        for dtype in ("float32", "float64")
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Where slices and results go, what they measure, and what is put before their commands."""

    folder: Path
    results: Path
    source: str
    prefix: tuple[str, ...]

    def slice_path(self, job: Job, column: Column, first: int) -> Path:
        who = column.name if job.with_peers else "ALONE"
        return self.folder / f"{job.name}-{who}-{first:03}-{self.source}.json"


def source_digest() -> str:
    """The sources whose change makes measured slices stale."""
    assert teir.__file__ is not None
    digest = hashlib.sha256()
    for folder in (Path(teir.__file__).parent, Path(__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def measure_job(job: Job, run: Run) -> bool:
    """Measure the slices that are missing, then write the joined record; False where one failed."""
    cases = len(chosen_cases(job.class_name, (), DTYPES[job.dtype]))
    columns: dict[str, Any] = {}
    for column in job.columns:
        parts = [_measured(job, column, first, run) for first in _firsts(job, cases)]
        if any(part is None for part in parts):
            return False
        known = [part for part in parts if part is not None]
        columns[column.value] = {
            "libraries": known[0]["libraries"],
            "figures": [figure for part in known for figure in part["figures"]],
        }
    settings = {"source": run.source, "dtype": job.dtype, "threads": job.threads, "rounds": ROUNDS}
    record = {"machine": {**machine(), **peer_versions()}, "settings": settings, "columns": columns}
    text = json.dumps(record, indent=1) + "\n"
    (run.results / f"{job.name}.json").write_text(text, encoding="utf-8")
    print(f"== {job.name} ==")
    print_summary(record)
    plot_class(job.name, record, run.results / f"{job.name}.svg")
    return True


def write_summary(results: Path) -> None:
    """``summary.json``: means and worst shares of every results file there is.

    A ``note`` among the settings of a file says what is missing in it.
    """
    summaries = {}
    for job in JOBS:
        path = results / f"{job.name}.json"
        if not path.exists():
            continue
        record = json.loads(path.read_text(encoding="utf-8"))
        flops_peak, copy_peak = peaks(record)
        summaries[job.name] = {
            "class": job.class_name,
            "dtype": job.dtype,
            "threads": job.threads,
            "machine": record["machine"],
            "note": record["settings"].get("note", ""),
            "flops_peak": flops_peak,
            "copy_peak": copy_peak,
            **summarise(merge(record)),
        }
        alone = results / f"{replace(job, threads=1).name}.json"
        if job.threads > 1 and alone.exists():
            summaries[job.name]["scaling"] = scaling(
                json.loads(alone.read_text(encoding="utf-8")), record
            )
    text = json.dumps(summaries, indent=1) + "\n"
    (results / "summary.json").write_text(text, encoding="utf-8")


def _firsts(job: Job, cases: int) -> Iterator[int]:
    return iter(range(0, cases, _SLICES[job.class_name]))


def _measured(job: Job, column: Column, first: int, run: Run) -> Any:
    """The record of one slice, stored or measured now; None where measuring failed."""
    path = run.slice_path(job, column, first)
    if not path.exists():
        arguments = [
            *(job.class_name, "--dtype", job.dtype, "--rounds", str(ROUNDS)),
            *("--threads", str(job.threads), "--json", str(path)),
            *("--first", str(first), "--last", str(first + _SLICES[job.class_name])),
            *(() if job.with_peers else ("--no-peers",)),
        ]
        prefix = run.prefix if job.threads == 1 else unpinned(run.prefix)
        run_column(column, job.threads, arguments, prefix)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def unpinned(prefix: Sequence[str]) -> tuple[str, ...]:
    """``prefix`` without ``taskset -c CORE``, which would put all threads on one core."""
    if "taskset" not in prefix:
        return tuple(prefix)
    place = list(prefix).index("taskset")
    return (*prefix[:place], *prefix[place + 3 :])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--prefix", type=shlex.split, default=[])
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "teir-benchmarks"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.results.mkdir(parents=True, exist_ok=True)
    run = Run(
        folder=arguments.work,
        results=arguments.results,
        source=source_digest(),
        prefix=tuple(arguments.prefix),
    )
    failed = []
    for job in JOBS:
        if arguments.only and not any(text in job.name for text in arguments.only):
            continue
        start = time.perf_counter()
        if not measure_job(replace(job, with_peers=False) if arguments.no_peers else job, run):
            failed.append(job.name)
        print(f"{job.name}: {time.perf_counter() - start:.0f} s", flush=True)
    write_summary(arguments.results)
    for name in failed:
        print(f"{name}: FAILED")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
