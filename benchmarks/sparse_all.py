"""Products with a sparse operand beside C, SciPy, torch and sparse: all results of a release.

    python benchmarks/sparse_all.py [--only TEXT] [--prefix "chrt -f 10 taskset -c 1"]
        [--threads 1,2] [--work FOLDER] [--results FOLDER]

Runs `sparse_kernels.py` slice by slice, one thread and then two, joins the slices in
``results/sparse-float64.json`` and ``sparse-float64-2-threads.json`` with plots beside them, and
sums up in ``results/sparse-summary.json``. A run that was stopped goes on where it was: a slice is
measured again only where the sources of the package or of the benchmarks have changed. ``--prefix``
is put before the command of every slice; slices on two threads get it without ``taskset``.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sparse_kernels
from all import source_digest, unpinned
from columns import Allocator, Column, environment
from record import RESULTS
from sparse_cases import EXTENTS, IN_CACHE, KERNELS, MATRICES, TENSORS, statement_for
from sparse_kernels import PRODUCT, compile_peers
from sparse_plots import plot_ratios
from sparse_tables import print_summary, summarise

from teir.cli.peers.libraries import peer_versions

_LARGE = ("K2", "K5", "K6", "K7")
"""Kernels whose largest extent is a slice of its own."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one process measures."""

    kernel: str
    data: str
    extents: tuple[int, ...]
    threads: int

    @property
    def name(self) -> str:
        extents = "-".join(map(str, self.extents))
        return f"{self.kernel}-{self.data}-{extents}-{self.threads}"


def slices(threads: int) -> list[Slice]:
    """All of them, each well below a minute."""
    made = []
    for kernel in KERNELS:
        is_matrix = len(statement_for(kernel).inputs[0].indices) == 2
        for data in MATRICES if is_matrix else TENSORS:
            parts = (EXTENTS[:-1], EXTENTS[-1:]) if kernel in _LARGE else (EXTENTS,)
            made += [Slice(kernel, data, extents, threads) for extents in parts]
    made.append(Slice("SpMM", IN_CACHE, EXTENTS, threads))
    return [*made, *(Slice(PRODUCT, data, (0,), threads) for data in MATRICES)]


def run(one: Slice, path: Path, prefix: Sequence[str]) -> bool:
    """Measure a slice where it is missing; False where that failed."""
    if path.exists():
        return True
    if one.threads == 1:
        compile_peers(one.kernel, one.data, list(one.extents))
    command = [
        *(prefix if one.threads == 1 else unpinned(prefix)),
        *(sys.executable, sparse_kernels.__file__, one.kernel, one.data),
        *("--extents", ",".join(map(str, one.extents))),
        *("--threads", str(one.threads), "--json", str(path)),
    ]
    done = subprocess.run(
        command, env=environment(Column.SKYLAKEX, one.threads, Allocator.KEEPING), check=False
    )
    return done.returncode == 0 and path.exists()


def join(threads: int, paths: Sequence[Path], source: str, results: Path) -> None:
    """Write the results of one number of threads, and their plot."""
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    figures = [figure for part in parts for figure in part["figures"]]
    title = _title(threads)
    record = {
        "machine": {**parts[0]["machine"], **peer_versions()},
        "settings": {"source": source, "threads": threads},
        "figures": figures,
    }
    (results / f"{title}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    plot_ratios(title, figures, results / f"{title}.svg")


def write_summary(results: Path) -> None:
    """``sparse-summary.json`` of the results there are."""
    summaries: dict[str, Any] = {}
    for threads in (1, 2):
        path = results / f"{_title(threads)}.json"
        if path.exists():
            stored = json.loads(path.read_text(encoding="utf-8"))
            found = summarise(stored["figures"])
            summaries[str(threads)] = {"machine": stored["machine"], **found}
            print_summary(found)
    text = json.dumps(summaries, indent=1) + "\n"
    (results / "sparse-summary.json").write_text(text, encoding="utf-8")


def _title(threads: int) -> str:
    return "sparse-float64" if threads == 1 else f"sparse-float64-{threads}-threads"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="measure slices whose name has this text")
    parser.add_argument("--prefix", type=shlex.split, default=[])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "teir-benchmarks"
    )
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.results.mkdir(parents=True, exist_ok=True)
    source = source_digest()
    failed = []
    for threads in map(int, arguments.threads.split(",")):
        start = time.perf_counter()
        known = {one: arguments.work / f"{one.name}-{source}.json" for one in slices(threads)}
        for one, path in known.items():
            if arguments.only in one.name and not run(one, path, arguments.prefix):
                failed.append(one.name)
        paths = [path for path in known.values() if path.exists()]
        if paths:
            join(threads, paths, source, arguments.results)
        print(f"{threads} threads: {time.perf_counter() - start:.0f} s", flush=True)
    write_summary(arguments.results)
    for name in failed:
        print(f"{name}: FAILED")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
