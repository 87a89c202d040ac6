"""Where code for processors with tile registers is that for AVX-512: nothing to do there twice.

Both are generated for one machine, but for the features of tiles. Where a kernel has no tiles and
the texts are equal, so is the machine code, byte by byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

from teir.backends.llvm.compile_ir import Machine, machine_for
from teir.backends.llvm.control import emit_control
from teir.backends.llvm.emit_kernel import emit_kernel, kernel_symbol
from teir.ir.nodes import Program
from teir.lower.calls import kernels_of
from teir.lower.kernels import Kernel, TileProduct
from teir.lower.lower import lower
from teir.target import Isa

_TILES = "amx-"
"""Begins the name of every feature of tile registers."""


def code_isa(kernel: Kernel, isa: Isa) -> Isa:
    """AVX-512 where ``kernel`` has the same machine code for it as for ``isa``; else ``isa``."""
    if isa is not Isa.AMX or isinstance(kernel, TileProduct) or not _differ_by_tiles_alone():
        return isa
    is_same = kernel_digest(kernel, Isa.AMX) == kernel_digest(kernel, Isa.AVX512)
    return Isa.AVX512 if is_same else isa


def different_variants(program: Program, isas: Sequence[Isa]) -> tuple[Isa, ...]:
    """Those of ``isas`` for which ``program`` does not run the machine code of another of them."""
    if Isa.AVX512 not in isas or not _runs_as_avx512(program):
        return tuple(isas)
    return tuple(isa for isa in isas if isa is not Isa.AMX)


@cache
def kernel_digest(kernel: Kernel, isa: Isa) -> str:
    """A digest of the kernel's text, whatever its symbol."""
    return _digest(emit_kernel(kernel, isa).replace(kernel_symbol(kernel, isa), "kernel"))


def _runs_as_avx512(program: Program) -> bool:
    """True where lowering, kernels and what calls them are for tile registers as for AVX-512."""
    roots = lower(program, Isa.AMX).roots
    if roots != lower(program, Isa.AVX512).roots or not _have_one_control():
        return False
    return all(code_isa(kernel, Isa.AMX) is Isa.AVX512 for kernel in kernels_of(roots))


@cache
def _have_one_control() -> bool:
    return emit_control(Isa.AMX) == emit_control(Isa.AVX512)


@cache
def _differ_by_tiles_alone() -> bool:
    return _without_tiles(machine_for(Isa.AMX)) == _without_tiles(machine_for(Isa.AVX512))


def _without_tiles(machine: Machine) -> tuple[str, str, tuple[str, ...]]:
    features = machine.features.split(",")
    others = tuple(one for one in features if one and not one[1:].startswith(_TILES))
    return machine.triple, machine.cpu, others


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
