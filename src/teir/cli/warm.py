"""``teir warm``: compile the kernels most programs need, once, into the cache on disk."""

from __future__ import annotations

import os
from time import perf_counter
from typing import Annotated

import typer

from teir.cli.console import complain, say, say_json
from teir.cli.expression import data_type_named
from teir.cli.keeping import CACHE_IS_OFF
from teir.cli.options import JsonFlag
from teir.cli.rules import ExitCode

WarmTypes = Annotated[list[str], typer.Option("--dtype", help="Element types; may be repeated.")]


def warm(
    dtype: WarmTypes = ["FP32", "FP64"],  # noqa: B006  (typer copies it)
    as_json: JsonFlag = False,
) -> None:
    """Compile the kernels most programs need and keep them, so that first calls are fast.

    Exits 1 where the cache cannot be written.
    """
    data_types = [data_type_named(name) for name in dtype]
    from teir.backends.llvm.library import code_library
    from teir.lower.usual_kernels import usual_kernels
    from teir.pipeline.executable import default_isa
    from teir.pipeline.usual_contractions import contraction_kernels
    from teir.runtime import runtime
    from teir.runtime.private_files import cache_folder

    if cache_folder(os.environ, "objects") is None:
        complain(CACHE_IS_OFF)
        raise typer.Exit(ExitCode.FINDINGS)
    start = perf_counter()
    isa = default_isa()
    kernels = usual_kernels(isa, data_types) | contraction_kernels(isa, data_types)
    complain(
        f"{len(kernels)} kernels for {isa.value}: compiling those not kept yet, a minute at most"
    )
    kept = code_library(runtime.current(), isa).warm(kernels)
    seconds = perf_counter() - start
    if as_json:
        say_json({"kernels": len(kernels), "isa": isa.value, "seconds": seconds, "kept": kept})
    elif kept:
        say(f"{len(kernels)} kernels for {isa.value} are kept, after {seconds:.1f} s")
    if not kept:
        complain("the cache could not be written: is its directory yours, private and not full?")
        raise typer.Exit(ExitCode.FINDINGS)
