"""``teir explain FILE|EXPRESSION``: what will run, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from teir.cli.console import say
from teir.cli.expression import DtypeOption, SizesOption, load_or_plan
from teir.cli.options import ThreadsOption


def explain(
    what: Annotated[
        str, typer.Argument(metavar="FILE|EXPRESSION", help="A program file or an einsum.")
    ],
    sizes: SizesOption = [],  # noqa: B006  (typer copies it)
    dtype: DtypeOption = "FP32",
    threads: ThreadsOption = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run it too: the time beside the predicted one.")
    ] = False,
) -> None:
    """Show the program, its kernels with their parameters, its work, and the time it should take.

    For an einsum also the decisions and why they were taken.
    """
    job = load_or_plan(what, sizes, dtype, threads)
    say(job.explain(measure))
