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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from columns import CONCERNED, Column, loaded_libraries, run_column
from operands import NATURAL_OFFSET, Operands, agrees, draw, randomise
from ours import OURS, our_call
from record import machine
from rounds import Call, measure, seconds_per_call
from tables import Figure, print_row, print_summary

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
    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The form of a contender that is timed, or why there is none."""

    call: Call | None
    form: str


def measure_case(case: Case, settings: Settings) -> Figure:
    """Check everyone, choose every peer's fastest form, then time all of them interleaved."""
    data_type = settings.data_type
    operands = draw(case, data_type, settings.offset_bytes)
    contenders = {OURS: _our_choice(case, settings, operands)}
    for peer in settings.peers:
        contenders[peer] = _peer_choice(peer, case, settings, operands)
    randomise(operands, data_type)
    calls = {name: one.call for name, one in contenders.items() if one.call is not None}
    rounds = measure(
        case, data_type, calls, settings.rounds, settings.threads, settings.offset_bytes
    )
    return Figure.of(case, data_type, rounds, {name: one.form for name, one in contenders.items()})


def _our_choice(case: Case, settings: Settings, operands: Operands) -> Chosen:
    call = our_call(case, settings.data_type, operands, settings.threads)
    if _is_right(call, operands, settings.data_type):
        return Chosen(call=call, form="program" if case.program else "plan")
    return Chosen(call=None, form="wrong")


def _peer_choice(peer: str, case: Case, settings: Settings, operands: Operands) -> Chosen:
    from peers import PEERS

    best: tuple[float, str, Call] | None = None
    failures = []
    try:
        for form, plain in PEERS[peer](case, settings.data_type, operands, settings.threads):
            call = _with_relu(plain, operands) if _lacks_relu(peer, case) else plain
            try:
                if not _is_right(call, operands, settings.data_type):
                    failures.append(f"{form}: wrong")
                    continue
                taken = min(seconds_per_call(call) for _ in range(2))
            except Exception as error:
                failures.append(f"{form}: {_reason(error)}")
                continue
            if best is None or taken < best[0]:
                best = (taken, form, call)
    except Exception as error:
        failures.append(_reason(error))
    if best is not None:
        return Chosen(call=best[2], form=best[1])
    return Chosen(call=None, form="; ".join(failures) or "cannot express it")


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0][:120] or type(error).__name__


def _lacks_relu(peer: str, case: Case) -> bool:
    return case.clears_negatives and not peer.startswith("etops")


def _with_relu(call: Call, operands: Operands) -> Call:
    def both() -> None:
        result = call()
        np.maximum(operands.out if result is None else np.asarray(result), 0, out=operands.out)

    return both


def _is_right(call: Call, operands: Operands, data_type: DataType) -> bool:
    operands.out[...] = 0
    result = call()
    found = operands.out if result is None else result
    return agrees(found, operands.expected, data_type)


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
        figure = measure_case(case, settings)
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
    from peers import PEERS

    return tuple(PEERS) if column is Column.INSTALLED else CONCERNED


def measure_all_columns(arguments: argparse.Namespace, given: Sequence[str]) -> int:
    """Measure every column in a process of its own, print the summary, write the record."""
    columns = (Column.INSTALLED,) if arguments.no_peers else tuple(Column)
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
        for name in ("class_name", "dtype", "rounds", "threads", "offset")
    }
    record = {"machine": machine(), "settings": settings, "columns": records}
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
