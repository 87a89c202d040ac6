"""Figure 15: the machine code of every kernel, audited.

The kernels are those that the guard-page runs of figure 7 reach with as many elements, and those
that long rows reach.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from teir.backends.llvm.compile_ir import compile_object, module_text
from teir.backends.llvm.emit_kernel import emit_kernel
from teir.backends.llvm.library import leaf_symbol
from teir.ir.nodes import Program
from teir.lower.calls import kernels_of
from teir.lower.kernels import Kernel
from teir.lower.lower import lower
from teir.soak.code_audit import audit
from teir.soak.code_object import object_functions
from teir.soak.kernel_pages import Case, case_program, kernel_cases
from teir.soak.same_code import code_isa
from teir.soak.walked_programs import Scatter, Walk, long_walks, walk_program, walks
from teir.target import Isa

AUDITED_ISAS = (
    Isa.AMX,
    Isa.AVX512_INTEL,
    Isa.AVX512_ZEN5,
    Isa.AVX512,
    Isa.AVX2,
    Isa.PLAIN,
)
"""Instruction sets whose code is x86-64; compiled for, not run, so that any machine will do."""


@cache
def audit_cases() -> tuple[Case | Walk | Scatter, ...]:
    """Whatever gives a program for every remainder."""
    return (*kernel_cases(), *walks(), *long_walks())


def audit_items() -> int:
    """The number of items: cases times instruction sets."""
    return len(audit_cases()) * len(AUDITED_ISAS)


def audit_one(item: int, remainders: int) -> dict[str, Any]:
    """Audit the kernels of one case on one instruction set with 1 to ``remainders`` elements."""
    isa = AUDITED_ISAS[item % len(AUDITED_ISAS)]
    case = audit_cases()[item // len(AUDITED_ISAS)]
    kernels: set[Kernel] = set()
    for remainder in range(1, remainders + 1):
        kernels |= kernels_of(lower(program_of_case(case, remainder), isa).roots)
    symbols = {leaf_symbol(kernel, isa): kernel for kernel in kernels}
    wrong = []
    for symbol in sorted(symbols):
        wrong += [f"{symbol}: {text}" for text in audit_kernel(symbols[symbol], isa)]
    return {"kernels": sorted(symbols), "runs": len(symbols), "wrong": wrong[:3]}


def program_of_case(case: Case | Walk | Scatter, remainder: int) -> Program:
    """The program of ``case`` in which one extent follows ``remainder``."""
    match case:
        case Walk() | Scatter():
            return walk_program(case, remainder)
        case _:
            return case_program(case, remainder)


@cache
def audit_kernel(kernel: Kernel, isa: Isa) -> tuple[str, ...]:
    """What is outside the allowed set in the leaf function of ``kernel``."""
    same = code_isa(kernel, isa)
    if same is not isa:
        return audit_kernel(kernel, same)
    symbol = leaf_symbol(kernel, isa)
    data = compile_object(module_text([emit_kernel(kernel, isa)], isa), isa, (symbol,))
    functions = object_functions(data)
    if [function.name for function in functions] != [symbol]:
        return (f"its object holds {', '.join(function.name for function in functions)}",)
    return tuple(audit(functions[0]))
