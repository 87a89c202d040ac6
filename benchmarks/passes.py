"""What every optimisation pass is worth: programs with all passes, and with one left out.

    python benchmarks/passes.py [rounds] [--threads 1]

Also the speed of one product after each pass of the chain, and the three forms of the 1600^3
product side by side: three axes, six axes, and ``teir.einsum`` of the same arrays. Rounds are
interleaved, every round measures the multiply-add peak too; figures are medians. Results are
compared on whole numbers. Writes ``results/passes.json``, or ``results/passes-2-threads.json``;
exits 1 where a result is wrong.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from pass_programs import Measured, kernel_sizes, one_thread, product, six_axes, square, two_threads
from record import write

import teir
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.peak import measure_fma_peak
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.passes.facts import Facts, facts_of
from teir.passes.optimise import optimise, pass_list
from teir.target import host_target

_CHAIN = 400
"""The side of the product whose chain is timed: its first steps run element by element."""
_SECONDS = 0.02
"""What one timing takes at least."""
Arrays = dict[str, np.ndarray[Any, Any]]
Call = Callable[[], object]


def arrays_of(program: Program) -> Arrays:
    """Whole numbers for every tensor, as long as the program needs them."""
    draw = np.random.default_rng(1)
    extents = dict.fromkeys(("in0", "in1", "out"), 1)
    for axis in program.axes:
        for tensor, stride in axis.strides.items():
            extents[tensor] += (axis.extent - 1) * (stride // 4)
    used = {tensor.name for tensor in program.tensors}
    return {
        name: draw.integers(-2, 3, size).astype(np.float32)
        for name, size in extents.items()
        if name in used
    }


def bound(program: Program, arrays: Arrays, threads: int) -> Call:
    executable = teir.compile(program, threads=threads)
    return lambda: executable.run(arrays)


def without(program: Program, facts: Facts, omitted: str) -> Program:
    for name, apply in pass_list(facts):
        if name != omitted:
            program = apply(program)
    return program


def timed(calls: Mapping[str, Call], rounds: int) -> tuple[dict[str, float], float]:
    """Median seconds of every call, and the median peak."""
    often = {name: max(1, round(_SECONDS / _seconds(call, 1))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    peaks = []
    for _ in range(rounds):
        peaks.append(measure_fma_peak(host_isa(), DataType.FP32, 6))
        for name, call in calls.items():
            times[name].append(_seconds(call, often[name]))
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    return medians, statistics.median(peaks)


def _seconds(call: Call, often: int) -> float:
    start = time.perf_counter()
    for _ in range(often):
        call()
    return (time.perf_counter() - start) / often


def agree(calls: Mapping[str, Call], out: np.ndarray[Any, Any]) -> bool:
    """True where every call leaves the same result as the first."""
    results = []
    for call in calls.values():
        out[...] = 0
        call()
        results.append(out.copy())
    return all(np.array_equal(results[0], other) for other in results[1:])


def effect(one: Measured, facts: Facts, rounds: int) -> dict[str, Any]:
    """One program with all passes, and with one left out."""
    facts = replace(facts, max_kernel_size=one.max_kernel_size, min_kernel_size=one.min_kernel_size)
    arrays = arrays_of(one.program)
    calls = {
        "all": bound(optimise(one.program, facts)[-1][1], arrays, facts.threads),
        "left out": bound(without(one.program, facts, one.omitted), arrays, facts.threads),
    }
    is_right = agree(calls, arrays["out"])
    seconds, peak = timed(calls, rounds)
    least = None if one.products is None else 2 * one.products / peak
    return {
        "pass": one.omitted,
        "program": one.title,
        "seconds": seconds,
        "times": seconds["left out"] / seconds["all"],
        "share": None if least is None else least / seconds["all"],
        "right": is_right,
    }


def chain(facts: Facts, rounds: int) -> dict[str, Any]:
    """The speed of a six-axis product after every pass that changes it."""
    program = product(six_axes(_CHAIN, 25), "m0 n0 k0 m1 n1 k1", guards="k0 k1")
    arrays = arrays_of(program)
    calls = {"as written": bound(program, arrays, facts.threads)}
    before = program
    for name, after in optimise(program, facts):
        if after is not before:
            calls[name] = bound(after, arrays, facts.threads)
        before = after
    is_right = agree(calls, arrays["out"])
    seconds, peak = timed(calls, rounds)
    share = {name: 2 * _CHAIN**3 / peak / taken for name, taken in seconds.items()}
    return {"side": _CHAIN, "seconds": seconds, "share": share, "right": is_right}


def equal_forms(facts: Facts, rounds: int) -> dict[str, Any]:
    """The 1600^3 product in three axes, in six, and as an einsum of the same arrays."""
    side = 1600
    three = product(square(side), "m n k")
    six = product(six_axes(side, 25), "m0 m1 n0 n1 k0 k1", guards="k0 k1")
    arrays = arrays_of(three)
    matrices = [arrays[name].reshape(side, side) for name in ("in0", "in1", "out")]
    plan = teir.plan("km,nk->nm", *matrices[:2], threads=facts.threads)
    calls = {
        "three axes": bound(optimise(three, facts)[-1][1], arrays, facts.threads),
        "six axes": bound(optimise(six, facts)[-1][1], arrays, facts.threads),
        "einsum": lambda: plan(*matrices[:2], out=matrices[2]),
    }
    is_right = agree(calls, arrays["out"])
    seconds, peak = timed(calls, rounds)
    share = {name: 2 * side**3 / peak / taken for name, taken in seconds.items()}
    return {"seconds": seconds, "share": share, "right": is_right}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    facts = facts_of(host_target(os.environ), threads=arguments.threads)
    cases = two_threads() if arguments.threads > 1 else (*one_thread(), *kernel_sizes())
    effects = []
    for one in cases:
        figure = effect(one, facts, arguments.rounds)
        effects.append(figure)
        share = "" if figure["share"] is None else f", {100 * figure['share']:.0f} % of the peak"
        print(f"{one.omitted}: {one.title}: {figure['times']:.2f} times as fast{share}")
    figures: dict[str, Any] = {"effects": effects}
    if arguments.threads == 1:
        figures["chain"] = chain(facts, arguments.rounds)
        figures["forms"] = equal_forms(facts, arguments.rounds)
        for name in ("chain", "forms"):
            for step, share in figures[name]["share"].items():
                print(f"{name}, {step}: {100 * share:.2f} %")
    suffix = "" if arguments.threads == 1 else f"-{arguments.threads}-threads"
    write(f"passes{suffix}", figures)
    every = [*effects, *(figures[name] for name in ("chain", "forms") if name in figures)]
    return int(not all(figure["right"] for figure in every))


if __name__ == "__main__":
    sys.exit(main())
