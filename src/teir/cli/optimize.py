"""``teir optimize FILE``: the program after every pass."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated

import typer

from teir.cli.console import Json, say, say_json
from teir.cli.options import JsonFlag, ProgramFile, ThreadsOption
from teir.ir.check import check as check_program
from teir.ir.load import load
from teir.ir.nodes import Program
from teir.ir.printing import print_program
from teir.target import host_target


def optimize(
    file: ProgramFile,
    threads: ThreadsOption = None,
    max_kernel_size: Annotated[
        int | None,
        typer.Option(
            "--max-kernel-size",
            min=1,
            help="Split axes that are longer (section 5.5.2).",
            show_default=False,
        ),
    ] = None,
    min_kernel_size: Annotated[
        int | None,
        typer.Option(
            "--min-kernel-size",
            min=1,
            help="Fuse axes that are shorter, and split into nothing shorter where the maximum "
            "leaves a way to (section 5.5.4).",
            show_default=False,
        ),
    ] = None,
    only_result: Annotated[
        bool, typer.Option("--result", help="Print the last program only, to save or to run.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show a program after every optimisation pass.

    A program with findings is refused, as `teir check` shows them. Comments name the passes, so
    the last part of the output is a program that `teir run` reads.
    """
    from teir.passes.facts import facts_of
    from teir.passes.optimise import optimise

    if min_kernel_size is not None and min_kernel_size > (max_kernel_size or min_kernel_size):
        above = f"{min_kernel_size} is above --max-kernel-size {max_kernel_size}"
        raise typer.BadParameter(above, param_hint="'--min-kernel-size'")
    program = load(file)
    check_program(program).raise_if_wrong()
    facts = facts_of(host_target(os.environ), threads=threads)
    facts = replace(facts, max_kernel_size=max_kernel_size, min_kernel_size=min_kernel_size)
    steps = optimise(program, facts)
    if only_result and as_json:
        say_json({"program": _text(steps[-1][1])})
    elif only_result:
        say(_text(steps[-1][1]))
    elif as_json:
        say_json(_steps_json(program, steps))
    else:
        _say_steps(program, steps)


def _say_steps(program: Program, steps: tuple[tuple[str, Program], ...]) -> None:
    before = program
    for number, (name, after) in enumerate(steps, start=1):
        if after is before:
            say(f"# pass {number}, {name}: nothing to do")
            continue
        say(f"# pass {number}, {name}")
        say(_text(after))
        say()
        before = after


def _steps_json(program: Program, steps: tuple[tuple[str, Program], ...]) -> Json:
    befores = (program, *(after for _, after in steps))
    passes: list[Json] = [
        {"pass": name, "changed": after is not before, "program": _text(after)}
        for before, (name, after) in zip(befores, steps, strict=False)
    ]
    return {"program": _text(program), "passes": passes}


def _text(program: Program) -> str:
    return print_program(program).text.rstrip("\n")
