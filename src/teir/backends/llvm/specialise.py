"""A whole kernel program as one function: the same loops and kernels with every number folded.

It reads what the table is built from and calls the same kernel bodies with constant arguments, so
both forms have the same bits. Code generation takes tens of milliseconds, so it pays for programs
that are called often or whose kernel calls are shorter than some 50 ns. The function has the
signature of a table node; its table is the one word that points to it.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator

from teir.backends.llvm.compile_ir import LoadedCode, assembly, inlined_text, module_text
from teir.backends.llvm.emit_kernel import emit_body, kernel_symbol
from teir.backends.llvm.library import code_library
from teir.backends.llvm.native import NativeProgram, Root, native_program
from teir.backends.llvm.specialise_ir import PROGRAM, emit_program, specialised_cells
from teir.lower.calls import calls_of
from teir.lower.estimate import estimate_seconds
from teir.lower.kernel_program import Call, KernelNode, KernelProgram, inner_nodes
from teir.lower.kernels import GemmBlock, Kernel, PairBlock, PanelBlock
from teir.runtime import runtime
from teir.target import Isa

MOST_INLINED_LINES = 10_000
"""Kernels of longer text, all their calls together, are called instead of copied to each call.

Code generation takes some 20 microseconds per line.
"""

_SYMBOLS = (PROGRAM,)


def bind_specialised(program: KernelProgram, isa: Isa, threads: int) -> NativeProgram:
    """``program`` as one function; runs like `bind_native`'s result, with the same bits.

    The code is kept on disk as kernels are.
    """
    library = code_library(runtime.current(), isa)
    function, code = load_specialised(program, isa, threads)
    root = Root(array("q", [function]), 0, specialised_cells(program), [library, code])
    seconds = estimate_seconds(calls_of(program.roots))
    return native_program(program, isa, threads, root, library, seconds, None)


def load_specialised(program: KernelProgram, isa: Isa, threads: int) -> tuple[int, LoadedCode]:
    """The address of the program's function, and what keeps it loaded."""
    functions = emit_program(program, isa, threads)
    library = code_library(runtime.current(), isa)
    code = library.program(_SYMBOLS, functions, lambda: kernel_bodies(program, isa))
    return code.addresses[PROGRAM], code


def llvm_text(program: KernelProgram, isa: Isa, threads: int) -> str:
    """The LLVM IR of the specialised program, kernels inlined, as LLVM prints it."""
    return inlined_text(program_text(program, isa, threads), isa, _SYMBOLS, fold=True)


def assembly_text(program: KernelProgram, isa: Isa, threads: int) -> str:
    """The assembly of the specialised program."""
    return assembly(program_text(program, isa, threads), isa, _SYMBOLS, fold=True)


def program_text(program: KernelProgram, isa: Isa, threads: int) -> str:
    """The module of the specialised program before inlining."""
    functions = emit_program(program, isa, threads)
    return module_text([*kernel_bodies(program, isa), functions], isa)


def kernel_bodies(program: KernelProgram, isa: Isa) -> list[str]:
    """The body of every kernel the program calls, to be inlined unless that makes too much code.

    A kernel that is called at one place is always inlined, but for one that fills the registers.
    """
    calls = Counter(_calls(program.roots))
    bodies = {
        kernel: emit_body(kernel, isa, inlined=not fills_registers(kernel, isa)) for kernel in calls
    }
    lines = sum(count * bodies[kernel].count("\n") for kernel, count in calls.items())
    if lines > MOST_INLINED_LINES:
        shared = {kernel for kernel, count in calls.items() if count > 1}
        bodies |= {kernel: emit_body(kernel, isa, inlined=False) for kernel in shared}
    return [bodies[kernel] for kernel in sorted(bodies, key=lambda one: kernel_symbol(one, isa))]


def fills_registers(kernel: Kernel, isa: Isa) -> bool:
    """True for a register block whose sums take half of the registers, in a loop of many steps.

    In another function LLVM keeps some of them in memory, read and written at every pass: blocks of
    3 x 9 took 1.2 to 1.6 times as long as in a table (Golden Cove). A call takes a few nanoseconds.
    """
    match kernel:
        case GemmBlock(depth=None) | PanelBlock() | PairBlock():
            return 2 * kernel.vectors * kernel.columns >= isa.vector_registers
        case _:
            return False


def _calls(nodes: tuple[KernelNode, ...]) -> Iterator[Kernel]:
    """The kernel of every call below ``nodes``."""
    for node in nodes:
        if isinstance(node, Call):
            yield node.kernel
        else:
            yield from _calls(inner_nodes(node))
