"""Kernels with a sparse operand beside C, SciPy and torch.

    python benchmarks/sparse_kernels.py --data FOLDER [--kernels K1,K4] [--extents 16] [--write]

Everything runs in one process on the same arrays, results checked, medians of interleaved rounds.
C is the fused default, the schedule of the published rules and the schedule that is chosen here,
each with two sets of flags, the fastest of all counting. Writes results/sparse-NTHREADS.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import record
import scipy.sparse
from c_nests import compiled_nests
from sparse_cases import MATRICES, SHARES, TENSORS, Arrays, Data, load, statement_for

from teir.dtypes import DataType
from teir.passes.row_blocks import with_row_blocks
from teir.pipeline.executable import compile_program
from teir.search.sparse.graph import IterationGraph, linear
from teir.search.sparse.predicted import Problem, predicted_seconds
from teir.search.sparse.schedules import Request, RuleSet, find_schedules, plan_frontier
from teir.search.sparse.statement import Statement, first_order
from teir.search.sparse.translate import program_of
from teir.target import host_target

Call = Callable[[], Any]
_ROUNDS = 7
_SLOW_SECONDS = 0.5
"""Peers beyond are run once."""


def main() -> None:
    options = _options()
    rows = []
    for kernel in options.kernels.split(","):
        rank = len(statement_for(kernel).inputs[0].indices)
        for name in MATRICES if rank == 2 else TENSORS:
            if options.only and name not in options.only.split(","):
                continue
            data = load(name, options.data)
            for extent in map(int, options.extents.split(",")):
                row = measure(kernel, name, data, extent, options.threads)
                print(_line(row), flush=True)
                rows.append(row)
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    print(f"geometric mean {statistics.geometric_mean(ratios):.2f}, worst {min(ratios):.2f}")
    if options.write:
        record.write(f"sparse-{options.threads}", rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--kernels", default="K1,K2,K3,K4,K5,K6,K7,K8,SpMM,SDDMM")
    parser.add_argument("--extents", default="16,32,64,128")
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def measure(kernel: str, name: str, data: Data, extent: int, threads: int) -> dict[str, Any]:
    """Milliseconds of ours and of every peer, and the best peer over ours."""
    statement = statement_for(kernel)
    sparse = statement.inputs[0]
    extents = dict.fromkeys(statement.indices, extent)
    extents |= dict(zip(sparse.indices, data.extents, strict=True))
    operands = _operands(statement, extents, data, extent)
    graph = chosen(statement, extents, data)
    ours = _ours(kernel, graph, extents, operands, threads)
    expected = operands["A"].copy()
    calls = {"ours": ours}
    peers = dict(_peers(kernel, statement, extents, operands, graph))
    for peer, call in peers.items():
        found = call()
        found = operands["A"] if found is None else found
        error = np.abs(np.asarray(found).reshape(expected.shape) - expected).max()
        if error > 1e-9 * np.abs(expected).max():
            raise AssertionError(f"{kernel} {name} {extent}: {peer} differs by {error}")
    times = _medians(calls | peers)
    best = min((times[peer], peer) for peer in peers)
    return {
        "kernel": kernel,
        "data": name,
        "extent": extent,
        "schedule": str(graph),
        "milliseconds": times,
        "best_peer": best[1],
        "ratio": best[0] / times["ours"],
    }


def _operands(statement: Statement, extents: dict[str, int], data: Data, extent: int) -> Arrays:
    draw = np.random.default_rng(extent)
    operands = dict(data.arrays)
    for access in statement.inputs[1:]:
        operands[access.tensor] = draw.standard_normal([extents[i] for i in access.indices])
    output = statement.output
    shape = [extents[index] for index in output.indices]
    if statement.compressed_indices(output.tensor):
        shape = [data.arrays["B.crd1"].size, *shape[2:]]
    operands["A"] = np.zeros(shape)
    return operands


def symbols(statement: Statement, extents: dict[str, int], data: Data) -> dict[str, float]:
    """Extents and mean fibre lengths."""
    known = {index: float(extent) for index, extent in extents.items()}
    fibres = data.extents[0]
    for level, index in enumerate(statement.inputs[0].indices[1:], 1):
        known[f"{index}pos"] = data.arrays[f"B.crd{level}"].size / fibres
        fibres = data.arrays[f"B.crd{level}"].size
    return known


def chosen(statement: Statement, extents: dict[str, int], data: Data) -> IterationGraph:
    """The schedule of least predicted time."""
    known = symbols(statement, extents, data)
    cache = host_target(os.environ).caches.l3_bytes
    problem = Problem(statement=statement, symbols=known, element_bytes=8, cache_bytes=cache)
    frontier = plan_frontier(statement, Request(cache_bytes=cache, sizes=known))
    return min((one.graph for one in frontier), key=lambda one: predicted_seconds(one, problem))


def _ours(
    kernel: str, graph: IterationGraph, extents: dict[str, int], operands: Arrays, threads: int
) -> Call:
    program = program_of(
        graph,
        extents,
        data_type=DataType.FP64,
        index_type=DataType.I32,
        name=kernel,
        shares=SHARES.get(kernel),
    )
    executable = compile_program(with_row_blocks(program), threads=threads)
    executable.run(operands)
    tensors = executable.program.tensors
    addresses = tuple(operands[tensor.name].ctypes.data for tensor in tensors)
    return lambda: executable.run_addresses(addresses)


def _peers(
    kernel: str,
    statement: Statement,
    extents: dict[str, int],
    operands: Arrays,
    graph: IterationGraph,
) -> Iterator[tuple[str, Call]]:
    order = first_order(statement)
    assert order is not None
    nests = {"default": linear(statement, order), "row": graph}
    if kernel.startswith("K"):
        request = Request(
            rule=RuleSet.PAPER,
            cache_bytes=host_target(os.environ).caches.l3_bytes,
            sizes=symbols(statement, extents, Data((extents[order[0]],), operands)),
        )
        published = (
            find_schedules(statement, request).chosen if kernel not in ("K2", "K5") else None
        )
        if published is not None:
            nests["published"] = published.graph
    for name, one in nests.items():
        for number, call in enumerate(compiled_nests(one, extents, operands)):
            yield f"C {name} {number}", call
    yield from _libraries(kernel, extents, operands)


def _libraries(
    kernel: str, extents: dict[str, int], operands: Arrays
) -> Iterator[tuple[str, Call]]:
    c, d, e = (operands.get(name) for name in "CDE")
    last = max(int(name[-1]) for name in operands if ".pos" in name)
    pos, crd = operands[f"B.pos{last}"], operands[f"B.crd{last}"]
    columns = extents["ijk"[last]] if kernel != "K8" else extents["l"]
    matrix = scipy.sparse.csr_array((operands["B"], crd, pos), shape=(pos.size - 1, columns))
    assert c is not None
    if kernel == "SpMM":
        yield "scipy", lambda: matrix @ c
    if kernel == "K4":
        yield "scipy", lambda: (matrix @ c) @ d
    if kernel == "K3":
        yield "scipy", lambda: (matrix @ (c * d)) @ e
    if kernel == "K7":
        yield "scipy", lambda: matrix @ (c @ d)
        yield "scipy, B first", lambda: (matrix @ c) @ d
    yield from _torch(kernel, matrix, operands)


def _torch(kernel: str, matrix: Any, operands: Arrays) -> Iterator[tuple[str, Call]]:
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)
    parts = (matrix.indptr, matrix.indices, matrix.data)
    b = torch.sparse_csr_tensor(*map(torch.from_numpy, parts), size=matrix.shape)
    c, d, e = (None if name not in operands else torch.from_numpy(operands[name]) for name in "CDE")
    if kernel == "SpMM":
        yield "torch", lambda: (b @ c).numpy()
    if kernel == "K4":
        yield "torch", lambda: ((b @ c) @ d).numpy()
    if kernel == "K3":
        yield "torch", lambda: ((b @ (c * d)) @ e).numpy()
    if kernel == "SDDMM":
        values = torch.from_numpy(operands["B"])
        yield (
            "torch",
            lambda: (torch.sparse.sampled_addmm(b, c, d.T, beta=0).values() * values).numpy(),
        )


def _medians(calls: dict[str, Call]) -> dict[str, float]:
    """Medians in milliseconds, rounds interleaved; what is slow runs once."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            if times[name] and times[name][0] > _SLOW_SECONDS:
                continue
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: 1e3 * statistics.median(taken) for name, taken in times.items()}


def _line(row: dict[str, Any]) -> str:
    times = row["milliseconds"]
    return (
        f"{row['kernel']:5} {row['data']:11} {row['extent']:4}  ours {times['ours']:8.2f}  "
        f"{row['best_peer']:14} {times[row['best_peer']]:8.2f}  ratio {row['ratio']:.2f}"
    )


if __name__ == "__main__":
    main()
