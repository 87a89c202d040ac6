"""``teir bench FILE|EXPRESSION``: speed beside the peak measured in the same process."""

from __future__ import annotations

from typing import Annotated

import typer

from teir.cli.console import say, say_json
from teir.cli.expression import DtypeOption, SizesOption, load_or_plan
from teir.cli.options import JsonFlag, OneThreadOption, SeedOption


def bench(
    what: Annotated[
        str, typer.Argument(metavar="FILE|EXPRESSION", help="A program file or an einsum.")
    ],
    sizes: SizesOption = [],  # noqa: B006  (typer copies it)
    dtype: DtypeOption = "FP32",
    threads: OneThreadOption = 1,
    seed: SeedOption = 0,
    as_json: JsonFlag = False,
) -> None:
    """Time a program on drawn operands: best of many rounds, compiling not counted."""
    job = load_or_plan(what, sizes, dtype, threads)
    from teir.cli.measuring import measure_peaks, measure_speed

    call = job.ready(seed)
    used = job.threads
    speed = measure_speed(job.program, call, measure_peaks(), used)
    if as_json:
        say_json(
            {
                "name": job.program.name,
                "threads": used,
                "seconds": speed.seconds,
                "per_second": speed.amount_per_second,
                "unit": speed.unit,
                "peak_per_second": speed.peak_per_second,
                "share": speed.share,
            }
        )
        return
    say(f"{job.program.name}, {used} {'thread' if used == 1 else 'threads'}: {speed}")
