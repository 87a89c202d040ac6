"""``teir cuda``: programs for Hopper GPUs, compiled without one, tuned on one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teir.cli.console import Json, say, say_json, say_table
from teir.cli.options import JsonFlag, ProgramFile
from teir.cli.rules import OUTPUT_FILE
from teir.errors import refuse
from teir.ir.load import load

if TYPE_CHECKING:
    from teir.backends.cuda.compiled import CompiledProgram

cuda = typer.Typer(
    name="cuda",
    help="Programs for Hopper GPUs: compile here, carry the folder to a GPU.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@cuda.callback()
def _cuda() -> None:
    """Programs for Hopper GPUs: compile here, carry the folder to a GPU."""


@cuda.command("compile")
def compile_file(
    file: ProgramFile,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder for sources, PTX and cubins.")
    ],
    debug: Annotated[
        bool, typer.Option("--debug", help="Bound every wait: a kernel that hangs traps instead.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Compile a program for compute capability 9.0; no GPU is needed.

    The folder holds the program with its decisions, and every kernel as source, PTX and cubin.
    """
    from teir.backends.cuda.compiled import compile_program

    compiled = compile_program(load(file), debug=debug)
    _write(compiled, out)
    rows: list[dict[str, Json]] = [
        {
            "kernel": kernel.name,
            "family": kernel.family.value,
            "blocks": kernel.blocks,
            "threads": kernel.threads,
            "shared_bytes": kernel.shared_bytes,
            "registers": code.registers,
            "spilled_bytes": code.spilled_bytes,
            "cubin_bytes": len(code.cubin),
        }
        for kernel, code in zip(compiled.planned.kernels, compiled.code, strict=True)
    ]
    if as_json:
        listed: list[Json] = list(rows)
        say_json({"out": str(out), "kernels": listed})
        return
    if rows:
        say_table(tuple(rows[0]), [tuple(str(value) for value in row.values()) for row in rows])
    say(f"wrote {out}")


@cuda.command("tune", short_help="On a GPU: measure the best decisions per contraction.")
def tune_file(
    file: ProgramFile,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder for the quickest kernels.")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Try the best decisions for every contraction on this machine's GPU, on drawn numbers.

    The folder holds the program with the quickest decisions and its kernels, as `compile` writes.
    """
    from teir.backends.cuda.compiled import compile_program
    from teir.backends.cuda.drawn_operands import drawn_operands
    from teir.backends.cuda.shortlist import tune_on_device

    program = load(file)
    with drawn_operands(program, seed=0) as operands:
        tuned = tune_on_device(program, operands)
    _write(compile_program(tuned.program), out)
    rows: list[dict[str, Json]] = [
        {
            "primitive": trial.primitive,
            "decision": trial.decision.text(),
            "milliseconds": round(trial.milliseconds, 4),
        }
        for trial in tuned.trials
    ]
    if as_json:
        listed: list[Json] = list(rows)
        say_json({"out": str(out), "trials": listed})
        return
    if rows:
        say_table(tuple(rows[0]), [tuple(str(value) for value in row.values()) for row in rows])
    say(f"wrote {out}")


def _write(compiled: CompiledProgram, out: Path) -> None:
    from teir.backends.cuda.compiled import write_folder

    try:
        write_folder(compiled, out)
    except OSError as error:
        refuse(OUTPUT_FILE, str(out), "a folder to write", error.strerror or str(error))
