"""``teir explain FILE|EXPRESSION``: what will run, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from teir.cli.console import say
from teir.cli.expression import (
    DtypeOption,
    SizesOption,
    data_type_named,
    load_or_plan,
    require_expression,
)
from teir.cli.operands import parse_pairs
from teir.cli.options import FormatOption, TensorFileOption, ThreadsOption
from teir.expr.index_notation_parsing import is_index_notation


def explain(
    what: Annotated[
        str, typer.Argument(metavar="FILE|EXPRESSION", help="A program file or an einsum.")
    ],
    sizes: SizesOption = [],  # noqa: B006  (typer copies it)
    dtype: DtypeOption = "FP32",
    threads: ThreadsOption = None,
    formats: FormatOption = [],  # noqa: B006
    files: TensorFileOption = [],  # noqa: B006
    measure: Annotated[
        bool, typer.Option("--measure", help="Run it too: the time beside the predicted one.")
    ] = False,
) -> None:
    """Show the program, its kernels with their parameters, its work, and the time it should take.

    For an einsum also the decisions and why they were taken. For index notation, such as
    "A[i,l] = B[i,j] * C[j,l]" with --format B:ds --sizes i=9000,j=9000,jpos=30,l=64, the frontier
    of its schedules and why the winner won; so for an einsum with --format or --operand, whose
    tensors are called in0, in1, ... and out.
    """
    if is_index_notation(what) or formats or files:
        from teir.cli.sparse_job import explain_sparse

        given = {"--format": bool(formats), "--operand": bool(files)}
        require_expression(what, sizes, given)
        text = explain_sparse(
            what,
            formats=formats,
            sizes=sizes,
            files=parse_pairs(files),
            data_type=data_type_named(dtype),
            threads=threads,
            measure=measure,
        )
        say(text)
        return
    job = load_or_plan(what, sizes, dtype, threads)
    say(job.explain(measure))
