"""One kernel with a sparse operand on one set of data: this package, C, SciPy, torch, sparse.

    python benchmarks/sparse_kernels.py KERNEL DATA [--extents 16,32,64,128] [--threads 1]
        [--json FILE]

Everything runs in one process on the same arrays, results checked against each other, medians of
seven interleaved rounds, three where one takes over two seconds, with the multiply-add peak between
them. A short call comes after untimed ones of its own. What is slower than twice the fastest peer
in its first call is not run again; C that needs eight times our time for its arithmetic alone is
not run at all. On several threads only torch and this package are timed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import record
from c_nests import compile_nests, compiled_nests
from sparse_cases import EXTENTS, KERNELS, SHARES, Arrays, Data, load, statement_for
from sparse_nests import peer_nests
from sparse_peers import library_calls, operands_of

import teir
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.peak import measure_fma_peak
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.passes.facts import facts_of
from teir.passes.part_sizes import part_cache
from teir.passes.walking_programs import with_walking_passes
from teir.pipeline.executable import Executable, compile_program
from teir.search.sparse.cost import cost_of, value
from teir.search.sparse.graph import IterationGraph
from teir.search.sparse.predicted import Problem
from teir.search.sparse.ranked import ranked
from teir.search.sparse.statement import Statement
from teir.search.sparse.translate import program_of
from teir.target import host_target

Call = Callable[[], Any]
OURS = "teir"
PLANNED = "teir, the plan's call"
ALONE = "teir, one thread"
PRODUCT = "SpGEMM"
"""A sparse result of two sparse operands: the data times itself."""
_OWN = (OURS, PLANNED, ALONE)
_ROUNDS = 7
_FEW_ROUNDS = 3
_LONG_SECONDS = 2.0
"""Rounds that take longer are three."""
_COMPILING_SECONDS = 3.0
"""What a library may take to compile itself; a call that takes longer is slow."""
_REST_SECONDS = 0.02
"""After so long the threads of OpenMP do not spin any more."""
_SHORT_SECONDS = 0.03
_WARM_SECONDS = 0.006
"""Calls of the first length find the caches as the one before left them, and one call of their own
does not change that: each follows its own for so long."""
_TIMES_FASTEST = 2.0
_TIMES_OURS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Medians in seconds by contender; for C that was not run the least it would take."""

    kernel: str
    data: str
    extent: int
    threads: int
    schedule: str
    flops: float
    flops_peak: float
    seconds: dict[str, float]
    not_run: dict[str, float]

    def as_record(self) -> dict[str, Any]:
        return asdict(self)


def problem_of(statement: Statement, symbols: dict[str, float], threads: int = 1) -> Problem:
    """What schedules are ranked by."""
    facts = facts_of(host_target(os.environ), threads=threads)
    return Problem(
        statement=statement,
        symbols=symbols,
        element_bytes=8,
        cache_bytes=facts.l3_bytes,
        parts=part_cache(facts),
    )


def executable_of(
    kernel: str,
    graph: IterationGraph,
    extents: dict[str, int],
    threads: int,
    stored: dict[str, int],
) -> Executable:
    """The native code of a schedule; ``stored`` as `Data` has it."""
    return compile_program(program_for(kernel, graph, extents, stored, threads), threads=threads)


def program_for(
    kernel: str,
    graph: IterationGraph,
    extents: dict[str, int],
    stored: dict[str, int],
    threads: int = 1,
) -> Program:
    """The program of a schedule; the result has the pattern of B where it is sparse."""
    program = program_of(
        graph,
        extents,
        data_type=DataType.FP64,
        index_type=DataType.I32,
        name=kernel,
        shares=SHARES.get(kernel),
    )
    facts = facts_of(host_target(os.environ), threads=threads)
    return with_walking_passes(program, stored, facts)


def bound_call(executable: Executable, operands: Arrays) -> Call:
    """A call on arrays that stay where they are."""
    tensors = executable.program.tensors
    addresses = tuple(operands[tensor.name].ctypes.data for tensor in tensors)
    return lambda: executable.run_addresses(addresses)


def measure(kernel: str, name: str, extent: int, threads: int) -> Figure:
    """Raises AssertionError where results differ."""
    if kernel == PRODUCT:
        return _measure_product(name, threads)
    statement, data = statement_for(kernel), load(name)
    extents = data.index_extents(statement, extent)
    operands = data.operands(statement, extent)
    problem = problem_of(statement, data.symbols(statement, extent), threads)
    graph = ranked(problem)[0].candidate.graph
    executable = executable_of(kernel, graph, extents, threads, data.stored)
    executable.run(operands)
    expected = operands["A"].copy()
    ours = {OURS: bound_call(executable, operands)}
    if kernel not in SHARES:
        ours[PLANNED] = _planned(kernel, data, operands, threads)
    if threads > 1:
        ours[ALONE] = bound_call(executable_of(kernel, graph, extents, 1, data.stored), operands)
    first = {who: _checked(call, operands, expected, who) for who, call in ours.items()}
    own_seconds = min(_seconds(ours[OURS]) for _ in range(3))
    peak = measure_fma_peak(host_isa(), DataType.FP64)
    calls, not_run = dict(ours), {}
    for who, least, make in _peers(kernel, statement, data, extents, operands, threads):
        if least / peak > _TIMES_OURS * own_seconds:
            not_run[who] = least / peak
            continue
        for number, call in enumerate(make()):
            label = who if not number else f"{who}, other flags"
            first[label] = _checked(call, operands, expected, label)
            calls[label] = call
            if first[label] > 2 * _TIMES_OURS * own_seconds:
                break
    iterations = value(cost_of(graph).time, data.symbols(statement, extent))
    seconds, peak = _medians(calls, first, threads)
    return Figure(
        kernel=kernel,
        data=name,
        extent=extent,
        threads=threads,
        schedule=str(graph),
        flops=2 * iterations,
        flops_peak=peak * threads,
        seconds=seconds,
        not_run=not_run,
    )


def _peers(
    kernel: str,
    statement: Statement,
    data: Data,
    extents: dict[str, int],
    operands: Arrays,
    threads: int,
) -> Iterator[tuple[str, float, Callable[[], list[Call]]]]:
    """A peer, the floating-point operations of its C, and how to make its calls."""
    symbols = data.symbols(statement, 1) | {name: float(one) for name, one in extents.items()}
    for name, graph in peer_nests(kernel, statement) if threads == 1 else ():
        least = 2 * value(cost_of(graph).time, symbols)
        yield f"C, {name}", least, lambda graph=graph: compiled_nests(graph, extents, operands)
    columns = extents[statement.inputs[0].indices[-1]]
    given = operands_of(operands, columns)
    for name, call in library_calls(kernel, given, threads):
        yield name, 0.0, lambda call=call: [call]


def _planned(kernel: str, data: Data, operands: Arrays, threads: int) -> Call:
    """What a user calls: a plan, on a result made beforehand."""
    levels = range(1, len(data.extents))
    indices = {n: (operands[f"B.pos{n}"], operands[f"B.crd{n}"]) for n in levels}
    b = teir.Sparse.from_levels(data.extents, "dss"[: len(data.extents)], indices, operands["B"])
    names = [access.tensor for access in statement_for(kernel).inputs]
    given = [b if name == "B" else operands[name] for name in names]
    plan = teir.plan(KERNELS[kernel], *given, threads=threads)
    return lambda: plan(*given, out=operands["A"])


def _measure_product(name: str, threads: int) -> Figure:
    import scipy.sparse

    data = load(name)
    parts = (data.arrays["B"], data.arrays["B.crd1"], data.arrays["B.pos1"])
    matrix = scipy.sparse.csr_array(parts, shape=data.extents)
    plan = teir.plan("ij,jk->ik", matrix, matrix, out_levels="ds", threads=threads)
    calls: dict[str, Call] = {OURS: lambda: plan(matrix, matrix)}
    if threads > 1:
        alone = teir.plan("ij,jk->ik", matrix, matrix, out_levels="ds", threads=1)
        calls[ALONE] = lambda: alone(matrix, matrix)
    else:
        calls["scipy"] = lambda: matrix @ matrix
    expected = (matrix @ matrix).sorted_indices()
    found = plan(matrix, matrix).to_scipy()
    if abs(found - expected).max() > 1e-9 * abs(expected).max():
        raise AssertionError(f"SpGEMM {name}: wrong")
    lengths = np.diff(data.arrays["B.pos1"])
    flops = 2.0 * lengths[data.arrays["B.crd1"]].sum()
    seconds, peak = _medians(calls, {who: _seconds(call) for who, call in calls.items()}, threads)
    return Figure(
        kernel=PRODUCT,
        data=name,
        extent=data.extents[1],
        threads=threads,
        schedule="",
        flops=flops,
        flops_peak=peak * threads,
        seconds=seconds,
        not_run={},
    )


def _checked(call: Call, operands: Arrays, expected: np.ndarray[Any, Any], who: str) -> float:
    """Seconds of a call whose result is right: the second where the first may have compiled."""
    operands["A"].fill(np.nan)
    start = time.perf_counter()
    found = call()
    taken = time.perf_counter() - start
    result = operands["A"] if found is None else np.asarray(found)
    scale = np.abs(expected).max(initial=1.0)
    if not np.allclose(result.reshape(-1), expected.reshape(-1), rtol=0, atol=1e-9 * scale):
        raise AssertionError(f"{who}: wrong")
    return min(taken, _seconds(call)) if taken < _COMPILING_SECONDS else taken


def _medians(
    calls: dict[str, Call], first: dict[str, float], threads: int
) -> tuple[dict[str, float], float]:
    """Median seconds of interleaved rounds, and the peak of one thread between them.

    Every round begins with another contender, for the clock is lower right after the peak.
    ``first``: a first call of each. Slow peers keep the time of that. Threads of OpenMP go on
    spinning when their work is done: on several threads nothing is timed until they sleep.
    """
    peers = [one for who, one in first.items() if who not in _OWN]
    limit = _TIMES_FASTEST * min(peers, default=float("inf"))
    times: dict[str, list[float]] = {who: [] for who in calls}
    peaks = []
    one_round = sum(one for who, one in first.items() if who in _OWN or one <= limit)
    timed = [who for who in calls if who in _OWN or first[who] <= limit]
    for number in range(_ROUNDS if one_round < _LONG_SECONDS else _FEW_ROUNDS):
        peaks.append(measure_fma_peak(host_isa(), DataType.FP64))
        begun = number % len(timed)
        for who in (*timed[begun:], *timed[:begun]):
            if threads > 1:
                time.sleep(_REST_SECONDS)
            if first[who] < _SHORT_SECONDS:
                _warm(calls[who])
            times[who].append(_seconds(calls[who]))
    medians = {who: statistics.median(taken or [first[who]]) for who, taken in times.items()}
    return medians, statistics.median(peaks)


def _warm(call: Call) -> None:
    taken = 0.0
    while taken < _WARM_SECONDS:
        taken += _seconds(call)


def _seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compile_peers(kernel: str, name: str, extents: list[int]) -> None:
    """Compile the C beforehand."""
    if kernel == PRODUCT:
        return
    statement, data = statement_for(kernel), load(name)
    names = [*data.arrays, *(access.tensor for access in statement.accesses)]
    for extent in extents:
        for _, graph in peer_nests(kernel, statement):
            compile_nests(graph, data.index_extents(statement, extent), dict.fromkeys(names))


def line(figure: Figure) -> str:
    ours = figure.seconds[OURS]
    rest = {who: one for who, one in figure.seconds.items() if who not in _OWN}
    best = min(rest, key=lambda who: rest[who], default=OURS)
    return (
        f"{figure.kernel:6} {figure.data:11} {figure.extent:6}  {1e3 * ours:9.3f} ms "
        f"{100 * figure.flops / ours / figure.flops_peak:4.0f} %   "
        f"{figure.seconds[best] / ours:6.2f} x {best}; call "
        f"{1e3 * figure.seconds.get(PLANNED, ours):.3f} ms"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kernel", choices=(*KERNELS, PRODUCT))
    parser.add_argument("data")
    parser.add_argument("--extents", default=",".join(map(str, EXTENTS)))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    extents = [0] if arguments.kernel == PRODUCT else list(map(int, arguments.extents.split(",")))
    figures = []
    for extent in extents:
        figure = measure(arguments.kernel, arguments.data, extent, arguments.threads)
        print(line(figure), flush=True)
        figures.append(figure.as_record())
    if arguments.json is not None:
        text = json.dumps({"machine": record.machine(), "figures": figures}, indent=1)
        arguments.json.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
