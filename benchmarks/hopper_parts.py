"""What is run on the day a Hopper GPU is at hand: parts in the order of importance, item by item.

An item has a name, the programs and sources it compiles (all that a dry run does) and what measures
it.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from hopper_probes import (
    BEYOND,
    Facts,
    bytes_counted,
    facts,
    probe_sources,
    strides_followed,
    tf32_program,
    tf32_rounding,
)
from hopper_programs import copy_program, product_program

from cases import tccg
from teir.backends.cuda.compiled import CompiledProgram, compile_program, run
from teir.backends.cuda.decision import Decision, with_decision
from teir.backends.cuda.kernel import Family
from teir.backends.cuda.tile_stores import Stores
from teir.ir.nodes import Program

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
ROUNDS = 15
SPIN_CYCLES = 4_000_000
"""About two milliseconds; a call takes 0.2 to 0.5 to be on the stream."""
TORCH = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32", "TF32": "float32"}
TORCH["FP64"] = "float64"
TOLERANCE = {"BF16": 2e-2, "FP16": 4e-3, "TF32": 4e-3, "FP32": 1e-4, "FP64": 1e-12}
"""Largest difference from torch over the largest result: two roundings of different sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """``programs`` and ``sources`` (of kernels named probe) need no GPU, ``measure`` does."""

    name: str
    programs: Callable[[], Sequence[Program]]
    measure: Callable[[], Facts]
    sources: Callable[[], Sequence[str]] = tuple


def _nothing() -> Sequence[Program]:
    return ()


def drawn(shape: Sequence[int], kind: str) -> Any:
    """Standard normal numbers on the GPU."""
    import torch

    return torch.randn(tuple(shape), device="cuda").to(getattr(torch, TORCH[kind]))


def median_ms(run_once: Callable[[], object], peer: Callable[[], object]) -> tuple[float, float]:
    """Device times of both, interleaved, after three rounds of each.

    The device is kept busy until the call is on the stream: what this process does is not timed.
    """
    import torch

    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        run_once()
        peer()
    for _ in range(ROUNDS):
        for at, call in enumerate((run_once, peer)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(SPIN_CYCLES)
            begin.record()
            call()
            end.record()
            end.synchronize()
            times[at].append(begin.elapsed_time(end))
    return statistics.median(times[0]), statistics.median(times[1])


def stream() -> int:
    """The stream torch works on."""
    import torch

    return int(torch.cuda.current_stream().cuda_stream)


def families_of(compiled: CompiledProgram) -> list[str]:
    return [kernel.family.value for kernel in compiled.planned.kernels]


def product_item(
    name: str,
    expression: str,
    sizes: Mapping[str, int],
    kind: str,
    decision: Decision | None = None,
    debug: bool = False,
) -> Item:
    """A contraction beside torch.einsum; ``debug``: a wait that does not end traps."""

    def program() -> Program:
        plain = product_program(expression, sizes, kind)
        return plain if decision is None else with_decision(plain, "gemm", decision)

    def measure() -> Facts:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = kind == "TF32"
        inputs, out_indices = expression.split("->")
        left, right = (drawn([sizes[i] for i in one], kind) for one in inputs.split(","))
        out = torch.zeros([sizes[i] for i in out_indices], device="cuda").to(left.dtype)
        compiled = compile_program(program(), debug=debug)
        operands = {"in0": left, "in1": right, "out": out}
        run(compiled, operands, stream())
        expected = torch.einsum(expression, left, right)
        difference = float((out - expected).abs().max() / expected.abs().max())
        if not difference <= TOLERANCE[kind]:
            return {"kernels": families_of(compiled), "difference": difference, "right": False}
        ours, theirs = median_ms(
            lambda: run(compiled, operands, stream()),
            lambda: torch.einsum(expression, left, right),
        )
        flops = 2 * prod(sizes.values())
        return {
            "kernels": families_of(compiled),
            "difference": difference,
            "right": True,
            "tflops": flops / ours / 1e9,
            "torch_tflops": flops / theirs / 1e9,
            "ratio": theirs / ours,
        }

    return Item(name=name, programs=lambda: (program(),), measure=measure)


def copy_item(name: str, shape: Sequence[int], order: Sequence[int], kind: str) -> Item:
    """A permutation: is it right, and its speed beside a copy of as many bytes."""

    def measure() -> Facts:
        import torch

        source = drawn(shape, kind)
        out = torch.zeros([shape[axis] for axis in order], device="cuda").to(source.dtype)
        plain = torch.empty_like(source)
        compiled = compile_program(copy_program(shape, order, kind))
        operands = {"in0": source, "out": out}
        run(compiled, operands, stream())
        same = bool(torch.equal(out, source.permute(*order).contiguous()))
        ours, theirs = median_ms(
            lambda: run(compiled, operands, stream()), lambda: plain.copy_(source)
        )
        return {
            "kernels": families_of(compiled),
            "right": same,
            "gb_per_s": 2 * source.numel() * source.element_size() / ours / 1e6,
            "of_copy": theirs / ours,
        }

    return Item(name=name, programs=lambda: (copy_program(shape, order, kind),), measure=measure)


def fact_items() -> list[Item]:
    return [Item(name="device", programs=_nothing, measure=facts)]


def probe_items() -> list[Item]:
    counted = [
        Item(
            name=f"a barrier counts {one}",
            programs=_nothing,
            measure=partial(bytes_counted, one),
            sources=partial(probe_sources, BEYOND),
        )
        for one in ("whole tiles", "elements in bounds")
    ]
    followed = [
        Item(
            name=one,
            programs=_nothing,
            measure=partial(strides_followed, one),
            sources=partial(probe_sources, one),
        )
        for one in ("descending strides", "equal strides", "a stride of zero")
    ]
    rounded = Item(name="tf32", programs=lambda: (tf32_program(),), measure=tf32_rounding)
    return [*counted, *followed, rounded]


FAMILIES = (
    ("mk,nk->mn", {"m": 300, "n": 200, "k": 96}, "BF16"),
    ("mk,kn->mn", {"m": 304, "n": 200, "k": 96}, "BF16"),
    ("km,kn->mn", {"m": 304, "n": 200, "k": 96}, "FP16"),
    ("mk,nk->mn", {"m": 300, "n": 200, "k": 96}, "TF32"),
    ("abk,cdk->acbd", {"a": 10, "b": 24, "c": 6, "d": 16, "k": 40}, "BF16"),
    ("mk,kn->mn", {"m": 130, "n": 72, "k": 35}, "FP32"),
    ("mk,kn->mn", {"m": 130, "n": 72, "k": 35}, "FP64"),
    ("mk,kn->mn", {"m": 2048, "n": 2048, "k": 2048}, "FP64"),
)
ASKED = (
    ("stored by tiles", Decision(kernel=Family.WARPGROUP, tile=(128, 256), stores=Stores.TILES)),
    (
        "stored by registers",
        Decision(kernel=Family.WARPGROUP, tile=(128, 256), stores=Stores.REGISTERS),
    ),
    ("in clusters", Decision(kernel=Family.WARPGROUP, tile=(128, 128), cluster=2)),
)
COPIES = (((70, 96), (1, 0)), ((13, 17, 5), (2, 0, 1)), ((8, 12, 64), (1, 0, 2)))


def family_items() -> list[Item]:
    products = [
        product_item(f"{expression} {kind} {sizes['k']}", expression, sizes, kind, debug=True)
        for expression, sizes, kind in FAMILIES
    ]
    sizes = {"m": 700, "n": 520, "k": 328}
    products += [
        product_item(f"mk,nk->mn {kind} {name}", "mk,nk->mn", sizes, kind, decision, debug=True)
        for name, decision in ASKED
        for kind in ("BF16", "TF32")
    ]
    copies = [
        copy_item(f"{shape} {order} {kind}", shape, order, kind)
        for shape, order in COPIES
        for kind in ("FP32", "BF16", "FP64")
    ]
    return products + copies


def case_items() -> list[Item]:
    """Every case of tests/cases on the GPU, with small integers, against what must come out."""
    paths = sorted(TESTS.joinpath("cases").iterdir())
    return [
        Item(name=path.name, programs=partial(_case_programs, path), measure=partial(_case, path))
        for path in paths
        if path.suffix in (".teir", ".json")
    ]


def _read(path: Path) -> Any:
    """A case; the tests' package ``cases`` is hidden by the file of that name here."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("case_file", TESTS / "cases" / "case_file.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["case_file"] = module
    spec.loader.exec_module(module)
    return module.read_case(path)


def _case_programs(path: Path) -> Sequence[Program]:
    return (_read(path).program,)


def _case(path: Path) -> Facts:
    import torch

    case = _read(path)
    before = case.operands()
    kinds = {tensor.name: tensor.data_type.value for tensor in case.program.tensors}
    arrays = {
        name: torch.from_numpy(array.reshape(-1).view(np.uint8).copy())
        .cuda()
        .view(getattr(torch, TORCH[kinds[name]]))
        for name, array in before.items()
    }
    compiled = compile_program(case.program)
    run(compiled, arrays, stream())
    torch.cuda.synchronize()
    wrong = [
        name
        for name, expected in case.results(before).items()
        if arrays[name].view(torch.uint8).cpu().numpy().tobytes() != expected.tobytes()
    ]
    return {"kernels": families_of(compiled), "right": not wrong, "wrong": wrong}


LARGE_COPIES = (
    ("adjacent", (1024, 512, 512), (1, 0, 2)),
    ("adjacent", (64, 64, 64, 1024), (2, 1, 0, 3)),
    ("turned", (16384, 16384), (1, 0)),
    ("turned", (512, 1024, 512), (2, 1, 0)),
    ("turned", (96, 96, 96, 304), (3, 1, 0, 2)),
    ("turned", (211, 211, 211, 27), (3, 2, 1, 0)),
)


def permutation_items() -> list[Item]:
    return [
        copy_item(f"{name} {shape} {order} {kind}", shape, order, kind)
        for name, shape, order in LARGE_COPIES
        for kind in ("FP32", "BF16")
    ]


def gemm_items() -> list[Item]:
    items = []
    for size in (4096, 8192):
        for expression in ("mk,nk->mn", "mk,kn->mn"):
            sizes = dict.fromkeys("mnk", size)
            items.append(product_item(f"{expression} {size}", expression, sizes, "BF16"))
            for columns in (128, 256):
                asked = Decision(kernel=Family.WARPGROUP, tile=(128, columns), cluster=2)
                name = f"{expression} {size} columns {columns} cluster 2"
                items.append(product_item(name, expression, sizes, "BF16", asked))
            asked = Decision(kernel=Family.WARPGROUP, tile=(128, 256), stores=Stores.REGISTERS)
            name = f"{expression} {size} stored by registers"
            items.append(product_item(name, expression, sizes, "BF16", asked))
    return items


def tccg_items() -> list[Item]:
    """The TCCG contractions in three types."""
    items = []
    for case in tccg():
        inputs, _ = case.einsum.split("->")
        sizes = {
            index: extent
            for one, shape in zip(inputs.split(","), case.shapes, strict=True)
            for index, extent in zip(one, shape, strict=True)
        }
        items += [
            product_item(f"{case.name} {kind}", case.einsum, sizes, kind)
            for kind in ("FP32", "TF32", "BF16")
        ]
    return items


def sanitizer_items() -> list[Item]:
    """The families again under compute-sanitizer."""
    return [
        Item(name=check, programs=_nothing, measure=partial(_sanitized, check))
        for check in ("memcheck", "racecheck", "synccheck")
    ]


def _sanitized(check: str) -> Facts:
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return {"not measured": "compute-sanitizer is not installed"}
    script = str(HERE / "hopper.py")
    command = (tool, "--tool", check, sys.executable, script, "--child", "families")
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    return {"summary": [line for line in done.stdout.splitlines() if "ERROR SUMMARY" in line]}


PARTS: dict[str, Callable[[], list[Item]]] = {
    "facts": fact_items,
    "probes": probe_items,
    "families": family_items,
    "cases": case_items,
    "permutations": permutation_items,
    "gemm": gemm_items,
    "tccg": tccg_items,
    "sanitizer": sanitizer_items,
}
