"""What a user waits for besides the arithmetic, and where that time goes.

    python benchmarks/overheads.py

* `plan(a, b, out=c)` and `teir.einsum` on extents 1 to 4, against NumPy's einsum; the same on
  tensors of PyTorch, against its einsum,
* `import teir` in fresh interpreters, and which packages it brings in,
* the first call of contractions never seen before, less the same call warm: with the kernels on
  disk and with an empty cache, in fresh interpreters that have run something else before,
* the same for the 48 contractions of class c, one after the other in one interpreter, the kernels
  on disk (medians of five interpreters); and for every eighth of them in an interpreter of its own
  with an empty cache. The warm call is one on arrays made just before it, as those of the first
  call are (the median of three such), so that the difference is what being first costs; beside it
  the difference to the least of four calls that follow at once on the same arrays. Arrays of a
  megabyte and more get pages of their own every time they are made: left to itself, the C library
  comes to use old pages again for the later ones, or does not, as the addresses fall, and the
  difference flips between two values a fifth apart,
* planning by phase.

Writes ``results/overheads.json``. Exits 1 where a figure misses what is due.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from record import write

import teir
from cases import tccg
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.library import code_library
from teir.backends.llvm.native import bind_native
from teir.dtypes import DataType
from teir.expr.parsing import parse_subscripts
from teir.ir.check import check
from teir.lower.calls import kernels_of
from teir.lower.lower import lower
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem
from teir.runtime import runtime
from teir.search.machine import Machine
from teir.search.path import find_path
from teir.search.tree import contraction_program
from teir.target import host_target

DUE_SECONDS = {
    "plan call": 1.0e-6,
    "einsum call": 8e-6,
    "import": 0.150,
    "first, on disk": 1.5e-3,
    "first, empty": 60e-3,
    "class c, on disk": 1.5e-3,
    "class c, empty": 60e-3,
}
_EMPTY_STEP = 8
_ROUNDS = 5
_NEW_PAGES = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
"""For the C library: arrays of so many bytes and more have pages that nothing had before."""

CONTRACTIONS = (
    ("ab,bc->ac", ((32, 16), (16, 48))),
    ("ab,cb->ac", ((33, 16), (45, 16))),
    ("trus,pqtu->pqrs", ((2, 3, 16, 8), (4, 6, 2, 16))),
    ("abc,cd->abd", ((5, 6, 7), (7, 9))),
    ("ba,bc->ca", ((40, 20), (40, 30))),
    ("nab,nbc->nac", ((6, 14, 15), (6, 15, 13))),
    ("ij,jk,kl->il", ((5, 6), (6, 7), (7, 9))),
    ("ijk->kij", ((5, 6, 7),)),
    ("ij->i", ((31, 50),)),
)

_IMPORT = """
import sys, time
before = set(sys.modules)
start = time.perf_counter()
import teir
seconds = time.perf_counter() - start
print(seconds, *sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""

_FIRST_CALL = """
import sys, time
import numpy as np
import teir
expression, *shapes = sys.argv[1:]
arrays = [np.ones([int(n) for n in shape.split("x")], np.float32) for shape in shapes]
teir.einsum("ab,bc->ac", np.ones((3, 5), np.float32), np.ones((5, 2), np.float32))
times = []
for _ in range(6):
    start = time.perf_counter()
    teir.einsum(expression, *arrays)
    times.append(time.perf_counter() - start)
print(times[0] - min(times))
"""

_FIRST_CALLS = """
import json, sys, time
import numpy as np
import teir
teir.einsum("ab,bc->ac", np.ones((3, 5), np.float32), np.ones((5, 2), np.float32))
for expression, shapes, out_shape in json.load(sys.stdin):
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    out = np.ones(out_shape, np.float32)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        teir.einsum(expression, *arrays, out=out)
        times.append(time.perf_counter() - start)
    fresh = []
    for _ in range(3):
        arrays = [np.ones(shape, np.float32) for shape in shapes]
        out = np.ones(out_shape, np.float32)
        start = time.perf_counter()
        teir.einsum(expression, *arrays, out=out)
        fresh.append(time.perf_counter() - start)
    print(times[0] - sorted(fresh)[1], times[0] - min(times))
"""


def call_seconds(call: Callable[[], object], rounds: int = 15) -> float:
    """The median over rounds of some milliseconds each."""
    call()
    start = time.perf_counter()
    call()
    count = max(1, int(2e-3 / (time.perf_counter() - start)))
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            call()
        seconds.append((time.perf_counter() - start) / count)
    return statistics.median(seconds)


def small_calls() -> list[dict[str, float]]:
    """Products of extents 1 to 4: a plan's call, a repeated einsum, NumPy's einsum."""
    rows = []
    for extent in (1, 2, 3, 4):
        a, b, c = (np.ones((extent, extent), np.float32) for _ in range(3))
        planned = teir.plan("ab,bc->ac", a, b)
        rows.append(
            {
                "extent": extent,
                "plan_seconds": call_seconds(lambda p=planned, a=a, b=b, c=c: p(a, b, out=c)),
                "einsum_seconds": call_seconds(lambda a=a, b=b: teir.einsum("ab,bc->ac", a, b)),
                "numpy_seconds": call_seconds(lambda a=a, b=b: np.einsum("ab,bc->ac", a, b)),
            }
        )
    return rows


def tensor_calls() -> list[dict[str, float]]:
    """The same of tensors of PyTorch, beside its einsum."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    rows = []
    for extent in (1, 2, 3, 4):
        a, b, c = (torch.ones(extent, extent) for _ in range(3))
        planned = teir.plan("ab,bc->ac", a, b)
        rows.append(
            {
                "extent": extent,
                "plan_seconds": call_seconds(lambda p=planned, a=a, b=b, c=c: p(a, b, out=c)),
                "einsum_seconds": call_seconds(lambda a=a, b=b: teir.einsum("ab,bc->ac", a, b)),
                "torch_seconds": call_seconds(
                    lambda e=torch.einsum, a=a, b=b: e("ab,bc->ac", a, b)
                ),
            }
        )
    return rows


def import_times(rounds: int = 9) -> tuple[float, list[str]]:
    """Median seconds of `import teir` alone, and the top-level modules it brings in."""
    seconds, names = [], []
    for _ in range(rounds):
        first, *names = _python(_IMPORT, (), {}).split()
        seconds.append(float(first))
    return statistics.median(seconds), names


def first_calls() -> list[dict[str, object]]:
    """First less warm call of every contraction, the cache empty and then filled by that run."""
    rows: list[dict[str, object]] = []
    for expression, shapes in CONTRACTIONS:
        words = (expression, *("x".join(map(str, shape)) for shape in shapes))
        with tempfile.TemporaryDirectory() as folder:
            environment = {"TEIR_CACHE_DIR": str(Path(folder) / "objects")}
            empty = float(_python(_FIRST_CALL, words, environment))
            stored = [float(_python(_FIRST_CALL, words, environment)) for _ in range(3)]
        rows.append(
            {
                "expression": expression,
                "shapes": shapes,
                "empty_seconds": empty,
                "stored_seconds": statistics.median(stored),
            }
        )
    return rows


def tccg_first_calls() -> dict[str, dict[str, float]]:
    """Case of class c to first less warm call, on disk; for some with an empty cache too."""
    cases = {case.name: (case.einsum, case.shapes, case.output_shape) for case in tccg()}
    rows: dict[str, dict[str, float]] = {name: {} for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        environment = {"TEIR_CACHE_DIR": str(Path(folder) / "objects"), **_NEW_PAGES}
        everything = json.dumps(list(cases.values()))
        _python(_FIRST_CALLS, (), environment, everything)
        rounds = [
            _python(_FIRST_CALLS, (), environment, everything).splitlines() for _ in range(_ROUNDS)
        ]
    for row, lines in zip(rows.values(), zip(*rounds, strict=True), strict=True):
        seconds = zip(*(map(float, line.split()) for line in lines), strict=True)
        over_fresh, over_repeated = map(statistics.median, seconds)
        row |= {"stored_seconds": over_fresh, "stored_seconds_over_repeated": over_repeated}
    for name in list(cases)[::_EMPTY_STEP]:
        with tempfile.TemporaryDirectory() as folder:
            environment = {"TEIR_CACHE_DIR": str(Path(folder) / "objects"), **_NEW_PAGES}
            found = _python(_FIRST_CALLS, (), environment, json.dumps([cases[name]]))
        rows[name]["empty_seconds"] = float(found.split()[0])
    return rows


def _python(
    code: str, arguments: tuple[str, ...], environment: dict[str, str], given: str = ""
) -> str:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        input=given,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def planning_phases(rounds: int = 40) -> dict[str, float]:
    """Median seconds of each step from an expression to bound native code, kernels loaded."""
    target = host_target(os.environ)
    machine = Machine(
        vector_bytes=target.isa.vector_bytes,
        l1_bytes=target.caches.l1_bytes,
        l2_bytes=target.caches.l2_bytes,
        threads=1,
        threaded_work=1 << 16,
    )
    seconds: dict[str, list[float]] = {}
    for round_number in range(rounds + 2):
        for expression, shapes in CONTRACTIONS:
            for phase, taken in _phases(expression, shapes, machine).items():
                if round_number >= 2:
                    seconds.setdefault(phase, []).append(taken)
    return {phase: statistics.median(values) for phase, values in seconds.items()}


def _phases(
    expression: str, shapes: tuple[tuple[int, ...], ...], machine: Machine
) -> dict[str, float]:
    isa = host_isa()
    times = [time.perf_counter()]

    def tick() -> None:
        times.append(time.perf_counter())

    subscripts = parse_subscripts(expression)
    tick()
    types = tuple(contiguous(DataType.FP32, shape) for shape in shapes)
    contraction = state_problem(subscripts, types, None, None).contraction
    assert contraction is not None
    tick()
    walks = [tuple(factor.strides) for factor in contraction.inputs]
    path = find_path(walks, tuple(contraction.output.strides), contraction.extents, "auto")
    tick()
    program = contraction_program(contraction, path, machine).program
    tick()
    check(program).raise_if_wrong()
    tick()
    kernel_program = lower(program, isa)
    tick()
    code_library(runtime.current(), isa).leaves(kernels_of(kernel_program.roots))
    tick()
    bind_native(kernel_program, isa, 1)
    tick()
    names = ("parse", "problem", "path", "search", "check", "lower", "library", "bind")
    return {name: end - start for name, start, end in zip(names, times, times[1:], strict=False)}


def main() -> int:
    small, (import_seconds, imported), first = small_calls(), import_times(), first_calls()
    contractions = tccg_first_calls()
    of_class = {
        kind: statistics.median(row[kind] for row in contractions.values() if kind in row)
        for kind in ("stored_seconds", "stored_seconds_over_repeated", "empty_seconds")
    }
    phases, tensors = planning_phases(), tensor_calls()
    print("extent  plan(a, b, out=c)  teir.einsum  numpy.einsum")
    for row in small:
        plan, einsum, peer = (1e6 * row[f"{name}_seconds"] for name in ("plan", "einsum", "numpy"))
        print(f"{row['extent']:6} {plan:15.2f} us {einsum:9.2f} us {peer:10.2f} us")
    for row in tensors:
        plan, einsum, peer = (1e6 * row[f"{name}_seconds"] for name in ("plan", "einsum", "torch"))
        print(f"{row['extent']:6} {plan:15.2f} us {einsum:9.2f} us {peer:10.2f} us, tensors")
    print(f"import teir: {1e3 * import_seconds:.1f} ms, brings in {', '.join(imported)}")
    for row in first:
        on_disk, empty = (1e3 * float(row[name]) for name in ("stored_seconds", "empty_seconds"))
        print(
            f"first call of {row['expression']:16} {on_disk:7.2f} ms on disk {empty:7.1f} ms empty"
        )
    print(
        f"first call of class c, median: {1e3 * of_class['stored_seconds']:7.2f} ms on disk "
        f"({1e3 * of_class['stored_seconds_over_repeated']:.2f} over calls on the same arrays) "
        f"{1e3 * of_class['empty_seconds']:7.1f} ms empty"
    )
    print("planning: " + ", ".join(f"{name} {1e6 * s:.0f} us" for name, s in phases.items()))
    found = {
        "plan call": max(row["plan_seconds"] for row in small),
        "einsum call": max(row["einsum_seconds"] for row in (*small, *tensors)),
        "import": import_seconds,
        "class c, on disk": of_class["stored_seconds"],
        "class c, empty": of_class["empty_seconds"],
        "first, on disk": statistics.median(float(row["stored_seconds"]) for row in first),
        "first, empty": statistics.median(float(row["empty_seconds"]) for row in first),
    }
    missed = [name for name, due in DUE_SECONDS.items() if found[name] > due]
    for name in missed:
        print(f"{name}: {found[name]:.2e} s, due {DUE_SECONDS[name]:.2e} s")
    figures = {
        "small_calls": small,
        "tensor_calls": tensors,
        "import_seconds": import_seconds,
        "imported": imported,
        "first_calls": first,
        "first_calls_of_class_c": contractions,
        "planning_seconds": phases,
    }
    print(f"written: {write('overheads', figures)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
