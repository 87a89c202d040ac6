"""The three configurations of section 5.3 beside the multiply-add peak of the same process.

    python benchmarks/configurations.py [rounds]

FP32, FP64 and BF16, one and two threads. A round measures the peak, the program and the peak again,
so that all three see the same clock and the same neighbours; shares are medians over the rounds,
all cases interleaved. Two threads are compared with two threads that multiply and add in registers
at once. Every result is compared with NumPy's on whole numbers, which both types hold exactly.
Where other processes compete for the cores, run it as `chrt -f 10 python ...`; the record says
whether that was done. Writes ``results/configurations.json``; exits 1 where a result is wrong.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace
from ours import configuration
from record import write

import teir
from cases import CONFIGURATIONS
from teir.cli.measuring import bound_call
from teir.cli.peers.peaks import measure_peak
from teir.dtypes import DataType
from teir.ir.nodes import IterationNode, Program
from teir.lower.work import program_work

SHARES_DUE = {DataType.FP32: 0.95, DataType.FP64: 0.93, DataType.BF16: 0.85}
SCALING_DUE = 0.95
_CALLS = 3


@dataclass(slots=True, kw_only=True)
class Case:
    """One program on one number of threads, with what its rounds brought."""

    name: str
    data_type: DataType
    threads: int
    flops: int
    call: Callable[[], None]
    is_right: bool
    rates: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        return statistics.median(
            rate / peak for rate, peak in zip(self.rates, self.peaks, strict=True)
        )


def make_case(name: str, data_type: DataType, threads: int) -> Case:
    program = configuration(name, data_type, threads)
    draw = np.random.default_rng(7)
    shapes = {"in0": (32, 8, 32, 32), "in1": (32, 8, 32, 32), "out": (32, 32, 32, 32)}
    operands = {
        tensor: draw.integers(-2, 3, shape).astype(data_type.numpy_dtype())
        for tensor, shape in shapes.items()
    }
    factors = (operands[name].astype(np.float64) for name in ("in0", "in1"))
    product = np.einsum("acfd,bcef->abed", *factors, optimize=True)
    is_cleared = name == CONFIGURATIONS[2]
    exact = np.maximum(product, 0) if is_cleared else operands["out"].astype(np.float64) + product
    expected = exact.astype(operands["out"].dtype)
    executable = teir.compile(program, threads=threads)
    executable.run(operands)
    is_right = np.array_equal(operands["out"], expected)
    operands["out"][...] = 0
    return Case(
        name=name,
        data_type=data_type,
        threads=threads,
        flops=_product_flops(program),
        call=bound_call(executable, operands),
        is_right=is_right,
    )


def _product_flops(program: Program) -> int:
    """Two for each multiply-add; the ReLU is not counted."""
    products = tuple(one for one in program.primitives if one.k)
    (product,) = products
    return program_work(_only(program, product.name)).flops


def _only(program: Program, primitive: str) -> Program:
    def kept(node: IterationNode) -> IterationNode:
        return replace(
            node,
            children=tuple(
                kept(child) if isinstance(child, IterationNode) else child
                for child in node.children
                if isinstance(child, IterationNode) or child.primitive == primitive
            ),
        )

    return replace(program, roots=tuple(map(kept, program.roots)))


def measure_round(case: Case) -> None:
    before = measure_peak(case.data_type, case.threads)
    case.rates.append(case.flops / min(_seconds(case.call) for _ in range(_CALLS)))
    case.peaks.append(max(before, measure_peak(case.data_type, case.threads)))


def _seconds(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def scaling(one: Case, several: Case) -> tuple[float, float]:
    """How much faster several threads are: the program, and the peak."""
    medians = [
        (statistics.median(case.rates), statistics.median(case.peaks)) for case in (one, several)
    ]
    return medians[1][0] / medians[0][0], medians[1][1] / medians[0][1]


def print_table(cases: list[Case]) -> None:
    print(f"{'program':28} type threads  GFLOP/s     peak  share")
    for case in cases:
        rate, peak = statistics.median(case.rates) / 1e9, statistics.median(case.peaks) / 1e9
        due = SHARES_DUE[case.data_type]
        note = "" if case.threads > 1 or case.share >= due else f"  (due {100 * due:.0f} %)"
        print(
            f"{case.name:28} {case.data_type.value} {case.threads:7} {rate:8.1f} {peak:8.1f} "
            f"{100 * case.share:5.1f} %{note}"
        )


def print_scaling(cases: list[Case]) -> None:
    for one in (case for case in cases if case.threads == 1):
        for two in (case for case in cases if case.threads > 1):
            if (one.name, one.data_type) == (two.name, two.data_type):
                program, peak = scaling(one, two)
                print(
                    f"{one.name:28} {one.data_type.value} on {two.threads} threads: "
                    f"{program:.2f} times as fast, the peak {peak:.2f}: {program / peak:.2f} "
                    f"(due {SCALING_DUE})"
                )


def as_record(case: Case) -> dict[str, object]:
    return {
        "program": case.name,
        "data_type": case.data_type.value,
        "threads": case.threads,
        "rounds": len(case.rates),
        "flops_per_second": statistics.median(case.rates),
        "peak_flops_per_second": statistics.median(case.peaks),
        "share": case.share,
        "lowest_share": min(r / p for r, p in zip(case.rates, case.peaks, strict=True)),
        "highest_share": max(r / p for r, p in zip(case.rates, case.peaks, strict=True)),
    }


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    cases = [
        make_case(name, data_type, threads)
        for threads in (1, 2)
        for data_type in SHARES_DUE
        for name in CONFIGURATIONS
    ]
    for _ in range(rounds):
        for case in cases:
            measure_round(case)
    print_table(cases)
    print_scaling(cases)
    wrong = [case for case in cases if not case.is_right]
    for case in wrong:
        print(f"{case.name} {case.data_type.value} on {case.threads} threads: WRONG RESULT")
    print(f"written: {write('configurations', [as_record(case) for case in cases])}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
