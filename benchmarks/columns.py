"""The environments in which the peers are measured, each in a process of its own.

OpenBLAS and BLIS choose their kernels by the processor's family, and miss AVX-512 on some; told the
family, they use it. An allocator that gives pages back makes every library that allocates its
result pay for fresh pages in every call; the classes are measured with one that keeps them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from teir.backends.llvm.compile_ir import host_isa


class Column(Enum):
    """How the libraries are told of the machine."""

    INSTALLED = "as installed"
    SKYLAKEX = "SkylakeX"


class Allocator(Enum):
    """What becomes of large blocks of memory that are freed."""

    KEEPING = "keeping its pages"
    USUAL = "usual"
    """As a user has it who sets nothing."""


FAMILY = {"OPENBLAS_CORETYPE": "SkylakeX", "BLIS_ARCH_TYPE": "skx"}
CONCERNED = ("NumPy", "opt_einsum", "TBLIS")
"""The peers which those variables can change; the others are measured as installed only."""

_KEEP_PAGES = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "MALLOC_TOP_PAD_": str(64 << 20),
}


def columns_here() -> tuple[Column, ...]:
    """As installed, and told the family where this machine has the instructions of that."""
    return tuple(Column) if host_isa().is_avx512 else (Column.INSTALLED,)


def environment(column: Column, threads: int, allocator: Allocator) -> dict[str, str]:
    """The variables of a process that measures ``column``."""
    counts = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TBLIS_NUM_THREADS", "BLIS_NUM_THREADS")
    ours = {*FAMILY, *_KEEP_PAGES}
    return {
        **{name: value for name, value in os.environ.items() if name not in ours},
        **dict.fromkeys(counts, str(threads)),
        **(_KEEP_PAGES if allocator is Allocator.KEEPING else {}),
        **(FAMILY if column is Column.SKYLAKEX else {}),
    }


def run_column(
    column: Column, threads: int, arguments: Sequence[str], prefix: Sequence[str] = ()
) -> int:
    """Run `classes.py` with ``arguments`` in the environment of ``column``.

    ``prefix`` is a command that runs its arguments as a command, such as ``chrt -f 10``.
    """
    script = str(Path(__file__).parent / "classes.py")
    command = [*prefix, sys.executable, script, *arguments, "--column", column.value]
    variables = environment(column, threads, Allocator.KEEPING)
    return subprocess.run(command, env=variables, check=False).returncode


def loaded_libraries(column: Column, threads: int) -> list[dict[str, Any]]:
    """What threadpoolctl sees loaded. Raises RuntimeError where it is not what was asked for."""
    found: list[dict[str, Any]] = threadpool_info()
    for library in found:
        if library["num_threads"] != threads:
            raise RuntimeError(f"expected {threads} threads, found {library}")
        kernels = library.get("architecture")
        if column is Column.SKYLAKEX and kernels not in (None, FAMILY["OPENBLAS_CORETYPE"]):
            raise RuntimeError(f"expected SkylakeX kernels, found {library}")
    return [
        {key: library.get(key) for key in ("prefix", "version", "architecture", "num_threads")}
        for library in found
    ]
