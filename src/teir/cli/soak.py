"""``teir soak``: the figures of the safety page, made anew on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from teir.cli.console import complain, say
from teir.cli.rules import ExitCode
from teir.target import host_target


def soak(
    programs: Annotated[
        int, typer.Option("--programs", min=0, help="Random programs, native against evaluator.")
    ] = 10_000,
    mutants: Annotated[int, typer.Option("--mutants", min=0, help="Hostile programs.")] = 20_000,
    enumerations: Annotated[
        int, typer.Option("--enumerations", min=0, help="Programs whose bytes are enumerated.")
    ] = 20_000,
    remainders: Annotated[
        int, typer.Option("--remainders", min=0, help="Largest remainder on guard pages.")
    ] = 64,
    tests: Annotated[
        Path | None,
        typer.Option("--tests", help="The tests folder of the repository, to count its catalogue."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for soak.json and soak.md.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="First seed.")] = 0,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Processes at once.")] = None,
) -> None:
    """Draw random and hostile programs, run them, and count what went wrong.

    A count of 0 leaves that figure out. Exits 1 when anything went wrong.
    """
    from teir.soak.campaign import Campaign, run_campaign
    from teir.soak.figures import figures_table, write_figures

    target = host_target(os.environ)
    campaign = Campaign(
        programs=programs,
        mutants=mutants,
        enumerations=enumerations,
        remainders=remainders,
        tests=tests,
        seed=seed,
        jobs=target.threads if jobs is None else jobs,
    )
    figures = run_campaign(campaign, complain)
    machine = f"{target.cpu}, {target.isa.value}, {target.threads} cores"
    say(figures_table(figures, machine).rstrip("\n"))
    if out is not None:
        write_figures(figures, machine, out)
        say(f"wrote {out / 'soak.json'} and {out / 'soak.md'}")
    wrong = [case for figure in figures for case in figure.wrong]
    for case in wrong:
        complain(case)
    if wrong:
        raise typer.Exit(ExitCode.FINDINGS)
