"""Run the kernels of a program on the host: their own source, compiled by g++ with ``host.hpp``."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Mapping
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
from teir.tma.tensor_map import TensorMap

Buffer = np.ndarray[Any, np.dtype[Any]]
HERE = Path(__file__).parent
MOST_BLOCKS = 16
"""Grids are cut to so many blocks: persistent kernels do the rest of the work themselves."""


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


def emulate(
    program: CudaProgram,
    operands: Mapping[str, Buffer],
    folder: Path,
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
        _launch(kernel, values, folder)


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


def _launch(kernel: CudaKernel, values: list[bytes], folder: Path) -> None:
    library = ctypes.CDLL(str(_compiled(kernel, folder)))
    places = [ctypes.create_string_buffer(value, len(value)) for value in values]
    pointers = (ctypes.c_void_p * len(places))(*(ctypes.addressof(place) for place in places))
    blocks = min(kernel.blocks, MOST_BLOCKS)
    library.run.restype = ctypes.c_char_p
    failure = library.run(pointers, blocks, kernel.threads, kernel.cluster, kernel.shared_bytes, 7)
    if failure:
        raise AssertionError(failure.decode())


def _compiled(kernel: CudaKernel, folder: Path) -> Path:
    types = ["TensorMap" if isinstance(p, MapParameter) else "u8*" for p in kernel.parameters]
    arguments = ", ".join(f"*({kind}*)values[{at}]" for at, kind in enumerate(types))
    wrapper = f"""
extern "C" const char* run(void** values, unsigned blocks, unsigned threads, unsigned cluster,
                    unsigned shared, unsigned seed) {{
  host::grid_blocks = blocks, host::block_threads = threads, host::drawn.seed(seed);
  host::body = [=] {{ {kernel.name}({arguments}); }};
  host::failure = nullptr;
  for (host::first_block = 0; host::first_block < blocks; host::first_block += cluster)
    if (!host::failure) host::run_cluster(cluster, threads, shared);
  return host::failure;
}}
"""
    text = f'#define TEIR_HOST\n#include "{HERE / "host.hpp"}"\n{kernel.source}\n{wrapper}'
    name = hashlib.sha256(text.encode()).hexdigest()[:20]
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    if not library.exists():
        source.write_text(text, encoding="utf-8")
        flags = ("-O1", "-std=c++20", "-w", "-fpermissive", "-ffp-contract=off")
        command = (
            need_host_compiler(),
            *flags,
            "-shared",
            "-fPIC",
            str(source),
            "-o",
            str(library),
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
    return library
