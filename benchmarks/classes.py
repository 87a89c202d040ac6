"""One class of contractions beside the peaks of the same process, and beside the peers.

    python benchmarks/classes.py CLASS [--dtype float32|float64|bfloat16|complex64|complex128]
        [--only TEXT] [--no-peers] [--rounds 5] [--threads 1] [--offset 16] [--json FILE]

CLASS is a, b, c, d or e (see `cases.py`). Every round measures the multiply-add peak, the copy
bandwidth and every contender; shares are medians over the rounds of the least possible time,
min(multiply-add peak, bytes over copy bandwidth), over the time taken. Results are compared on
whole numbers, then timed on random ones. Everybody writes into an output made beforehand who can.
Where other processes compete for the cores, run it as `chrt -f 10 python ...`. Exits 1 where a
result of this package is wrong.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operands import NATURAL_OFFSET, agrees, draw, randomise
from ours import OURS, our_call
from record import machine
from rounds import Call, Rounds, geometric_mean, measure

from cases import CLASSES, Case
from teir.dtypes import DataType

DTYPES = {
    "float32": DataType.FP32,
    "float64": DataType.FP64,
    "bfloat16": DataType.BF16,
    "complex64": DataType.C64,
    "complex128": DataType.C128,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to measure."""

    data_type: DataType
    rounds: int
    threads: int
    offset_bytes: int
    with_peers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case, measured."""

    case: Case
    data_type: DataType
    rounds: Rounds
    wrong: tuple[str, ...]
    """Contenders whose result is not the right one; they are not timed."""

    def share(self, contender: str) -> float:
        return statistics.median(self.rounds.shares(self.case, self.data_type, contender))

    def rate(self, contender: str) -> str:
        taken = self.rounds.median_seconds(contender)
        flops = self.case.flops(self.data_type)
        if flops:
            return f"{flops / taken / 1e9:7.1f} GF/s"
        return f"{self.case.size_bytes(self.data_type) / taken / 1e9:7.1f} GB/s"


def measure_case(case: Case, settings: Settings) -> Row:
    data_type = settings.data_type
    operands = draw(case, data_type, settings.offset_bytes)
    calls: dict[str, Call] = {}
    wrong = []
    for name, call in _contenders(case, settings, operands):
        operands.out[...] = 0
        result = call()
        if agrees(operands.out if result is None else result, operands.expected, data_type):
            calls[name] = call
        else:
            wrong.append(name)
    randomise(operands, data_type)
    rounds = measure(
        case, data_type, calls, settings.rounds, settings.threads, settings.offset_bytes
    )
    return Row(case=case, data_type=data_type, rounds=rounds, wrong=tuple(wrong))


def _contenders(case: Case, settings: Settings, operands: Any) -> Iterable[tuple[str, Call]]:
    yield OURS, our_call(case, settings.data_type, operands, settings.threads)


def chosen(class_name: str, only: Sequence[str]) -> list[Case]:
    """The cases of the class whose name or family contains one of ``only``, if given."""
    return [
        case
        for case in CLASSES[class_name]()
        if not only or any(text in case.name or text in case.family for text in only)
    ]


def print_row(row: Row) -> None:
    if OURS in row.wrong:
        print(f"{row.case.name:44} WRONG RESULT", flush=True)
        return
    bound = max(1, row.case.flops(row.data_type)) / statistics.median(row.rounds.flops_peaks)
    copy = row.case.size_bytes(row.data_type) / statistics.median(row.rounds.copy_peaks)
    limit = "fma " if bound >= copy else "copy"
    taken = row.rounds.median_seconds(OURS)
    print(
        f"{row.case.name:44} {1e3 * taken:9.4f} ms {row.rate(OURS)} {limit} "
        f"{100 * row.share(OURS):6.1f} %",
        flush=True,
    )


def print_summary(rows: Sequence[Row]) -> None:
    good = [row for row in rows if OURS not in row.wrong]
    if not good:
        return
    for family in dict.fromkeys(row.case.family for row in good):
        _print_mean(family, [row for row in good if row.case.family == family])
    _print_mean("all", good)
    peak = statistics.median(p for row in good for p in row.rounds.flops_peaks)
    copy = statistics.median(p for row in good for p in row.rounds.copy_peaks)
    print(f"peak {peak / 1e9:.1f} GFLOP/s, numpy.copyto {copy / 1e9:.1f} GB/s")


def _print_mean(label: str, rows: Sequence[Row]) -> None:
    shares = [row.share(OURS) for row in rows]
    print(
        f"{label:30} {len(rows):3} cases: geometric mean {100 * geometric_mean(shares):5.1f} %, "
        f"worst {100 * min(shares):5.1f} %"
    )


def as_record(row: Row) -> dict[str, Any]:
    case = row.case
    return {
        "name": case.name,
        "family": case.family,
        "einsum": case.einsum,
        "shapes": case.shapes,
        "flops": case.flops(row.data_type),
        "bytes": case.size_bytes(row.data_type),
        "flops_peak": statistics.median(row.rounds.flops_peaks),
        "copy_peak": statistics.median(row.rounds.copy_peaks),
        "seconds": {name: row.rounds.median_seconds(name) for name in row.rounds.seconds},
        "share": {name: row.share(name) for name in row.rounds.seconds},
        "wrong": row.wrong,
    }


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("class_name", metavar="CLASS", choices=sorted(CLASSES))
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--offset", type=int, default=NATURAL_OFFSET, help="bytes from a 64-byte boundary"
    )
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> int:
    arguments = read_arguments()
    settings = Settings(
        data_type=DTYPES[arguments.dtype],
        rounds=arguments.rounds,
        threads=arguments.threads,
        offset_bytes=arguments.offset,
        with_peers=not arguments.no_peers,
    )
    rows = []
    for case in chosen(arguments.class_name, arguments.only):
        row = measure_case(case, settings)
        print_row(row)
        rows.append(row)
    print_summary(rows)
    if arguments.json:
        record = {"machine": machine(), "figures": [as_record(row) for row in rows]}
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return int(any(OURS in row.wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
