"""Figure 7: every kernel with every remainder, its operands against inaccessible pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, assert_never

from teir.backends.llvm.emit_kernel import kernel_symbol
from teir.dtypes import DataType
from teir.ir.nodes import Operation, Program
from teir.lower.kernel_program import Call, KernelNode
from teir.soak.kernel_programs import Family, family_program, kernel_families
from teir.soak.operands import Image, differences, draw_images, tight_images
from teir.soak.pages import GuardedOperands
from teir.soak.running import as_operands, compiled, evaluated, host_variants
from teir.soak.same_code import different_variants
from teir.soak.special_programs import Special, special_program, special_programs
from teir.soak.stored_images import stored_images
from teir.soak.walked_programs import Scatter, Walk, walk_program, walks

_LARGEST = 3
"""Numbers so small that sums are exact in every type; of BF16, sums of sums, they are 1 at most."""

Case = Family | Special
"""What gives a program for every remainder."""


def kernel_cases() -> tuple[Case, ...]:
    """Families of single invocations, then programs for kernels that need more."""
    return (*kernel_families(), *special_programs())


def case_program(case: Case, remainder: int) -> Program:
    """The program of ``case`` in which one extent follows ``remainder``."""
    match case:
        case Family():
            return family_program(case, remainder)
        case Special():
            return special_program(case, remainder)
        case _:
            assert_never(case)


@cache
def pressed_cases() -> tuple[Case | Walk | Scatter, ...]:
    """What is run between inaccessible pages: all of them, and programs that walk fibres."""
    return (*kernel_cases(), *walks())


def press_one(item: int, remainders: int) -> dict[str, Any]:
    """Run one case with 1 to ``remainders`` elements on every instruction set, at both ends.

    Where the machine code for tile registers is that for AVX-512, it runs once.
    """
    case = pressed_cases()[item]
    symbols: set[str] = set()
    wrong: list[str] = []
    runs = 0
    for remainder in range(1, remainders + 1):
        program, images = _program_and_images(case, remainder)
        expected = evaluated(program, images)
        pages = GuardedOperands(images)
        for isa in different_variants(program, host_variants()):
            executable = compiled(program, isa, 1)
            calls = _calls(executable.kernel_program.roots)
            symbols.update(kernel_symbol(call.kernel, isa) for call in calls)
            for at_end in (True, False):
                ours = pages.placed(at_end=at_end)
                executable.run(as_operands(ours))
                runs += 1
                wrong += [
                    f"{case}, {isa.value}, {remainder} elements: {text}"
                    for text in differences(ours, expected)
                ]
    return {"kernels": sorted(symbols), "runs": runs, "wrong": wrong[:3]}


def _program_and_images(
    case: Case | Walk | Scatter, remainder: int
) -> tuple[Program, dict[str, Image]]:
    match case:
        case Walk() | Scatter():
            program = walk_program(case, remainder)
            is_narrow = any(one.data_type is DataType.BF16 for one in program.tensors)
            return program, stored_images(program, remainder, 1 if is_narrow else _LARGEST)
        case Family() | Special():
            divides = isinstance(case, Family) and case.operation is Operation.DIV
            divisors = frozenset({"in1"} if divides else ())
            program = case_program(case, remainder)
            drawn = draw_images(program, remainder, _LARGEST, divisors)
            return program, tight_images(drawn, program)
        case _:
            assert_never(case)


def _calls(nodes: Iterable[KernelNode]) -> Iterator[Call]:
    for node in nodes:
        if isinstance(node, Call):
            yield node
        else:
            yield from _calls(node.body)
