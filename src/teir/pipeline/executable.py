"""From a program to something that runs: check, lower, bind to native code, run.

    program -> check (always) -> kernel program -> table of native code -> run on operands

Native code never runs an unproved program: the proofs that need no operands are made once, when
the program is compiled, and those that need the operands at every run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, assert_never

import numpy as np

from teir.arrays.operand import BoundOperand, bind_operand
from teir.backends.llvm.compile_ir import host_isa
from teir.backends.llvm.native import NativeProgram, bind_native
from teir.errors import ArgumentPlace, Finding, Part, ProgramPlace, Rule, TeirError
from teir.ir.check import Report
from teir.ir.check import check as check_program
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Axis, IterationNode, Policy, Program
from teir.ir.printing import print_program
from teir.lower.kernel_program import KernelProgram
from teir.lower.lower import lower
from teir.runtime.runtime import current
from teir.target import Isa, usable_threads


class Backend(Enum):
    """What runs a program."""

    CPU = "cpu"
    """Native code."""
    REFERENCE = "reference"
    """The evaluator, the definition of what a program means."""


UNKNOWN_BACKEND = Rule(
    code="TEIR701",
    sentence="A backend is one of: " + ", ".join(backend.value for backend in Backend) + ".",
    source="DESIGN 4",
)
DENSE_ONLY = Rule(
    code="TEIR702",
    sentence="Native code runs dense programs; the evaluator runs sparse ones too.",
    source="DESIGN 2, sparse iteration",
)
THREADS = Rule(
    code="TEIR703",
    sentence="The number of threads is a positive integer.",
    source="SAFETY G14",
)
UNKNOWN_OPERAND = Rule(
    code="TEIR704",
    sentence="Every operand given is a tensor of the program.",
    source="section 10.6",
)
PIPELINE_RULES = (UNKNOWN_BACKEND, DENSE_ONLY, THREADS, UNKNOWN_OPERAND)


def check(program: Program, operands: Mapping[str, Any] | None = None) -> Report:
    """Every finding of ``program``: rules, guards, roles, and the proofs that it is safe to run.

    ``operands`` maps each tensor to an array (or `teir.Operand`); with it the proofs cover these
    very buffers. Without it the report says how many bytes each tensor needs. Raises TeirError
    only for a value that is no operand at all.
    """
    if operands is None:
        return check_program(program)
    return check_program(program, _bind(program, operands, _written(program)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable:
    """A checked program bound to native code; immutable, usable from any thread."""

    program: Program
    report: Report
    kernel_program: KernelProgram
    isa: Isa
    threads: int
    native: NativeProgram
    written: frozenset[str]

    def run(self, operands: Mapping[str, Any], timeout: float | None = None) -> None:
        """Run on one contiguous array per tensor; the written ones are changed in place.

        ``timeout`` in seconds. Raises TeirError when an operand does not fit or overlaps another,
        TimeoutError when the time is over (the outputs are then unspecified).
        """
        bound = _bind(self.program, operands, self.written)
        check_program(self.program, bound).raise_if_wrong()
        addresses = tuple(bound[tensor.name].address for tensor in self.program.tensors)
        self.native.run(addresses, timeout)

    def run_addresses(self, addresses: tuple[int, ...], timeout: float | None = None) -> None:
        """Run on base addresses the caller has proved good, in the order of the tensors."""
        self.native.run(addresses, timeout)


def compile_program(
    program: Program,
    *,
    backend: str = "cpu",
    threads: int | None = None,
    isa: Isa | None = None,
) -> Executable:
    """Check ``program``, prove it safe and bind it to native code.

    ``threads`` is the number of threads its ``parallel`` nodes may use, all usable cores by
    default. ``isa`` forces an instruction set, the host's widest by default. Raises TeirError.
    """
    if _backend(backend) is not Backend.CPU:
        raise _refusal(UNKNOWN_BACKEND, "backend", "'cpu' to compile for", repr(backend))
    count = _thread_count(threads)
    report = check_program(program)
    report.raise_if_wrong()
    _refuse_sparse(program)
    target = isa if isa is not None else host_isa()
    kernel_program = lower(program, target)
    native = bind_native(kernel_program, target, count if _is_parallel(program) else 1)
    return Executable(
        program=program,
        report=report,
        kernel_program=kernel_program,
        isa=target,
        threads=count,
        native=native,
        written=_written(program),
    )


def run(
    program: Program,
    operands: Mapping[str, Any],
    *,
    backend: str = "cpu",
    threads: int | None = None,
    timeout: float | None = None,
) -> None:
    """Run ``program`` on ``operands``, one contiguous array per tensor, in place.

    An array has the tensor's type, or is uint8 and then holds the tensor's bytes, whatever its
    shape. Raises TeirError before anything is written, TimeoutError after ``timeout`` seconds.
    """
    match _backend(backend):
        case Backend.CPU:
            compile_program(program, threads=threads).run(operands, timeout)
        case Backend.REFERENCE:
            _run_reference(program, operands)
        case unreachable:
            assert_never(unreachable)


def _run_reference(program: Program, operands: Mapping[str, Any]) -> None:
    bound = _bind(program, operands, _written(program))
    check_program(program, bound).raise_if_wrong()
    memory = {name: _as_bytes(operand) for name, operand in bound.items()}
    evaluate(program, memory, bases={name: one.before_bytes for name, one in bound.items()})


def _as_bytes(operand: BoundOperand) -> np.ndarray[Any, Any]:
    import ctypes

    size = operand.before_bytes + operand.after_bytes
    start = operand.address - operand.before_bytes
    buffer = (ctypes.c_ubyte * size).from_address(start)
    return np.ctypeslib.as_array(buffer)


def _bind(
    program: Program, operands: Mapping[str, Any], written: frozenset[str]
) -> dict[str, BoundOperand]:
    """Every tensor's operand, all refusals collected."""
    names = {tensor.name for tensor in program.tensors}
    findings = [
        Finding(
            rule=UNKNOWN_OPERAND,
            place=ArgumentPlace(name=str(name)),
            expected="one of " + ", ".join(sorted(names)),
            found=repr(name),
        )
        for name in operands
        if name not in names
    ]
    bound: dict[str, BoundOperand] = {}
    for tensor in program.tensors:
        value = operands.get(tensor.name)
        try:
            bound[tensor.name] = bind_operand(
                tensor.name, value, tensor.data_type, writable=tensor.name in written
            )
        except TeirError as error:
            findings += error.findings
    if findings:
        raise TeirError(tuple(findings))
    return bound


def _written(program: Program) -> frozenset[str]:
    return frozenset(primitive.output for primitive in program.primitives)


def _is_parallel(program: Program) -> bool:
    return any(
        isinstance(node, IterationNode) and node.policy is Policy.PARALLEL
        for node in program.nodes()
    )


def _backend(name: str) -> Backend:
    known = {backend.value: backend for backend in Backend}
    if name not in known:
        raise _refusal(UNKNOWN_BACKEND, "backend", " or ".join(map(repr, known)), repr(name))
    return known[name]


def _thread_count(threads: int | None) -> int:
    if threads is None:
        return default_threads()
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise _refusal(THREADS, "threads", "an integer of at least 1", repr(threads))
    return threads


def default_threads() -> int:
    """The cores this process may use, looked up once."""
    return current().once("default threads", lambda: usable_threads(os.environ))


def _refusal(rule: Rule, argument: str, expected: str, found: str) -> TeirError:
    place = ArgumentPlace(name=argument)
    return TeirError((Finding(rule=rule, place=place, expected=expected, found=found),))


def _refuse_sparse(program: Program) -> None:
    sparse = [axis for axis in program.axes if axis.is_sparse]
    if sparse:
        findings = tuple(_sparse_finding(axis) for axis in sparse)
        raise TeirError(print_program(program).blame(findings))


def _sparse_finding(axis: Axis) -> Finding:
    return Finding(
        rule=DENSE_ONLY,
        place=ProgramPlace(part=Part.AXIS, name=axis.name),
        expected="an axis without segments",
        found=f"{len(axis.segments)} segment(s)",
        hint="native code for sparse axes is not there yet: use backend='reference'",
    )
