"""What runs once for several kinds of processor is the same machine code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from teir.backends.llvm import compile_ir, emit_pairs
from teir.backends.llvm.compile_ir import Machine, compile_object, machine_for, module_text
from teir.backends.llvm.emit_kernel import emit_kernel, kernel_symbol
from teir.lower.calls import kernels_of
from teir.lower.kernels import Kernel
from teir.lower.lower import lower
from teir.lower.tile_kernels import TileProduct
from teir.soak import same_code
from teir.soak.kernel_corpus import audit_cases, program_of_case
from teir.soak.same_code import code_isa, different_variants
from teir.target import Isa

ALL = (Isa.AMX, Isa.AVX512_INTEL, Isa.AVX512_ZEN5, Isa.AVX512, Isa.AVX2, Isa.PLAIN)
KINDS = ALL[:4]
PROGRAMS = [program_of_case(case, 24) for case in audit_cases()[::11]]
KERNELS = {one for program in PROGRAMS for one in kernels_of(lower(program, Isa.AMX).roots)}


def without_tiles(isa: Isa) -> Machine:
    """The machine of `Isa.AMX`, for other kinds without tiles, as on a host that has them."""
    machine = machine_for(Isa.AMX)
    if isa is Isa.AMX:
        return machine
    features = (one for one in machine.features.split(",") if "amx-" not in one)
    return replace(machine, features=",".join(features))


@pytest.fixture
def one_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in (same_code, compile_ir, emit_pairs):
        monkeypatch.setattr(module, "machine_for", without_tiles)
    _forget_machines()
    yield
    _forget_machines()


def _forget_machines() -> None:
    for remembered in (same_code._differ_by_tiles_alone, same_code.kernel_digest):
        remembered.cache_clear()


def object_of(kernel: Kernel, isa: Isa) -> bytes:
    text = emit_kernel(kernel, isa).replace(kernel_symbol(kernel, isa), "kernel")
    return compile_object(module_text([text], isa), isa, ("kernel_node",))


@pytest.mark.usefixtures("one_host")
def test_kernels_of_one_code_have_one_object() -> None:
    once = {isa: [one for one in KERNELS if code_isa(one, Isa.AMX) is isa] for isa in KINDS}
    assert len(once[Isa.AVX512]) > len(KERNELS) // 2
    assert once[Isa.AVX512_INTEL]
    assert all(isinstance(one, TileProduct) for one in once[Isa.AMX])
    for isa in KINDS[1:]:
        for kernel in sorted(once[isa], key=str)[::7]:
            assert object_of(kernel, Isa.AMX) == object_of(kernel, isa), kernel


@pytest.mark.usefixtures("one_host")
def test_programs_run_for_a_kind_where_a_kernel_or_the_lowering_is_another() -> None:
    once = different_variants(PROGRAMS[0], ALL)
    assert once == (Isa.AVX512, Isa.AVX2, Isa.PLAIN)
    apart = dict.fromkeys(KINDS[:-1], 0)
    for program in PROGRAMS:
        roots = {isa: lower(program, isa).roots for isa in KINDS}
        codes = {isa: {code_isa(one, isa) for one in kernels_of(roots[isa])} for isa in KINDS}
        found = different_variants(program, ALL)
        assert found[-3:] == ALL[3:]
        for place, isa in enumerate(KINDS[:-1]):
            others = KINDS[place + 1 :]
            apart[isa] += isa in found
            assert (
                isa in codes[isa]
                or all(roots[isa] != roots[one] for one in others)
                or (isa not in found)
            )
    assert all(0 < count < len(PROGRAMS) for count in apart.values()), apart


@pytest.mark.usefixtures("one_host")
def test_kernels_with_tiles_are_their_own() -> None:
    """Their texts do not depend on the instruction set, but no other processor runs them."""
    tiles = [one for one in KERNELS if "tilezero" in emit_kernel(one, Isa.AMX)]
    assert tiles
    assert all(isinstance(one, TileProduct) for one in tiles)
    assert all(code_isa(one, Isa.AMX) is Isa.AMX for one in tiles)


def test_nothing_is_left_out_where_the_machines_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_code, "_differ_by_tiles_alone", lambda *_: False)
    assert all(different_variants(program, ALL) == ALL for program in PROGRAMS)
    assert different_variants(PROGRAMS[0], ALL[1:]) == ALL[1:]
