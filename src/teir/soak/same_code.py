"""Where code for one kind of AVX-512 processor is that for another: nothing to do there twice.

All are generated for one machine, but for the features of tiles. Where a kernel has no tiles and
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
from teir.lower.kernels import Kernel
from teir.lower.lower import lower
from teir.lower.tile_kernels import TileProduct
from teir.target import Isa

_TILES = "amx-"
"""Begins the name of every feature of tile registers."""


_KINDS = (Isa.AVX512, Isa.AVX512_ZEN5, Isa.AVX512_INTEL, Isa.AMX)
"""The kinds whose code may be the same, those with fewest ways of their own first."""


def code_isa(kernel: Kernel, isa: Isa) -> Isa:
    """The first of the kinds for which ``kernel`` has the same machine code as for ``isa``."""
    if isa not in _KINDS or isinstance(kernel, TileProduct):
        return isa
    digest = kernel_digest(kernel, isa)
    alike = (one for one in _before(isa) if kernel_digest(kernel, one) == digest)
    return next(alike, isa)


def different_variants(program: Program, isas: Sequence[Isa]) -> tuple[Isa, ...]:
    """Those of ``isas`` for which ``program`` does not run the machine code of another of them."""
    return tuple(isa for isa in isas if not _runs_as_another(program, isa, isas))


@cache
def kernel_digest(kernel: Kernel, isa: Isa) -> str:
    """A digest of the kernel's text, whatever its symbol."""
    return _digest(emit_kernel(kernel, isa).replace(kernel_symbol(kernel, isa), "kernel"))


def _before(isa: Isa) -> tuple[Isa, ...]:
    """The kinds before ``isa`` that code is generated for with the same features, but for tiles."""
    if isa not in _KINDS:
        return ()
    return tuple(one for one in _KINDS[: _KINDS.index(isa)] if _differ_by_tiles_alone(one, isa))


def _runs_as_another(program: Program, isa: Isa, isas: Sequence[Isa]) -> bool:
    return any(_run_alike(program, one, isa) for one in _before(isa) if one in isas)


def _run_alike(program: Program, before: Isa, isa: Isa) -> bool:
    """True where lowering, kernels and what calls them are for ``isa`` as for the one before it."""
    roots = lower(program, isa).roots
    if roots != lower(program, before).roots or not _have_one_control(before, isa):
        return False
    return all(code_isa(one, isa) is code_isa(one, before) for one in kernels_of(roots))


@cache
def _have_one_control(before: Isa, isa: Isa) -> bool:
    return emit_control(before) == emit_control(isa)


@cache
def _differ_by_tiles_alone(before: Isa, isa: Isa) -> bool:
    return _without_tiles(machine_for(before)) == _without_tiles(machine_for(isa))


def _without_tiles(machine: Machine) -> tuple[str, str, tuple[str, ...]]:
    features = machine.features.split(",")
    others = tuple(one for one in features if one and not one[1:].startswith(_TILES))
    return machine.triple, machine.cpu, others


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
