"""Run the kernels of programs on the host: their own source, compiled by g++ with ``host.hpp``.

kernels = compile_kernels(programs)      # one file for all of them, and the host's
emulate(programs[0], operands, kernels)
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, assert_never

import numpy as np
import pytest

from teir.backends.cuda.kernel import (
    Arena,
    ArenaPointer,
    CudaKernel,
    CudaProgram,
    MapParameter,
    Parameter,
    TensorPointer,
)
from teir.backends.cuda.text import whole_source
from teir.tma.tensor_map import TensorMap

Buffer = np.ndarray[Any, np.dtype[Any]]
HERE = Path(__file__).parent
MOST_BLOCKS = 16
"""Grids are cut to so many blocks: persistent kernels do the rest of the work themselves."""
DRAWN_SEED = 7


@dataclass(frozen=True, slots=True, eq=False)
class HostKernels:
    """The library of ``host.cpp``, and the kernels by source."""

    host: ctypes.CDLL
    bodies: Mapping[str, Any]


class Described(ctypes.Structure):
    _fields_ = [
        ("base", ctypes.c_uint64),
        ("strides", ctypes.c_uint64 * 4),
        ("sizes", ctypes.c_uint32 * 5),
        ("box", ctypes.c_uint32 * 5),
        ("rank", ctypes.c_uint32),
        ("width", ctypes.c_uint32),
        ("swizzle", ctypes.c_uint32),
    ]


def need_host_compiler() -> str:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ to run kernels on the host")
    return compiler


def compile_kernels(programs: Iterable[CudaProgram]) -> HostKernels:
    """Compile every kernel of ``programs``, each source once."""
    kernels = {kernel.source: kernel for program in programs for kernel in program.kernels}
    prelude = f'#define TEIR_HOST\n#include "host.hpp"\n{whole_source("", tiles=True)}'
    namespaces = (_namespace(kernel, at) for at, kernel in enumerate(kernels.values()))
    host = _host()
    entries = _library("\n".join([prelude, *namespaces]), ctypes.RTLD_LOCAL)
    bodies = {one: getattr(entries, f"body{at}") for at, one in enumerate(kernels)}
    return HostKernels(host=host, bodies=bodies)


@cache
def _host() -> ctypes.CDLL:
    """The library of ``host.cpp``; kernels find it by name, so there is one in a process."""
    return _library((HERE / "host.cpp").read_text(encoding="utf-8"), ctypes.RTLD_GLOBAL)


def _library(text: str, mode: int) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "text.cpp", Path(folder) / "text.so"
        source.write_text(text, encoding="utf-8")
        base = ("-O1", "-std=c++20", "-w", "-fpermissive", "-ffp-contract=off", "-shared", "-fPIC")
        # Ubuntu's g++ fortifies by default, and a fortified longjmp refuses to change stacks.
        flags = (*base, "-U_FORTIFY_SOURCE", f"-I{HERE}")
        command = (need_host_compiler(), *flags, str(source), "-o", str(library))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        return ctypes.CDLL(str(library), mode=mode)


def _namespace(kernel: CudaKernel, at: int) -> str:
    """A kernel in a namespace of its own, and its body as a function of its parameters' places."""
    types = ["TensorMap" if isinstance(p, MapParameter) else "u8*" for p in kernel.parameters]
    arguments = ", ".join(f"*({kind}*)values[{number}]" for number, kind in enumerate(types))
    return f"""namespace n{at} {{
{body_of(kernel)}
}}
extern "C" void body{at}(void** values) {{ n{at}::{kernel.name}({arguments}); }}
"""


def body_of(kernel: CudaKernel) -> str:
    """The source without the device files before it."""
    preludes = [whole_source("", tiles) for tiles in (True, False)]
    return kernel.source.removeprefix(
        next(one for one in preludes if kernel.source.startswith(one))
    )


def emulate(
    program: CudaProgram,
    operands: Mapping[str, Buffer],
    kernels: HostKernels,
    bases: Mapping[str, int] | None = None,
) -> None:
    """Run ``program`` in place; ``bases`` says where in an operand the base lies, else 0."""
    addresses = {
        name: address_of(array) + (bases or {}).get(name, 0) for name, array in operands.items()
    }
    run_arena = np.full(program.run_arena_bytes + 64, 0xFF, np.uint8)
    start = -(-address_of(run_arena) // 64) * 64
    addresses |= {name: start + at for name, at in program.run_scratch}
    for kernel in program.kernels:
        block_arena = np.full(kernel.block_arena_bytes * kernel.blocks + 64, 0xFF, np.uint8)
        arenas = {Arena.RUN: run_arena, Arena.BLOCK: block_arena}
        values = [_value(one, addresses, arenas) for one in kernel.parameters]
        _launch(kernel, values, kernels)


def address_of(array: Buffer) -> int:
    return int(array.ctypes.data)


def _value(
    parameter: Parameter, addresses: Mapping[str, int], arenas: Mapping[Arena, Buffer]
) -> bytes:
    match parameter:
        case TensorPointer(tensor=tensor):
            return addresses[tensor].to_bytes(8, "little")
        case ArenaPointer(arena=arena):
            return (-(-address_of(arenas[arena]) // 64) * 64).to_bytes(8, "little")
        case MapParameter(tensor=tensor, described=described):
            return _map_bytes(described, addresses[tensor])
        case _:
            assert_never(parameter)


def _map_bytes(described: TensorMap, base: int) -> bytes:
    rank = described.rank
    one = Described(base=base + described.address, rank=rank)
    one.width, one.swizzle = described.element_type.width, described.swizzle_bytes
    one.strides[: rank - 1] = list(described.strides_bytes)
    one.sizes[:rank] = list(described.sizes)
    one.box[:rank] = list(described.box)
    return bytes(one).ljust(128, b"\0")


def _launch(kernel: CudaKernel, values: list[bytes], kernels: HostKernels) -> None:
    places = [ctypes.create_string_buffer(value, len(value)) for value in values]
    pointers = (ctypes.c_void_p * len(places))(*(ctypes.addressof(place) for place in places))
    blocks = min(kernel.blocks, MOST_BLOCKS)
    run = kernels.host.run
    run.restype = ctypes.c_char_p
    body = kernels.bodies[kernel.source]
    failure = run(
        body, pointers, blocks, kernel.threads, kernel.cluster, kernel.shared_bytes, DRAWN_SEED
    )
    if failure:
        raise AssertionError(failure.decode())
