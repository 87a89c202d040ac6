"""The commands put together, and what their errors become.

Exit codes: 0 done, 1 findings or a wrong result, 2 unusable input, 130 interrupted. A user's
mistake is told on standard error, never with a traceback.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Annotated

import typer

from teir.cli.bench import bench
from teir.cli.check import check
from teir.cli.compare import compare
from teir.cli.console import complain, drop_output
from teir.cli.cuda import cuda
from teir.cli.demo import demo
from teir.cli.einsum import einsum
from teir.cli.explain import explain
from teir.cli.info import info
from teir.cli.optimize import optimize
from teir.cli.rules import ExitCode, exit_code
from teir.cli.run import run as run_file
from teir.cli.schedules import schedules
from teir.cli.show import show
from teir.cli.soak import soak
from teir.cli.tma import tma
from teir.cli.tune import tune
from teir.cli.warm import warm
from teir.errors import TeirError

app = typer.Typer(
    name="teir",
    help="One compiler stack for tensor operations: check, read, run and measure programs.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from teir import __version__

        typer.echo(f"teir {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    del version


for _name, _command, _summary in (
    ("check", check, "Check a program: every rule, then the proofs of safety."),
    ("show", show, "Show a program as text, tables, loops, records or a figure."),
    ("run", run_file, "Run a program."),
    ("einsum", einsum, "Plan, run and time an expression."),
    ("explain", explain, "Show what runs, with which kernels, and why."),
    ("optimize", optimize, "Show a program after every optimisation pass."),
    ("bench", bench, "Time a program or an expression beside the peak."),
    ("compare", compare, "Time an expression here and in other libraries."),
    ("demo", demo, "Run every example, checked and measured."),
    ("schedules", schedules, "Count, prune and choose schedules of a sparse product."),
    ("info", info, "Show the machine, its peaks, the limits and versions."),
    ("tune", tune, "Measure promising programs and remember the fastest."),
    ("warm", warm, "Compile the usual kernels into the cache."),
    ("soak", soak, "Run random and hostile programs in child processes."),
    ("tma", tma, "Infer tensor maps of tile loads and walk their tiles."),
):
    app.command(_name, short_help=_summary)(_command)
app.add_typer(cuda, short_help="Compile programs for Hopper GPUs, and tune them on one.")


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What writing gives where a disk or a limit is full, or the output is gone or only read."""


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. KeyboardInterrupt is the caller's."""
    try:
        app(args=list(arguments), prog_name="teir")
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else ExitCode.DONE
    except TeirError as error:
        complain(str(error))
        return exit_code(error)
    except MemoryError:
        complain("not enough memory for operands of these sizes")
        return ExitCode.UNUSABLE
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        drop_output()
        complain(f"the output cannot be written: {error.strerror}")
        return ExitCode.UNUSABLE
    return ExitCode.DONE
