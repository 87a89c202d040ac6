"""A program compiled for Hopper: built anywhere, kept in a folder, run where a GPU is.

compiled = compile_program(program)            # needs NVRTC or nvcc, no GPU
write_folder(compiled, Path("out"))            # program.teir, kernel0.cu, .ptx, .cubin, ...
compiled = read_folder(Path("out"))            # needs no compiler
run(compiled, {"in0": x, "in1": y, "out": z}, stream)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, assert_never

from teir.arrays.operand import BoundOperand
from teir.backends.cuda import driver as cuda
from teir.backends.cuda.budget import check_budget, check_launch
from teir.backends.cuda.compiler import Compiled, compile_source
from teir.backends.cuda.device_arrays import LEGACY_STREAM, bound_operands, producing_stream
from teir.backends.cuda.kernel import (
    Arena,
    ArenaPointer,
    CudaKernel,
    CudaProgram,
    MapParameter,
    Parameter,
    TensorPointer,
)
from teir.backends.cuda.plan import plan
from teir.backends.cuda.rules import DEVICE_ARRAY, FOLDER
from teir.backends.cuda.turn_inputs import turn_inputs
from teir.errors import refuse
from teir.ir.check import Proof, check_operands, prove
from teir.ir.load import load, save
from teir.ir.nodes import Program
from teir.passes.fuse_remainders import fuse_remainders

BOUNDED_WAITS = "-DTEIR_BOUNDED_WAITS=4000000000ull"
"""Compiler option of debug kernels: a barrier that takes 4 s (in nanoseconds) ends in a trap."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledProgram:
    """Kernels and their machine code, one for one; ``proof`` is that of the program."""

    planned: CudaProgram
    code: tuple[Compiled, ...]
    proof: Proof


def compile_program(program: Program, debug: bool = False) -> CompiledProgram:
    """Check, plan and compile ``program``; ``debug`` bounds every wait.

    Raises TeirError with the findings of the check, of the plan (TEIR723, TEIR725, TEIR728) and of
    the compiler (TEIR722, TEIR724).
    """
    proof = prove(program)
    proof.report.raise_if_wrong()
    turned = turn_inputs(fuse_remainders(program))
    if turned is not program:
        proof = prove(turned)
    planned = plan(turned)
    return CompiledProgram(planned=planned, code=_compiled(planned, debug), proof=proof)


def _compiled(planned: CudaProgram, debug: bool) -> tuple[Compiled, ...]:
    options = (BOUNDED_WAITS,) if debug else ()
    for kernel in planned.kernels:
        check_budget(kernel)
    code = tuple(_compiled_once(one.source, one.name, options) for one in planned.kernels)
    for kernel, compiled in zip(planned.kernels, code, strict=True):
        check_launch(kernel, compiled.registers)
    return code


@lru_cache(maxsize=256)
def _compiled_once(source: str, name: str, options: tuple[str, ...]) -> Compiled:
    """`compile_source`, remembered: calls whose addresses want other kernels compile them once."""
    return compile_source(source, name, options)


def write_folder(compiled: CompiledProgram, folder: Path) -> tuple[Path, ...]:
    """Write the program, every kernel's source, PTX and cubin, and what was made of what."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "program.teir"]
    save(compiled.planned.program, written[0])
    entries = []
    for kernel, code in zip(compiled.planned.kernels, compiled.code, strict=True):
        source = kernel.source.encode()
        for suffix, content in ((".cu", source), (".ptx", code.ptx), (".cubin", code.cubin)):
            written.append(folder / f"{kernel.name}{suffix}")
            written[-1].write_bytes(content)
        entries.append(
            {
                "name": kernel.name,
                "family": kernel.family.value,
                "blocks": kernel.blocks,
                "threads": kernel.threads,
                "cluster": kernel.cluster,
                "shared_bytes": kernel.shared_bytes,
                "source_sha256": hashlib.sha256(source).hexdigest(),
            }
        )
    written.append(folder / "kernels.json")
    written[-1].write_text(json.dumps({"kernels": entries}, indent=1) + "\n", encoding="utf-8")
    return tuple(written)


def read_folder(folder: Path) -> CompiledProgram:
    """What `write_folder` wrote; the machine code is that of the sources this version plans.

    Raises TeirError (TEIR729) where files are missing or a cubin was made of another source.
    """
    program = load(folder / "program.teir")
    proof = prove(program)
    proof.report.raise_if_wrong()
    planned = plan(program)
    known = _source_hashes(folder)
    code = []
    for kernel in planned.kernels:
        if known.get(kernel.name) != hashlib.sha256(kernel.source.encode()).hexdigest():
            refuse(FOLDER, kernel.name, "a cubin of this version's source", "another source")
        cubin, ptx = (_file(folder, f"{kernel.name}.{kind}") for kind in ("cubin", "ptx"))
        code.append(Compiled(cubin=cubin, ptx=ptx, log=""))
    return CompiledProgram(planned=planned, code=tuple(code), proof=proof)


def _source_hashes(folder: Path) -> dict[str, str]:
    """What every cubin of a folder was made of, by the kernel's name."""
    text = _file(folder, "kernels.json")
    try:
        entries = json.loads(text)["kernels"]
        return {entry["name"]: entry["source_sha256"] for entry in entries}
    except (ValueError, KeyError, TypeError):
        expected = "names and sources of kernels, as they were written"
        return refuse(FOLDER, str(folder / "kernels.json"), expected, repr(text[:80]))


def _file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        found = error.strerror or str(error)
        return refuse(FOLDER, str(folder / name), "a readable file", found)


def run(compiled: CompiledProgram, operands: Mapping[str, Any], stream: int = 0) -> None:
    """Run on arrays in GPU memory, in place, in the order of ``stream`` (a CUstream as integer).

    Returns as soon as everything is on the stream. Where an address is aligned to less than a
    kernel needs, the program is planned and compiled again for it. Arrays that name the stream of
    their last work (CuPy's) are waited for. Raises TeirError.
    """
    driver = cuda.find_driver()
    bound = bound_operands(compiled.planned.program, operands, stream)
    check_operands(compiled.proof, bound).raise_if_wrong()
    devices = {name: cuda.device_of(driver, one.address) for name, one in bound.items()}
    if len(set(devices.values())) > 1:
        refuse(DEVICE_ARRAY, "operands", "one device", str(devices))
    fitting = _fitting(compiled, bound)
    device = min(devices.values(), default=0)
    producers = dict.fromkeys(producing_stream(operands[name]) for name in bound)
    with cuda.on_device(driver, device):
        for producer in producers:
            if producer is not None and producer != (stream or LEGACY_STREAM):
                cuda.wait_for_stream(driver, stream, producer)
        _run_kernels(driver, fitting, bound, device, stream)


def _fitting(compiled: CompiledProgram, bound: Mapping[str, BoundOperand]) -> CompiledProgram:
    needed = dict(compiled.planned.alignment)
    has = {name: one.address & -one.address for name, one in bound.items()}
    if all(has[name] >= needed[name] for name in has):
        return compiled
    planned = plan(compiled.planned.program, has)
    return replace(compiled, planned=planned, code=_compiled(planned, debug=False))


def _run_kernels(
    driver: cuda.Driver,
    compiled: CompiledProgram,
    bound: Mapping[str, BoundOperand],
    device: int,
    stream: int,
) -> None:
    planned = compiled.planned
    own = max((one.block_arena_bytes * one.blocks for one in planned.kernels), default=0)
    sizes = {Arena.RUN: planned.run_arena_bytes, Arena.BLOCK: own}
    arenas = {
        arena: cuda.allocate(driver, size, stream) if size else 0 for arena, size in sizes.items()
    }
    addresses = {name: one.address for name, one in bound.items()}
    addresses |= {name: arenas[Arena.RUN] + start for name, start in planned.run_scratch}
    try:
        for kernel, code in zip(planned.kernels, compiled.code, strict=True):
            function = _loaded(driver, device)(code.cubin, kernel.name, kernel.shared_bytes)
            values = [_value(driver, one, addresses, arenas) for one in kernel.parameters]
            _launch(driver, kernel, function, values, stream)
    finally:
        for address in arenas.values():
            if address:
                cuda.free(driver, address, stream)


@cache
def _loaded(driver: cuda.Driver, device: int) -> Callable[[bytes, str, int], int]:
    """Functions of a device by machine code: modules are loaded once per process."""
    assert device >= 0

    @cache
    def function(cubin: bytes, name: str, shared_bytes: int) -> int:
        return cuda.load_function(driver, cubin, name, shared_bytes)

    return function


def _launch(
    driver: cuda.Driver, kernel: CudaKernel, function: int, values: list[bytes], stream: int
) -> None:
    cuda.launch(
        driver,
        function,
        kernel.blocks,
        kernel.threads,
        kernel.cluster,
        kernel.shared_bytes,
        stream,
        values,
    )


def _value(
    driver: cuda.Driver,
    parameter: Parameter,
    addresses: Mapping[str, int],
    arenas: Mapping[Arena, int],
) -> bytes:
    match parameter:
        case TensorPointer(tensor=tensor):
            return addresses[tensor].to_bytes(8, "little")
        case ArenaPointer(arena=arena):
            return arenas[arena].to_bytes(8, "little")
        case MapParameter(tensor=tensor, described=described):
            return cuda.encode_map(driver, described, addresses[tensor] + described.address)
        case _:
            assert_never(parameter)
