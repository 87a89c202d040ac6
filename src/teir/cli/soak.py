"""``teir soak``: the figures of the safety page, on many random programs."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Annotated

import typer

from teir.cli.console import complain, say, say_json
from teir.cli.rules import ExitCode
from teir.target import host_target


def soak(
    programs: Annotated[
        int, typer.Option(min=0, help="Random programs, native code against the evaluator.")
    ] = 200,
    mutants: Annotated[int, typer.Option(min=0, help="Hostile programs.")] = 400,
    enumerations: Annotated[
        int, typer.Option(min=0, help="Small programs whose every byte is enumerated.")
    ] = 200,
    remainders: Annotated[
        int, typer.Option(min=0, max=64, help="Kernels on guard pages with 1 to so many elements.")
    ] = 0,
    tests: Annotated[
        Path | None, typer.Option(help="Count and run the bad-input tests in this directory.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Number of the first program.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at work.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Directory for soak.json and soak.md.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Run random and hostile programs in child processes and report what went wrong."""
    from dataclasses import asdict

    from teir.soak.campaign import Campaign, run_campaign
    from teir.soak.figures import Figure, figures_table, write_figures

    campaign = Campaign(
        programs=programs,
        mutants=mutants,
        enumerations=enumerations,
        remainders=remainders,
        tests=tests,
        seed=seed,
        jobs=jobs,
    )
    target = host_target(os.environ)
    machine = f"{target.cpu}, {target.isa.value}, Python {platform.python_version()}"
    figures: list[Figure] = []
    for figure in run_campaign(campaign, complain):
        figures.append(figure)
        if out is not None:
            write_figures(figures, machine, out)
    if as_json:
        say_json({"machine": machine, "figures": [asdict(figure) for figure in figures]})
    else:
        say(figures_table(figures, machine).rstrip())
    if not all(figure.ok for figure in figures):
        raise typer.Exit(ExitCode.FINDINGS)
