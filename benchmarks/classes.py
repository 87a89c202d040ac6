"""One class of contractions beside the peaks of the same process, and beside the peers.

    python benchmarks/classes.py CLASS [--dtype float32|float64|bfloat16|complex64|complex128]
        [--only TEXT] [--no-peers] [--rounds 5] [--threads 1] [--offset 16] [--json FILE]

CLASS is a, b, c, d or e (see `cases.py`). Every round measures the multiply-add peak, the copy
bandwidth and every contender; shares are medians over the rounds of the least possible time,
max(operations over multiply-add peak, bytes over copy bandwidth), over the time taken. Results are
compared on whole numbers, then timed on random ones. Everybody writes into an output made
beforehand who can. Peers that `columns.py` concerns are measured once more, told the family of the
machine. Where other processes compete for the cores, run it as `chrt -f 10 python ...`. Exits 1
where a result of this package is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from columns import CONCERNED, Column, columns_here, loaded_libraries, run_column
from ours import our_call
from record import machine
from tables import Figure, print_row, print_summary

from cases import CLASSES
from teir.cli.peers.case import Case
from teir.cli.peers.choosing import OURS, Settings, measure_contenders
from teir.cli.peers.libraries import PEERS, peer_versions
from teir.cli.peers.operands import NATURAL_OFFSET, draw
from teir.cli.peers.settling import settle
from teir.dtypes import DataType

DTYPES = {
    "float32": DataType.FP32,
    "float64": DataType.FP64,
    "bfloat16": DataType.BF16,
    "complex64": DataType.C64,
    "complex128": DataType.C128,
}
_SETTLING_SECONDS = 0.5


def measure_case(case: Case, settings: Settings, *, is_tuned: bool) -> Figure:
    operands = draw(case, settings.data_type, settings.offset_bytes)
    ours = our_call(case, settings.data_type, operands, settings.threads, is_tuned=is_tuned)
    settle(ours, _SETTLING_SECONDS)
    form = "program" if case.program else "plan"
    rounds, forms = measure_contenders(case, settings, operands, ours, form)
    return Figure.of(case, settings.data_type, rounds, forms)


def chosen_cases(class_name: str, only: Sequence[str], data_type: DataType) -> list[Case]:
    """The cases of the class whose name or family contains one of ``only``, if given."""
    return [
        case
        for case in CLASSES[class_name]()
        if not (case.clears_negatives and data_type.is_complex)
        and (not only or any(text in case.name or text in case.family for text in only))
    ]


def measure_column(arguments: argparse.Namespace) -> int:
    """Measure in this process and write the figures to ``--json``."""
    column = Column(arguments.column)
    settings = Settings(
        data_type=DTYPES[arguments.dtype],
        rounds=arguments.rounds,
        threads=arguments.threads,
        offset_bytes=arguments.offset,
        peers=_peers_of(column, arguments.no_peers),
    )
    figures = []
    cases = chosen_cases(arguments.class_name, arguments.only, settings.data_type)
    for case in cases[arguments.first : arguments.last]:
        figure = measure_case(case, settings, is_tuned=arguments.tuned)
        print_row(figure)
        figures.append(figure)
    record = {
        "libraries": loaded_libraries(column, settings.threads) if settings.peers else [],
        "figures": [figure.as_record() for figure in figures],
    }
    arguments.json.write_text(json.dumps(record), encoding="utf-8")
    return int(any(OURS not in figure.seconds for figure in figures))


def _peers_of(column: Column, without: bool) -> tuple[str, ...]:
    if without:
        return ()
    return tuple(PEERS) if column is Column.INSTALLED else CONCERNED


def measure_all_columns(arguments: argparse.Namespace, given: Sequence[str]) -> int:
    """Measure every column in a process of its own, print the summary, write the record."""
    is_concerned = not arguments.no_peers and arguments.dtype != "bfloat16"
    columns = columns_here() if is_concerned else (Column.INSTALLED,)
    worst, records = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        for column in columns:
            if len(columns) > 1:
                print(f"-- {column.value} --", flush=True)
            path = Path(folder) / f"{column.name}.json"
            worst = max(worst, run_column(column, arguments.threads, [*given, "--json", str(path)]))
            if not path.exists():
                return worst or 1
            records[column.value] = json.loads(path.read_text(encoding="utf-8"))
    settings = {
        name: getattr(arguments, name)
        for name in ("class_name", "dtype", "rounds", "threads", "offset", "tuned")
    }
    record = {
        "machine": {**machine(), **peer_versions()},
        "settings": settings,
        "columns": records,
    }
    print_summary(record)
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return worst


def read_arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("class_name", metavar="CLASS", choices=sorted(CLASSES))
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument(
        "--tuned", action="store_true", help="class a's programs as `teir tune` leaves them"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--offset", type=int, default=NATURAL_OFFSET, help="bytes from a 64-byte boundary"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--column", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(given)


def main() -> int:
    given = sys.argv[1:]
    arguments = read_arguments(given)
    if arguments.column is None:
        return measure_all_columns(arguments, given)
    return measure_column(arguments)


if __name__ == "__main__":
    sys.exit(main())
