"""What commands print: results on standard output, complaints on standard error.

Tables are drawn by rich on a terminal and are plain aligned columns everywhere else.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Sequence

from teir.errors import Finding, RecordPlace, TextPlace

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None


BROKEN_PIPE = 141
"""The exit code of a command whose reader has gone, as shells report it."""


def say(text: str = "") -> None:
    """One or more lines of the result. Ends the command quietly when nobody reads them.

    Characters that the output's encoding lacks are written as Python's escapes.
    """
    try:
        print(_encodable(text), flush=True)
    except BrokenPipeError:
        drop_output()
        raise SystemExit(BROKEN_PIPE) from None


def drop_output() -> None:
    """Write no more, as the interpreter would at its end, where that fails."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _encodable(text: str) -> str:
    """The text as the standard output can write it: a locale or a file name may not be UTF-8."""
    encoding = _encoding()
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def complain(text: str) -> None:
    """One or more lines about what went wrong; nothing where they cannot be written."""
    # Python has no standard error where the descriptor is closed, and would print to the output.
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr, flush=True)


def say_json(value: Json) -> None:
    """The whole result as one JSON document."""
    say_json_text(json.dumps(value, indent=2, ensure_ascii=False))


def say_json_text(document: str) -> None:
    """A JSON document, escaped where the output's encoding lacks one of its characters."""
    try:
        document.encode(_encoding())
    except UnicodeEncodeError:
        escaped = (one if one.isascii() else json.dumps(one)[1:-1] for one in document)
        document = "".join(escaped)
    say(document)


def say_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; columns of numbers, with or without a unit, are aligned to the right."""
    cells = [tuple(row) for row in rows]
    right = [all(_is_number(row[column]) for row in cells) for column in range(len(header))]
    # Python has no standard output where the descriptor is closed.
    if sys.stdout is not None and sys.stdout.isatty():
        _say_rich_table(header, cells, right)
        return
    say("\n".join(plain_table(header, cells, right)))


def _is_number(cell: str) -> bool:
    try:
        float(cell.split(" ")[0].replace(",", ""))
    except ValueError:
        return False
    return True


def plain_table(
    header: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]
) -> list[str]:
    """Columns two spaces apart, no lines, no colours."""
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if aligned else cell.ljust(width)
            for cell, width, aligned in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in (header, *cells)
    ]


def _say_rich_table(
    header: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, aligned in zip(header, right, strict=True):
        table.add_column(name, justify="right" if aligned else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(_encodable(cell), style=_STYLES.get(cell, "")) for cell in row))
    Console().print(table)


_STYLES = {"OK": "green", "WRONG": "bold red"}


def finding_json(finding: Finding) -> Json:
    """A finding as programs read it; ``line`` counts in the printed program or in the file."""
    line = finding.line_number
    if isinstance(finding.place, TextPlace):
        line = finding.place.line
    return {
        "code": finding.code,
        "place": str(finding.place),
        "path": finding.place.path if isinstance(finding.place, RecordPlace) else None,
        "line": line,
        "text": None if finding.line is None else finding.line.strip(),
        "expected": finding.expected,
        "found": finding.found,
        "hint": finding.hint,
        "rule": finding.rule.sentence,
        "source": finding.rule.source,
    }
