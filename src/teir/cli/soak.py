"""``teir soak``: the figures of the safety page, on many random programs."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from teir.cli.console import complain, say, say_json
from teir.cli.rules import OUTPUT_FILE, ExitCode
from teir.errors import refuse
from teir.target import host_target


def soak(
    programs: Annotated[
        int, typer.Option(min=0, help="Random programs, native code against the evaluator.")
    ] = 0,
    passes: Annotated[
        int, typer.Option(min=0, help="Random programs before and after every pass.")
    ] = 0,
    einsums: Annotated[int, typer.Option(min=0, help="Random einsums against NumPy.")] = 0,
    products: Annotated[
        int, typer.Option(min=0, help="Random sparse products, after every pair of formats.")
    ] = 0,
    mutants: Annotated[int, typer.Option(min=0, help="Hostile programs.")] = 0,
    enumerations: Annotated[
        int, typer.Option(min=0, help="Small programs whose every byte is enumerated.")
    ] = 0,
    remainders: Annotated[
        int, typer.Option(min=0, max=64, help="Kernels on guard pages with 1 to so many elements.")
    ] = 0,
    audit: Annotated[
        int, typer.Option(min=0, max=64, help="As remainders: audit the kernels' machine code.")
    ] = 0,
    repeats: Annotated[int, typer.Option(min=0, help="Runs that must give the same bits.")] = 0,
    drills: Annotated[int, typer.Option(min=0, help="How often every drill is done.")] = 0,
    check_cost: Annotated[bool, typer.Option(help="Time the check.")] = False,
    tests: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Directory of this package's tests."),
    ] = None,
    catalogue: Annotated[
        bool, typer.Option(help="Count and run the bad-input tests; needs --tests.")
    ] = False,
    faults: Annotated[
        bool, typer.Option(help="Seed faults into the compiler; needs --tests.")
    ] = False,
    checker_mutants: Annotated[
        int, typer.Option(min=0, help="Mutants of the checker; needs --tests.")
    ] = 0,
    coverage: Annotated[bool, typer.Option(help="Coverage of the tests; needs --tests.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every figure as published: hours; needs --tests.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Number of the first program.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at work.")] = 2,
    kept: Annotated[
        Path | None,
        typer.Option(help="Directory for results of kernels: what is there is not done again."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for soak.json and soak.md.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Run random and hostile programs in child processes and report what went wrong.

    Without any number: some hundred programs of the quick kinds.
    """
    from dataclasses import asdict, replace

    from teir.soak.campaign import PUBLISHED, QUICK, Campaign, run_campaign
    from teir.soak.figures import Figure, figures_table, write_figures

    campaign = Campaign(
        programs=programs,
        translations=passes,
        einsums=einsums,
        products=products,
        mutants=mutants,
        enumerations=enumerations,
        remainders=remainders,
        audit=audit,
        repeats=repeats,
        drills=drills,
        check_cost=check_cost,
        tests=tests,
        catalogue=catalogue,
        faults=faults,
        checker_mutants=checker_mutants,
        coverage=coverage,
    )
    if everything:
        campaign = replace(PUBLISHED, tests=tests)
    elif campaign == Campaign(tests=tests):
        campaign = replace(QUICK, tests=tests)
    if tests is None and campaign.needs_tests:
        needed = "this figure needs the directory of the tests"
        raise typer.BadParameter(needed, param_hint="'--tests'")
    _require_installed("--audit", "capstone", bool(campaign.audit))
    _require_installed("--tests", "pytest", campaign.needs_tests)
    _require_installed("--coverage", "pytest_cov", campaign.coverage)
    for folder in (kept, out):
        if folder is not None:
            _make_folder(folder)
    campaign = replace(campaign, seed=seed, jobs=jobs, kept=kept)
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


def _require_installed(option: str, module: str, is_needed: bool) -> None:
    """Packages that the tests need are not installed with this one."""
    if is_needed and find_spec(module) is None:
        needed = f"this figure needs {module.replace('_', '-')} installed"
        raise typer.BadParameter(needed, param_hint=f"'{option}'")


def _make_folder(path: Path) -> None:
    """Before hours of work, not after. Raises TeirError (TEIR807)."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        refuse(OUTPUT_FILE, str(path), "a folder to write", error.strerror or str(error))
