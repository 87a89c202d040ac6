"""``teir demo``: the programs of the specifications and one real matrix, checked and measured.

Every result is compared with the evaluator, the last one with NumPy. Exits 1 when one is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import typer

from teir.cli.console import Json, complain, say, say_json, say_table
from teir.cli.options import JsonFlag, OneThreadOption
from teir.cli.rules import ExitCode
from teir.cli.timing import Speed, in_time_unit
from teir.ir.accuracy import PASS
from teir.target import Peaks

EXAMPLES = (
    "backend-1-gemm",
    "backend-2-brgemm",
    "backend-3-zero-brgemm-relu",
    "permutation-scalar",
    "permutation-tiled",
    "batched-product-scalar",
    "batched-product-reordered",
    "contraction-scalar",
    "contraction-gemm",
    "contraction-brgemm",
    "flat-permutation-scalar",
    "flat-permutation-tiled",
    "flat-batched-product-scalar",
    "flat-batched-product-reordered",
    "flat-contraction-scalar",
    "flat-contraction-gemm",
    "flat-contraction-brgemm",
)
"""Section 5.3 of the backend document, sections 10.7.1 to 10.7.7, the flat specification."""

MODES = 64
GALERKIN = "ai,ij,bj->ab"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the demo: what ran, how fast, and its largest error over the bound."""

    name: str
    what: str
    speed: Speed
    ratio: float

    @property
    def ok(self) -> bool:
        return self.ratio < PASS

    def cells(self) -> tuple[str, ...]:
        return (
            self.name,
            self.what,
            in_time_unit(self.speed.seconds),
            f"{self.speed.amount_per_second / 1e9:.2f}",
            f"{self.speed.peak_per_second / 1e9:.1f}",
            self.speed.unit,
            f"{100 * self.speed.share:.0f} %",
            "OK" if self.ok else "WRONG",
        )

    def as_json(self) -> Json:
        return {
            "name": self.name,
            "what": self.what,
            "seconds": self.speed.seconds,
            "per_second": self.speed.amount_per_second,
            "peak_per_second": self.speed.peak_per_second,
            "unit": self.speed.unit,
            "share": self.speed.share,
            "error_over_bound": self.ratio,
            "ok": self.ok,
        }


def demo(
    threads: OneThreadOption = 1,
    as_json: JsonFlag = False,
) -> None:
    """Run every example, compare it with the reference, and show its share of the peak."""
    from teir.cli.measuring import measure_peaks

    peaks = measure_peaks()
    rows = []
    for row in _rows(peaks, threads):
        rows.append(row)
        if not as_json:
            complain(f"{len(rows):>3} of {len(EXAMPLES) + 1}  {row.name}")
    if as_json:
        say_json({"threads": threads, "rows": [row.as_json() for row in rows]})
    else:
        _say_rows(rows, peaks, threads)
    wrong = [row.name for row in rows if not row.ok]
    if wrong:
        complain(f"wrong: {', '.join(wrong)}")
        raise typer.Exit(ExitCode.FINDINGS)


def _say_rows(rows: list[Row], peaks: Peaks, threads: int) -> None:
    header = ("example", "computes", "time", "speed", "peak", "unit", "share", "result")
    say_table(header, [row.cells() for row in rows])
    say()
    say(
        f"{threads} {'thread' if threads == 1 else 'threads'}; peaks measured in this process: "
        f"{peaks.fp32_flops_per_second / 1e9:.1f} GFLOP/s FP32 and "
        f"{peaks.fp64_flops_per_second / 1e9:.1f} GFLOP/s FP64 in registers of one core, "
        f"{peaks.copy_bytes_per_second / 1e9:.1f} GB/s copying 64 MiB."
    )
    say("Scalar examples invoke one primitive per element: they show the form, not the speed.")


def _rows(peaks: Peaks, threads: int) -> Iterator[Row]:
    for name in EXAMPLES:
        yield _example_row(name, peaks, threads)
    yield _galerkin_row(peaks, threads)


def _example_row(name: str, peaks: Peaks, threads: int) -> Row:
    from teir.cli.comparison import compare_with_evaluator
    from teir.cli.measuring import bound_call, measure_speed
    from teir.cli.operands import gather_arrays
    from teir.ir.check import check as check_program
    from teir.ir.load import loads
    from teir.pipeline.executable import compile_program

    program = loads(files("teir").joinpath("examples", f"{name}.teir").read_bytes())
    report = check_program(program)
    report.raise_if_wrong()
    before = gather_arrays(report, {}, draw=True, seed=0, zero_outputs=False)
    after = before.copy()
    executable = compile_program(program, threads=threads)
    operands = after.operands()
    executable.run(operands)
    comparison = compare_with_evaluator(program, before, after)
    speed = measure_speed(program, bound_call(executable, operands), peaks, threads)
    return Row(name=name, what=program.name, speed=speed, ratio=comparison.worst)


def _galerkin_row(peaks: Peaks, threads: int) -> Row:
    """The stiffness of a dam seen by 64 smooth modes, a Galerkin product on real data."""
    from teir.cli.einsum import compare_with_numpy
    from teir.cli.measuring import measure_speed
    from teir.dtypes import DataType
    from teir.pipeline.einsum import plan

    stiffness = read_stiffness()
    modes = cosine_modes(MODES, len(stiffness))
    arrays = [modes, stiffness, modes]
    made = plan(GALERKIN, *arrays, threads=threads)
    out = made(*arrays)
    ratio = compare_with_numpy(GALERKIN, arrays, out, DataType.FP64)
    speed = measure_speed(made.program, lambda: made(*arrays, out=out), peaks, threads)
    return Row(name="stiffness-galerkin", what=f"{GALERKIN} FP64", speed=speed, ratio=ratio)


def read_stiffness() -> np.ndarray[Any, np.dtype[np.float64]]:
    """The leading block of HB/bcsstk16 as a dense symmetric matrix."""
    source = files("teir").joinpath("examples", "bcsstk16-block.npz")
    with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        extent = int(archive["extent"])
        rows, columns, values = (archive[name] for name in ("rows", "columns", "values"))
    matrix = np.zeros((extent, extent))
    matrix[rows, columns] = values
    matrix[columns, rows] = values
    return matrix


def cosine_modes(count: int, extent: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The ``count`` smoothest orthonormal modes over ``extent`` degrees of freedom (DCT-II)."""
    angles = np.pi / extent * np.outer(np.arange(count), np.arange(extent) + 0.5)
    modes: np.ndarray[Any, np.dtype[np.float64]] = np.cos(angles) * np.sqrt(2.0 / extent)
    modes[0] /= np.sqrt(2.0)
    return modes
