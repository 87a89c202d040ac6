"""The day a Hopper GPU is at hand: probes, correctness, speed, in the order of importance.

    python benchmarks/hopper.py [--only NAME ...] [--result FILE]

Every part runs in a child process with a timeout, so that a kernel that hangs ends one part and
not the day. Needs PyTorch with CUDA beside teir[cuda]. Results are joined in
``results/hopper.json`` after every part; what failed or was not reached is said there.

    facts        the device, the driver, what the driver's encoder accepts
    probes       bytes a load counts out of bounds, rounding of TF32, zero and descending strides
    families     one small program per kernel family, against exact arithmetic
    cases        tests/cases on the GPU against the evaluator
    permutations speed beside a device copy           (bars: 95 % and, turned, 80 %)
    gemm         BF16 4096 and 8192 beside torch      (bars: 85 %, 70 % without clusters)
    tccg         the TCCG contractions beside torch.einsum (bar: 1.5 times, geometric mean)
    sanitizer    compute-sanitizer over the families, where it is installed
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from teir.backends.cuda.compiled import compile_program, run
from teir.backends.cuda.compiler import compile_source
from teir.backends.cuda.decision import Decision, with_decision
from teir.backends.cuda.driver import (
    allocate,
    encode_map,
    find_driver,
    free,
    launch,
    load_function,
    on_device,
    synchronise,
)
from teir.backends.cuda.kernel import Family
from teir.backends.cuda.text import whole_source
from teir.errors import TeirError
from teir.ir.evaluate import evaluate
from teir.ir.load import loads
from teir.ir.nodes import Program
from teir.tma.element_types import ElementType
from teir.tma.tensor_map import Fill, TensorMap

HERE = Path(__file__).parent
RESULT = HERE / "results" / "hopper.json"
CASES = HERE.parent / "tests" / "cases"
TIMEOUTS_S = {
    "facts": 60,
    "probes": 120,
    "families": 240,
    "cases": 420,
    "permutations": 240,
    "gemm": 240,
    "tccg": 560,
    "sanitizer": 400,
}
ROUNDS = 15
Facts = dict[str, Any]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--only", action="append", choices=list(TIMEOUTS_S))
    options.add_argument("--result", type=Path, default=RESULT)
    options.add_argument("--child", choices=list(TIMEOUTS_S), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        print(json.dumps(PARTS[chosen.child]()))
        return
    try:
        find_driver()
    except TeirError as error:
        sys.exit(str(error))
    found: Facts = json.loads(chosen.result.read_text()) if chosen.result.exists() else {}
    for name in chosen.only or TIMEOUTS_S:
        found[name] = in_child(name)
        print(name, json.dumps(found[name], indent=1), flush=True)
        chosen.result.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def in_child(name: str) -> Facts:
    """What a part found, or why it found nothing."""
    command = (sys.executable, __file__, "--child", name)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUTS_S[name], check=False
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no end after {TIMEOUTS_S[name]} s"}
    if done.returncode:
        return {"failed": done.stderr.strip()[-1500:]}
    answer: Facts = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def tensor_map(
    sizes: Sequence[int], strides: Sequence[int], box: Sequence[int], swizzle: int = 0
) -> TensorMap:
    return TensorMap(
        element_type=ElementType.F32,
        address=0,
        sizes=tuple(sizes),
        strides_bytes=tuple(strides),
        box=tuple(box),
        element_strides=(1,) * len(sizes),
        swizzle_bytes=swizzle,
        interleave_bytes=0,
        fill=Fill.ZERO,
    )


MAPS = {
    "ascending strides": tensor_map((32, 8, 4), (128, 1024), (32, 8, 4)),
    "descending strides": tensor_map((32, 8, 4), (1024, 128), (32, 4, 4)),
    "equal strides": tensor_map((32, 8, 4), (128, 128), (32, 8, 4)),
    "a stride of zero": tensor_map((32, 8), (0,), (32, 8)),
    "a box beyond its dimension": tensor_map((20, 3), (80,), (32, 8)),
    "a box narrower than its swizzle": tensor_map((32, 8), (128,), (16, 8), 128),
}


def facts() -> Facts:
    """The device, and which tensor maps the driver encodes."""
    import torch

    driver = find_driver()
    properties = torch.cuda.get_device_properties(0)
    room = torch.zeros(1 << 16, dtype=torch.float32, device="cuda")
    accepted = {}
    for name, described in MAPS.items():
        try:
            encode_map(driver, described, room.data_ptr())
            accepted[name] = True
        except TeirError as error:
            accepted[name] = error.findings[0].found
    return {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "torch": torch.__version__,
        "maps": accepted,
    }


PROBE = """
KERNEL(32) probe(MAP map, u8* out, u32 expected) {
  SHARED(shared);
  const u32 first = shared_address(shared), barrier = first + 32768;
  for (u32 at = threadIdx.x; at < 8192; at += 32) ((u32*)shared)[at] = 0xABABABABu;
  if (threadIdx.x == 0) { barrier_init(barrier, 1); barriers_ready(); }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barrier_expect(barrier, expected);
    tile_load(first, &map, barrier, COORDINATES);
  }
  u32 passed = 0;
  for (u32 tries = 0; tries < 100000u && !passed; ++tries) passed = barrier_passed(barrier, 0);
  __syncthreads();
  for (u32 at = threadIdx.x; at < 8192; at += 32) ((u32*)out)[at] = ((u32*)shared)[at];
  if (threadIdx.x == 0) ((u32*)out)[8192] = passed;
}
"""


def load_once(described: TensorMap, coordinates: Sequence[int], expected: int) -> Any:
    """Shared memory after one tile load of 0, 1, 2, ...; the last word: did the barrier pass?"""
    import torch

    driver = find_driver()
    source = torch.arange(1 << 16, dtype=torch.float32, device="cuda")
    torch.cuda.synchronize()
    body = PROBE.replace("COORDINATES", ", ".join(map(str, coordinates)))
    compiled = compile_source(whole_source(body, tiles=True), "probe")
    with on_device(driver, 0):
        function = load_function(driver, compiled.cubin, "probe", 33 * 1024)
        out = allocate(driver, 8193 * 4, 0)
        values = (
            encode_map(driver, described, source.data_ptr()),
            out.to_bytes(8, "little"),
            expected.to_bytes(4, "little"),
        )
        launch(driver, function, 1, 32, 1, 33 * 1024, 0, values)
        synchronise(driver, 0)
        words = np.empty(8193, np.uint32)
        host, size = ctypes.c_void_p(words.ctypes.data), ctypes.c_size_t(words.nbytes)
        driver.call("cuMemcpyDtoH_v2", host, ctypes.c_uint64(out), size)
        free(driver, out, 0)
    return words


def probes() -> Facts:
    """What the documentation does not say; recorded as facts of the target."""
    found: Facts = {}
    beyond = MAPS["a box beyond its dimension"]
    whole, inside = beyond.tile_bytes, 20 * 3 * 4
    for name, expected in (("whole tiles", whole), ("elements in bounds", inside)):
        words = attempt(lambda expected=expected: load_once(beyond, (0, 0), expected))
        found[f"a barrier counts {name}"] = words if isinstance(words, str) else bool(words[-1])
    for name in ("descending strides", "equal strides", "a stride of zero"):
        described = MAPS[name]
        words = attempt(lambda d=described: load_once(d, (0,) * d.rank, d.tile_bytes))
        found[name] = words if isinstance(words, str) else bool(agrees(words, described))
    found["tf32"] = attempt(tf32_rounding)
    return found


def attempt(probe: Callable[[], Any]) -> Any:
    try:
        return probe()
    except TeirError as error:
        return error.findings[0].found


def agrees(words: Any, described: TensorMap) -> bool:
    """Does shared memory hold what a tile of 0, 1, 2, ... is by the map's own strides?"""
    index = np.zeros((1,) * described.rank, np.int64)
    strides = (4, *described.strides_bytes)
    for at, (box, stride) in enumerate(zip(described.box, strides, strict=True)):
        shape = [1] * described.rank
        shape[described.rank - 1 - at] = box
        index = index + (np.arange(box) * (stride // 4)).reshape(shape)
    wanted = index.reshape(-1).astype(np.float32)
    return bool(words[-1]) and np.array_equal(words[: wanted.size].view(np.float32), wanted)


def tf32_rounding() -> str:
    """Products of 1 + 3 * 2^-12, which truncation makes 1 and rounding 1 + 2^-10."""
    import torch

    program = product_program("mk,nk->mn", {"m": 64, "n": 64, "k": 32}, "TF32")
    left = torch.zeros(64, 32, device="cuda")
    left[:, 0] = 1 + 3 * 2.0**-12
    right = torch.ones(64, 32, device="cuda")
    out = torch.zeros(64, 64, device="cuda")
    run(compile_program(program), {"in0": left, "in1": right, "out": out})
    torch.cuda.synchronize()
    value = float(out[0, 0])
    return {1.0: "truncated", 1 + 2.0**-10: "rounded"}.get(value, repr(value))


def product_program(expression: str, sizes: Mapping[str, int], kind: str) -> Program:
    """A contraction without loops but the outermost; the plan cuts it."""
    inputs, out = expression.split("->")
    indices = dict(zip(("in0", "in1", "out"), (*inputs.split(","), out), strict=True))
    width = {"BF16": 2, "FP16": 2, "FP64": 8}.get(kind, 4)
    strides = {
        name: {i: width * prod(sizes[j] for j in held[at + 1 :]) for at, i in enumerate(held)}
        for name, held in indices.items()
    }
    rows = ['teir 1 "contraction"', *(f"tensor {name}: {kind}" for name in indices)]
    every = list(dict.fromkeys(indices["in0"] + indices["in1"]))
    for index in every:
        moves = [f"{name} {step[index]}" for name, step in strides.items() if index in step]
        rows.append(f"axis {index} = {sizes[index]}: {', '.join(moves)}")
    tile = list(out[1:])
    m = ", ".join(index for index in tile if index in indices["in0"])
    n = ", ".join(index for index in tile if index not in indices["in0"])
    k = ", ".join(index for index in every if index not in out)
    rows += [
        f"primitive zero = Zero (out; M=[{m}], N=[{n}])",
        f"primitive gemm = Contraction (in0, in1 -> out; M=[{m}], N=[{n}], K=[{k}])",
        f"parallel {out[0]} over {out[0]}",
        "  zero: zero",
        "  gemm: gemm",
    ]
    return loads("\n".join(rows) + "\n")


def copy_program(shape: Sequence[int], order: Sequence[int], kind: str) -> Program:
    width = {"BF16": 2, "FP16": 2, "FP64": 8}.get(kind, 4)
    rank = len(shape)
    outs = {axis: width * prod(shape[a] for a in order[at + 1 :]) for at, axis in enumerate(order)}
    rows = ['teir 1 "permutation"', f"tensor in0: {kind}", f"tensor out: {kind}"]
    for axis in range(rank):
        step = width * prod(shape[axis + 1 :])
        rows.append(f"axis a{axis} = {shape[axis]}: in0 {step}, out {outs[axis]}")
    inner = ", ".join(f"a{axis}" for axis in range(1, rank))
    rows += [f"primitive copy = Copy (in0 -> out; M=[{inner}], N=[])", "parallel a0 over a0"]
    return loads("\n".join([*rows, "  copy: copy"]) + "\n")


TORCH = {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32", "TF32": "float32"}
TORCH["FP64"] = "float64"


def drawn(shape: Sequence[int], kind: str) -> Any:
    import torch

    return torch.randn(tuple(shape), device="cuda").to(getattr(torch, TORCH[kind]))


def median_ms(run_once: Callable[[], object], peer: Callable[[], object]) -> tuple[float, float]:
    """Device times of both, interleaved."""
    import torch

    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        run_once()
        peer()
    for _ in range(ROUNDS):
        for at, call in enumerate((run_once, peer)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            call()
            end.record()
            end.synchronize()
            times[at].append(begin.elapsed_time(end))
    return statistics.median(times[0]), statistics.median(times[1])


def stream() -> int:
    import torch

    return int(torch.cuda.current_stream().cuda_stream)


def compared(
    expression: str, sizes: Mapping[str, int], kind: str, decision: Decision | None = None
) -> Facts:
    """One contraction: relative error against FP64 on a part, time beside torch.einsum."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = kind == "TF32"
    inputs, out_indices = expression.split("->")
    left, right = (drawn([sizes[i] for i in one], kind) for one in inputs.split(","))
    out = torch.zeros([sizes[i] for i in out_indices], device="cuda").to(left.dtype)
    program = product_program(expression, sizes, kind)
    if decision is not None:
        program = with_decision(program, "gemm", decision)
    compiled = compile_program(program)
    operands = {"in0": left, "in1": right, "out": out}
    run(compiled, operands, stream())
    expected = torch.einsum(expression, left, right)
    error = float((out - expected).abs().max() / expected.abs().max())
    ours, theirs = median_ms(
        lambda: run(compiled, operands, stream()),
        lambda: torch.einsum(expression, left, right),
    )
    flops = 2 * prod(sizes.values())
    return {
        "kernels": [kernel.family.value for kernel in compiled.planned.kernels],
        "difference": error,
        "tflops": flops / ours / 1e9,
        "torch_tflops": flops / theirs / 1e9,
        "ratio": theirs / ours,
    }


FAMILIES = (
    ("mk,nk->mn", {"m": 300, "n": 200, "k": 96}, "BF16"),
    ("mk,kn->mn", {"m": 304, "n": 200, "k": 96}, "BF16"),
    ("km,kn->mn", {"m": 304, "n": 200, "k": 96}, "FP16"),
    ("mk,nk->mn", {"m": 300, "n": 200, "k": 96}, "TF32"),
    ("abk,cdk->acbd", {"a": 10, "b": 24, "c": 6, "d": 16, "k": 40}, "BF16"),
    ("mk,kn->mn", {"m": 130, "n": 72, "k": 35}, "FP32"),
    ("mk,kn->mn", {"m": 130, "n": 72, "k": 35}, "FP64"),
)
COPIES = (((70, 96), (1, 0)), ((13, 17, 5), (2, 0, 1)), ((8, 12, 64), (1, 0, 2)))


def families() -> Facts:
    found: Facts = {}
    for expression, sizes, kind in FAMILIES:
        found[f"{expression} {kind}"] = compared(expression, sizes, kind)
    for shape, order in COPIES:
        for kind in ("FP32", "BF16", "FP64"):
            found[f"{shape} {order} {kind}"] = permuted(shape, order, kind)
    return found


def permuted(shape: Sequence[int], order: Sequence[int], kind: str) -> Facts:
    """A permutation: is it right, and its speed beside a copy of as many bytes."""
    import torch

    source = drawn(shape, kind)
    out = torch.zeros([shape[axis] for axis in order], device="cuda").to(source.dtype)
    plain = torch.empty_like(source)
    compiled = compile_program(copy_program(shape, order, kind))
    operands = {"in0": source, "out": out}
    run(compiled, operands, stream())
    same = bool(torch.equal(out, source.permute(*order).contiguous()))
    ours, theirs = median_ms(lambda: run(compiled, operands, stream()), lambda: plain.copy_(source))
    return {
        "kernels": [kernel.family.value for kernel in compiled.planned.kernels],
        "right": same,
        "gb_per_s": 2 * source.numel() * source.element_size() / ours / 1e6,
        "of_copy": theirs / ours,
    }


def cases() -> Facts:
    """Every case of tests/cases on the GPU, with small integers, against the evaluator."""
    import torch

    sys.path.insert(0, str(CASES.parent))
    from cases.case_file import read_case

    found: Facts = {"right": 0, "wrong": []}
    for path in sorted(CASES.iterdir()):
        if path.suffix not in (".teir", ".json"):
            continue
        case = read_case(path)
        operands = case.operands()
        arrays = {
            name: torch.from_numpy(array.reshape(-1).view(np.uint8).copy()).cuda()
            for name, array in operands.items()
        }
        kinds = {tensor.name: TORCH[tensor.data_type.value] for tensor in case.program.tensors}
        typed = {name: one.view(getattr(torch, kinds[name])) for name, one in arrays.items()}
        evaluate(case.program, operands)
        run(compile_program(case.program), typed, stream())
        torch.cuda.synchronize()
        wrong = [
            name
            for name, array in operands.items()
            if arrays[name].cpu().numpy().tobytes() != array.tobytes()
        ]
        found["right"] += not wrong
        found["wrong"] += [f"{path.name}: {name}" for name in wrong]
    return found


LARGE_COPIES = (
    ("adjacent", (1024, 512, 512), (1, 0, 2)),
    ("adjacent", (64, 64, 64, 1024), (2, 1, 0, 3)),
    ("turned", (16384, 16384), (1, 0)),
    ("turned", (512, 1024, 512), (2, 1, 0)),
    ("turned", (96, 96, 96, 304), (3, 1, 0, 2)),
    ("turned", (211, 211, 211, 27), (3, 2, 1, 0)),
)


def permutations() -> Facts:
    found: Facts = {}
    for name, shape, order in LARGE_COPIES:
        for kind in ("FP32", "BF16"):
            found[f"{name} {shape} {order} {kind}"] = permuted(shape, order, kind)
    return found


def gemm() -> Facts:
    found: Facts = {}
    for size in (4096, 8192):
        for expression in ("mk,nk->mn", "mk,kn->mn"):
            sizes = dict.fromkeys("mnk", size)
            found[f"{expression} {size}"] = compared(expression, sizes, "BF16")
            for columns in (128, 256):
                asked = Decision(kernel=Family.WARPGROUP, tile=(128, columns), cluster=2)
                name = f"{expression} {size} columns {columns} cluster 2"
                found[name] = compared(expression, sizes, "BF16", asked)
    return found


def tccg() -> Facts:
    """The TCCG contractions in three types."""
    from cases import tccg as contractions

    found: Facts = {}
    ratios: dict[str, list[float]] = {}
    for case in contractions():
        inputs, _ = case.einsum.split("->")
        sizes = {
            index: extent
            for one, shape in zip(inputs.split(","), case.shapes, strict=True)
            for index, extent in zip(one, shape, strict=True)
        }
        for kind in ("FP32", "TF32", "BF16"):
            answer = attempt(lambda e=case.einsum, s=sizes, k=kind: compared(e, s, k))
            found[f"{case.name} {kind}"] = answer
            if isinstance(answer, dict):
                ratios.setdefault(kind, []).append(answer["ratio"])
    for kind, values in ratios.items():
        found[f"geometric mean {kind}"] = statistics.geometric_mean(values)
    return found


def sanitizer() -> Facts:
    """The families again under compute-sanitizer."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        return {"not measured": "compute-sanitizer is not installed"}
    found: Facts = {}
    for check in ("memcheck", "racecheck", "synccheck"):
        command = (tool, "--tool", check, sys.executable, __file__, "--child", "families")
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        found[check] = [line for line in done.stdout.splitlines() if "ERROR SUMMARY" in line]
    return found


PARTS: dict[str, Callable[[], Facts]] = {
    "facts": facts,
    "probes": probes,
    "families": families,
    "cases": cases,
    "permutations": permutations,
    "gemm": gemm,
    "tccg": tccg,
    "sanitizer": sanitizer,
}

if __name__ == "__main__":
    main()
