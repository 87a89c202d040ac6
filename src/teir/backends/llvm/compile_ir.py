"""LLVM IR text to machine code, and machine code to callable addresses.

LLVM is used as an assembler: no optimisation of the emitted text beyond inlining the bodies that
are marked for it. llvmlite is imported when code is made or loaded, never before.

Executable memory is write-xor-execute: sections are written into readable and writable pages, which
lose the write permission before an address is handed out. Kernels are put there by
`teir.backends.llvm.object_loader`, what it does not take by LLVM's linker and memory manager.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, assert_never

from teir.backends.llvm.object_loader import image_of, mapped, maps_images
from teir.backends.llvm.stored_objects import StoredObject
from teir.runtime.runtime import current
from teir.target import Isa, widest_isa

if TYPE_CHECKING:
    import llvmlite.binding as llvm

_X86 = ("x86_64", "AMD64")
_ARM = ("aarch64", "arm64")
_SYMBOL_TABLE = "teir_symbols"
_MOST_POINTERS = 128
"""Operands of a kernel up to which its code is worth the time: registers hold far fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What code is generated for: LLVM's target triple, processor name and feature string."""

    triple: str
    cpu: str
    features: str


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """Functions in executable memory: addresses by symbol, valid while this value lives."""

    addresses: dict[str, int]
    owner: Any


@cache
def host_isa() -> Isa:
    """The widest instruction set of this machine, by its feature bits."""
    features = _llvm().get_host_cpu_features()
    return widest_isa(platform.machine(), frozenset(name for name, has in features.items() if has))


def runs_here(isa: Isa) -> bool:
    """True when this machine executes code generated for ``isa``."""
    match isa:
        case Isa.AMX:
            return host_isa() is Isa.AMX
        case Isa.AVX512_INTEL | Isa.AVX512_ZEN5 | Isa.AVX512:
            return host_isa().is_avx512
        case Isa.AVX2:
            return host_isa().is_avx512 or host_isa() is Isa.AVX2
        case Isa.NEON:
            return platform.machine() in _ARM
        case Isa.PLAIN:
            return True
        case _:
            assert_never(isa)


_SCHEDULED_FOR = {
    **{isa: "znver4" for isa in Isa if isa.is_avx512},
    Isa.AVX2: "x86-64-v3",
}
"""The processor whose costs LLVM orders instructions by, whatever the host is called.

A virtual machine's name need not be its processor's, and by the costs of some processors (Rocket
Lake) LLVM moves loads so far up that accumulators are spilled; by those of Zen 3 one of the largest
blocks of BF16 is.
"""
_UNUSED_FEATURES = ("avx512fp16",)
"""Half precision is computed in single precision; with its own arithmetic the conversions spill."""
_TILE_FEATURES = ("amx-tile", "amx-bf16", "amx-int8", "amx-fp16", "amx-complex")


@cache
def machine_for(isa: Isa) -> Machine:
    """The machine code for ``isa`` is generated for.

    The host's own features where ``isa`` is the host's, but for its tiles; else those of the
    processor whose costs order its instructions anywhere, or of the least one that has it.
    """
    if isa is host_isa() or (isa is not Isa.AMX and isa.is_avx512 and host_isa().is_avx512):
        binding = _llvm()
        features = binding.get_host_cpu_features()
        unused = _UNUSED_FEATURES if isa is Isa.AMX else (*_UNUSED_FEATURES, *_TILE_FEATURES)
        features.update(dict.fromkeys(unused, False))
        return Machine(
            triple=binding.get_process_triple(),
            cpu=_SCHEDULED_FOR.get(isa) or binding.get_host_cpu_name(),
            features=features.flatten(),
        )
    match isa:
        case Isa.AMX:
            features = "+avx512bf16,+amx-tile,+amx-bf16"
            return Machine(triple=_x86_triple(), cpu=_SCHEDULED_FOR[isa], features=features)
        case Isa.AVX512_INTEL | Isa.AVX512_ZEN5 | Isa.AVX512 | Isa.AVX2:
            return Machine(triple=_x86_triple(), cpu=_SCHEDULED_FOR[isa], features="")
        case Isa.NEON:
            return Machine(triple="aarch64-unknown-linux-gnu", cpu="neoverse-n1", features="")
        case Isa.PLAIN if platform.machine() in _X86:
            return Machine(triple=_x86_triple(), cpu="x86-64", features="")
        case Isa.PLAIN:
            return Machine(triple=_llvm().get_process_triple(), cpu="generic", features="")
        case _:
            assert_never(isa)


@cache
def compiler_version() -> str:
    """The versions of llvmlite and LLVM, part of every key under which code is kept."""
    import llvmlite

    return f"llvmlite {llvmlite.__version__} LLVM {_llvm().llvm_version_info}"


def module_text(functions: Iterable[str], isa: Isa) -> str:
    """One module of the given definitions, every function allowed the full vector width."""
    bits = 8 * isa.vector_bytes
    width = f' "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
    text = "\n".join(functions)
    text = re.sub(r"^(define [^\n]*?) ?\{$", rf"\1{width} {{", text, flags=re.MULTILINE)
    return f'target triple = "{machine_for(isa).triple}"\n\n{text}\n'


def with_symbol_table(text: str, symbols: tuple[str, ...]) -> str:
    """The module plus an array of the addresses of ``symbols``, which `load_object` reads.

    One look-up per object takes the place of one per symbol.
    """
    entries = ", ".join(f"ptr @{symbol}" for symbol in symbols)
    return f"{text}\n@{_SYMBOL_TABLE} = constant [{len(symbols)} x ptr] [{entries}]\n"


def compile_object(text: str, isa: Isa, symbols: tuple[str, ...], *, fold: bool = False) -> bytes:
    """Object code of a module in which ``symbols`` may be looked up by `load_object`.

    Functions that are not in ``symbols`` are private: bodies marked ``alwaysinline`` vanish.
    ``fold`` propagates constants into what was inlined; it changes no bit of any result.
    Raises RuntimeError where LLVM refuses the text.
    """
    # The table keeps what is wanted: with one public name the linker has less to look at.
    module, machine = _prepare(text, isa, symbols, public=(), fold=fold)
    return bytes(machine.emit_object(module))


def assembly(text: str, isa: Isa, symbols: tuple[str, ...], *, fold: bool = False) -> str:
    """The assembly text of a module; arguments as in `compile_object`."""
    module, machine = _prepare(text, isa, symbols, public=symbols, fold=fold)
    return str(machine.emit_assembly(module))


def inlined_text(text: str, isa: Isa, symbols: tuple[str, ...], *, fold: bool = False) -> str:
    """The module as LLVM prints it after inlining; arguments as in `compile_object`."""
    module, _ = _prepare(text, isa, symbols, public=symbols, fold=fold)
    return str(module)


def load_object(data: bytes, symbols: tuple[str, ...]) -> LoadedCode:
    """Put object code into executable memory; ``symbols`` as it was compiled with."""
    image = image_of(data, len(symbols)) if maps_images() else None
    if image is not None:
        (addresses,), pages = mapped((image,))
        return LoadedCode(dict(zip(symbols, addresses, strict=True)), pages)
    return link_object(data, symbols)


def load_images(objects: Sequence[StoredObject]) -> LoadedCode | None:
    """As `load_object` all those objects at once that need no linker; None where all do."""
    images = []
    symbols = []
    for one in objects if maps_images() else ():
        image = image_of(one.data, len(one.symbols))
        if image is not None:
            images.append(image)
            symbols.append(one.symbols)
    if not images:
        return None
    addresses, pages = mapped(images)
    pairs = zip(symbols, addresses, strict=True)
    return LoadedCode({k: v for names, at in pairs for k, v in zip(names, at, strict=True)}, pages)


def link_object(data: bytes, symbols: tuple[str, ...]) -> LoadedCode:
    """As `load_object`, by LLVM's linker whatever the object."""
    builder = _llvm().JITLibraryBuilder()
    builder.add_object_img(data)
    builder.export_symbol(_SYMBOL_TABLE)
    linker = current().once("linker", _new_linker)
    tracker = builder.link(linker, f"teir{os.urandom(8).hex()}")
    pointers = (ctypes.c_uint64 * len(symbols)).from_address(tracker[_SYMBOL_TABLE])
    return LoadedCode(dict(zip(symbols, pointers, strict=True)), (tracker, linker))


def _prepare(
    text: str, isa: Isa, symbols: tuple[str, ...], *, public: tuple[str, ...], fold: bool
) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    binding = _llvm()
    machine = _target_machine(isa, _effort(text))
    module = binding.parse_assembly(with_symbol_table(text, symbols))
    module.verify()
    for function in module.functions:
        if not function.is_declaration and function.name not in public:
            function.linkage = "internal"
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    if fold:
        # Nothing here reorders floating-point operations: the text carries no fast-math flags.
        # Control flow stays: threading known jumps into a block's loop makes accumulators spill.
        passes.add_sccp_pass()
        passes.add_instruction_combine_pass()
        passes.add_dead_code_elimination_pass()
    passes.run(module, binding.create_pass_builder(machine, _tuning()))
    return module, machine


def _effort(text: str) -> int:
    """How hard LLVM tries. Where a loop moves many pointers its time grows with their square."""
    return 0 if f"%operand{_MOST_POINTERS}" in text else 2


def _target_machine(isa: Isa, effort: int = 2) -> llvm.TargetMachine:
    binding = _llvm()
    wanted = machine_for(isa)
    target = binding.Target.from_triple(wanted.triple)
    return target.create_target_machine(
        cpu=wanted.cpu,
        features=wanted.features,
        opt=effort,
        reloc="pic",
        codemodel="small",
    )


def _tuning() -> Any:
    return _llvm().create_pipeline_tuning_options(speed_level=0)


def _x86_triple() -> str:
    if platform.machine() in _X86:
        return str(_llvm().get_process_triple())
    return "x86_64-unknown-linux-gnu"


def _new_linker() -> llvm.LLJIT:
    # JITLink lays one object out in one block, which the small code model relies on.
    return _llvm().create_lljit_compiler(_target_machine(host_isa()), use_jit_link=True)


class _Llvm:
    """llvmlite, initialised. A fork waits until no other thread is inside LLVM.

    llvmlite holds one lock around every call; a child that inherited it taken would hang.
    """

    __slots__ = ("_lock", "binding")

    def __init__(self) -> None:
        import llvmlite.binding as binding

        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        binding.initialize_native_asmparser()
        self.binding = binding
        self._lock = binding.ffi.lib._lock

    def before_fork(self) -> None:
        self._lock.__enter__()

    def after_fork_in_parent(self) -> None:
        self._lock.__exit__(None, None, None)

    def after_fork_in_child(self) -> None:
        self._lock.__exit__(None, None, None)


def _llvm() -> Any:
    return current().once("llvm", _Llvm).binding
