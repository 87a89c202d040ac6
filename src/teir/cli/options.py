"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from teir.thread_limits import MOST_THREADS

ProgramFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A program: text form, JSON records, flat form or etops configuration.",
        show_default=False,
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        max=MOST_THREADS,
        help="Threads for parallel nodes; all usable cores by default.",
        show_default=False,
    ),
]
OneThreadOption = Annotated[
    int, typer.Option("--threads", min=1, max=MOST_THREADS, help="Threads for parallel nodes.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of drawn operands.")]
CompareFlag = Annotated[
    bool, typer.Option("--compare", help="Compare with the reference; exit 1 where they differ.")
]
OperandOption = Annotated[
    list[str],
    typer.Option(
        "--operand",
        metavar="NAME=FILE.npy",
        help="The array of one tensor; may be repeated.",
        show_default=False,
    ),
]
RandomFlag = Annotated[
    bool,
    typer.Option("--random", help="Draw every operand that is not given, uniform in [-1, 1)."),
]
FormatOption = Annotated[
    list[str],
    typer.Option(
        "--format",
        metavar="NAME:LEVELS[:ORDER]",
        help="How a tensor is stored: B:ds, in an einsum in0:ds. Dense where not given.",
        show_default=False,
    ),
]
TensorFileOption = Annotated[
    list[str],
    typer.Option(
        "--operand",
        metavar="NAME=FILE",
        help="A tensor from a file: .mtx, .tns, .npz (sparse) or .npy. Else drawn.",
        show_default=False,
    ),
]
