"""``teir show FILE``: a program as text, tables, loops, records or a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from teir.cli.console import say, say_json_text
from teir.cli.options import ProgramFile
from teir.cli.rules import OUTPUT_FILE
from teir.errors import refuse
from teir.ir.check import check as check_program
from teir.ir.load import load
from teir.ir.printing import print_program


def show(
    file: ProgramFile,
    tables: Annotated[
        bool, typer.Option("--tables", help="The tree and the tables of the specification.")
    ] = False,
    loops: Annotated[bool, typer.Option("--loops", help="The loop nest as pseudocode.")] = False,
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg",
            metavar="OUT.svg",
            help="Draw the tile grids and the memory order of every tensor.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The program as JSON records (the form on disk).")
    ] = False,
) -> None:
    """Show a program: its canonical text, or the views asked for.

    A program with findings is refused, as `teir check` shows them.
    """
    program = load(file)
    check_program(program).raise_if_wrong()
    if tables:
        from teir.ir.tables import print_tables

        say(print_tables(program).rstrip("\n"))
    if loops:
        from teir.ir.loopnest import print_loopnest

        say(print_loopnest(program).rstrip("\n"))
    if as_json:
        from teir.ir.records import dumps_records

        say_json_text(dumps_records(program).decode().rstrip("\n"))
    if svg is not None:
        from teir.cli.figure import draw_program

        _write(svg, draw_program(program))
        if not as_json:
            say(f"drew {svg}")
    if not (tables or loops or as_json or svg is not None):
        say(print_program(program).text.rstrip("\n"))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        refuse(OUTPUT_FILE, str(path), "a file that can be written", error.strerror or str(error))
