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
) -> None:
    """Show the program, the kernels it becomes, their parameters, and the work it states."""
    job = load_or_plan(what, sizes, dtype, threads)
    say(job.explain())
