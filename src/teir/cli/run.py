"""``teir run FILE``: run a program on arrays and save what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from teir.cli.console import Json, complain, say, say_json
from teir.cli.operands import Array, Arrays, gather_arrays, parse_pairs, write_array
from teir.cli.options import (
    CompareFlag,
    JsonFlag,
    OperandOption,
    ProgramFile,
    RandomFlag,
    SeedOption,
    ThreadsOption,
)
from teir.cli.rules import OUTPUT_FILE, ExitCode
from teir.errors import refuse
from teir.ir.check import check as check_program
from teir.ir.load import load
from teir.ir.nodes import Program


def run(
    file: ProgramFile,
    operand: OperandOption = [],  # noqa: B006  (typer copies it)
    random: RandomFlag = False,
    seed: SeedOption = 0,
    compare: CompareFlag = False,
    threads: ThreadsOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE.npy",
            help="Where the result goes; with several written tensors NAME is put before .npy.",
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Run the evaluator instead of native code.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run a program. Tensors it writes and that are not given start as zeros.

    Exits 1 where --compare finds a difference, 2 where an operand is unusable.
    """
    program = load(file)
    report = check_program(program)
    report.raise_if_wrong()
    from teir.pipeline.executable import run as run_program

    arrays = gather_arrays(report, parse_pairs(operand), random, seed)
    before = arrays.copy() if compare else arrays
    backend = "reference" if reference else "cpu"
    run_program(program, arrays.operands(), backend=backend, threads=threads)
    saved = _save(program, arrays, out)
    verdict = None
    if compare:
        from teir.cli.comparison import compare_with_evaluator

        verdict = compare_with_evaluator(program, before, arrays)
    if as_json:
        say_json(
            {
                "name": program.name,
                "backend": backend,
                "outputs": _summaries(program, arrays),
                "saved": [str(path) for path in saved],
                "ok": None if verdict is None else verdict.ok,
                "difference_over_bound": None if verdict is None else verdict.worst,
            }
        )
    else:
        for name in written_tensors(program):
            say(f"{name}: {_described(arrays.arrays[name])}")
        for path in saved:
            say(f"saved {path}")
        if verdict is not None:
            say(f"compared with the evaluator: {verdict}")
    if verdict is not None and not verdict.ok:
        complain("the result differs from the evaluator's")
        raise typer.Exit(ExitCode.FINDINGS)


def written_tensors(program: Program) -> tuple[str, ...]:
    """The tensors of the program that some primitive writes, in order."""
    outputs = {primitive.output for primitive in program.primitives}
    return tuple(tensor.name for tensor in program.tensors if tensor.name in outputs)


def _save(program: Program, arrays: Arrays, out: Path | None) -> list[Path]:
    if out is None:
        return []
    if out.suffix != ".npy":
        refuse(OUTPUT_FILE, "--out", "a name that ends in .npy", repr(str(out)))
    names = written_tensors(program)
    paths = [out if len(names) == 1 else out.with_suffix(f".{name}.npy") for name in names]
    for name, path in zip(names, paths, strict=True):
        write_array(path, arrays.arrays[name])
    return paths


def _described(array: Array) -> str:
    shape = "×".join(map(str, array.shape))
    if array.dtype == np.uint8:
        return f"{array.size} bytes"
    kind = np.complex128 if array.dtype.kind == "c" else np.float64
    norm = float(np.linalg.norm(array.astype(kind).reshape(-1)))
    return f"{array.dtype} {shape}, 2-norm {norm:.6g}"


def _summaries(program: Program, arrays: Arrays) -> Json:
    return {
        name: {
            "shape": list(arrays.arrays[name].shape),
            "dtype": str(arrays.arrays[name].dtype),
        }
        for name in written_tensors(program)
    }
