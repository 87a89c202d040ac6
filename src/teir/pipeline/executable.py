"""From a program to something that runs: check, lower, bind to native code, run.

    program -> check (always) -> kernel program -> table of native code -> run on operands

Native code never runs an unproved program: the proofs that need no operands are made once, when
the program is compiled, and those that need the operands at every run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import isnan
from operator import attrgetter
from sys import float_info
from typing import Any, Literal, assert_never, overload

import msgspec
from msgspec.structs import replace

from teir.arrays.integers import as_integer
from teir.arrays.operand import BoundOperand
from teir.arrays.torch_plain import tell_written
from teir.backends.llvm.background import bind_instant
from teir.backends.llvm.native import NativeProgram
from teir.backends.llvm.specialise import bind_specialised
from teir.backends.llvm.watch import TIMEOUT_RULE
from teir.errors import Finding, Part, ProgramPlace, Rule, TeirError, refuse
from teir.ir.check import Proof, Report, check_operands, prove
from teir.ir.check import check as check_program
from teir.ir.evaluate import evaluate
from teir.ir.nodes import IterationNode, Policy, Program
from teir.ir.printing import print_program
from teir.lower.kernel_program import KernelProgram
from teir.lower.lower import lower
from teir.passes.facts import facts_of
from teir.passes.short_rows import with_short_rows_packed
from teir.pipeline.determinism import checked_determinism
from teir.pipeline.machine_speeds import host
from teir.pipeline.operands import (
    bind_operands,
    bytes_of,
    written_tensors,
)
from teir.pipeline.overlap import bound_apart
from teir.pipeline.process_bound import ProcessBound
from teir.runtime.runtime import current
from teir.target import Isa, host_target
from teir.thread_limits import MOST_THREADS, usable_threads


class Backend(Enum):
    """What runs a program."""

    CPU = "cpu"
    """Native code."""
    REFERENCE = "reference"
    """The evaluator, the definition of what a program means."""


class Form(Enum):
    """The form native code takes; both give the same bits."""

    TABLE = "table"
    """Precompiled blocks, walked by a table: ready at once. A program that runs often is
    specialised in the background."""
    SPECIALISED = "specialised"
    """One function for the whole program, every constant folded: compiled first."""


UNKNOWN_BACKEND = Rule(
    code="TEIR701",
    sentence="A backend is one of: " + ", ".join(backend.value for backend in Backend) + ".",
    source="docs/design.md 4",
)
NO_POSITION_SCRATCH = Rule(
    code="TEIR702",
    sentence="Native code keeps no scratch that is addressed by position; the evaluator does.",
    source="docs/design.md 2, sparse iteration",
)
THREADS = Rule(
    code="TEIR703",
    sentence=f"The number of threads is an integer from 1 to {MOST_THREADS}.",
    source="docs/safety.md G14",
)
PROGRAM = Rule(
    code="TEIR706",
    sentence="A program is a value of type teir.Program, as teir.load and teir.loads return it.",
    source="section 10",
)
KNOWN_FORM = Rule(
    code="TEIR708",
    sentence="The form of native code is teir.Form.TABLE or teir.Form.SPECIALISED.",
    source="docs/design.md 5",
)


def check(program: Program, operands: Mapping[str, Any] | None = None) -> Report:
    """Every finding of ``program``: rules, guards, roles, and the proofs that it is safe to run.

    ``operands`` maps each tensor to an array (or `teir.Operand`); with it the proofs cover these
    very buffers. Without it the report says how many bytes each tensor needs. Raises TeirError
    only for a value that is no operand at all.
    """
    if operands is None:
        return check_program(_program(program))
    return check_program(
        program, bind_operands(_program(program), operands, written_tensors(program))
    )


class Executable(ProcessBound, msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A checked program bound to native code; immutable, usable from any thread."""

    program: Program
    proof: Proof
    kernel_program: KernelProgram
    isa: Isa
    threads: int
    native: NativeProgram
    written: frozenset[str]

    def __repr__(self) -> str:
        return f"<Executable {self.program.name!r}: {self.isa.value}, {self.threads} thread(s)>"

    @property
    def report(self) -> Report:
        """What the check found, and the bytes each tensor needs."""
        return self.proof.report

    @property
    def form(self) -> Form:
        """The form of the code that runs now; a table may become specialised while it runs."""
        return Form.SPECIALISED if self.native.is_specialised else Form.TABLE

    def run(
        self, operands: Mapping[str, Any], timeout: float | None = None, overlap: str = "refuse"
    ) -> None:
        """Run on one contiguous array per tensor; the written ones are changed in place.

        ``timeout`` in seconds. With ``overlap="copy"`` operands that are only read and share bytes
        with written ones are copied first. Raises TeirError when an operand does not fit or
        overlaps another, TimeoutError when the time is over (the outputs are then unspecified).
        """
        if timeout is not None:
            _require_seconds(timeout)
        bound = bound_apart(
            bind_operands(self.program, operands, self.written), self.written, overlap
        )
        check_operands(self.proof, bound).raise_if_wrong()
        addresses = tuple(bound[tensor.name].address for tensor in self.program.tensors)
        self.native.run(addresses, timeout)
        _tell_written(bound, self.written)

    def run_addresses(self, addresses: tuple[int, ...], timeout: float | None = None) -> None:
        """Run on base addresses the caller has proved good, in the order of the tensors."""
        self.native.run(addresses, timeout)

    def specialised(self) -> Executable:
        """The same program as one specialised function, compiled now; it gives the same bits."""
        native = bind_specialised(self.kernel_program, self.isa, self.native.threads)
        return replace(self, native=native)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceExecutable:
    """A checked program run by the evaluator."""

    program: Program
    written: frozenset[str]

    def run(self, operands: Mapping[str, Any], overlap: str = "refuse") -> None:
        """As `Executable.run`, slowly and for sparse programs too."""
        bound = bound_apart(
            bind_operands(self.program, operands, self.written), self.written, overlap
        )
        check_program(self.program, bound).raise_if_wrong()
        memory = {name: bytes_of(operand) for name, operand in bound.items()}
        evaluate(
            self.program, memory, bases={name: one.before_bytes for name, one in bound.items()}
        )
        _tell_written(bound, self.written)


@overload
def compile_for(
    program: Program,
    *,
    backend: Literal["cpu"] = "cpu",
    threads: int | None = None,
    form: Form = Form.TABLE,
    deterministic: str = "runs",
) -> Executable: ...


@overload
def compile_for(
    program: Program,
    *,
    backend: str,
    threads: int | None = None,
    form: Form = Form.TABLE,
    deterministic: str = "runs",
) -> Executable | ReferenceExecutable: ...


def compile_for(
    program: Program,
    *,
    backend: str = "cpu",
    threads: int | None = None,
    form: Form = Form.TABLE,
    deterministic: str = "runs",
) -> Executable | ReferenceExecutable:
    """Check ``program``, prove it safe and make it ready to ``run`` often.

    ``backend`` is "cpu" (native code) or "reference" (the evaluator). ``threads`` is how many
    threads its ``parallel`` nodes may use, all usable cores by default. Native code runs the
    program as it is written, but for short rows that it copies first where the third cache is far,
    with tiles of the result in an order for them (`teir.passes.short_rows`;
    ``Executable.program`` shows both). The order of every sum is the program's, so a program gives
    the same bits on any number of threads: both modes of ``deterministic`` ("runs", "threads")
    hold. Raises TeirError.
    """
    checked_determinism(deterministic)
    match _backend(backend):
        case Backend.CPU:
            return compile_program(program, threads=threads, form=form, packs_short_rows=True)
        case Backend.REFERENCE:
            thread_count(threads)
            check_program(_program(program)).raise_if_wrong()
            return ReferenceExecutable(program=program, written=written_tensors(program))
        case unreachable:
            assert_never(unreachable)


def compile_program(
    program: Program,
    *,
    threads: int | None = None,
    isa: Isa | None = None,
    form: Form = Form.TABLE,
    packs_short_rows: bool = False,
) -> Executable:
    """As `compile_for` for native code; ``isa`` forces an instruction set (else `default_isa`).

    ``packs_short_rows``: for programs nobody has chosen for this machine. Raises TeirError.
    """
    count = thread_count(threads)
    proof = prove(_program(program))
    proof.report.raise_if_wrong()
    _refuse_position_scratch(program)
    if packs_short_rows:
        program, proof = _with_short_rows_packed(program, proof, count)
    target = isa if isa is not None else default_isa()
    kernel_program = lower(program, target, proof.report.needs)
    bind = _binder(form)
    return Executable(
        program=program,
        proof=proof,
        kernel_program=kernel_program,
        isa=target,
        threads=count,
        native=bind(kernel_program, target, count if count == 1 or _is_parallel(program) else 1),
        written=written_tensors(program),
    )


def _with_short_rows_packed(program: Program, proof: Proof, threads: int) -> tuple[Program, Proof]:
    """The program with the copies that pay on this machine, proved anew; else the one given."""
    packed = with_short_rows_packed(program, facts_of(host(), threads=threads))
    if packed is program:
        return program, proof
    again = prove(packed)
    return (program, proof) if again.report.findings else (packed, again)


def run(
    program: Program,
    operands: Mapping[str, Any],
    *,
    backend: str = "cpu",
    threads: int | None = None,
    timeout: float | None = None,
    overlap: str = "refuse",
) -> None:
    """Run ``program`` on ``operands``, one contiguous array per tensor, in place.

    An array has the tensor's type, or is uint8 and then holds the tensor's bytes, whatever its
    shape. Operands that overlap written ones are refused, or with ``overlap="copy"`` copied first
    where they are only read. Raises TeirError before anything is written, TimeoutError after
    ``timeout`` seconds of native code.
    """
    if _backend(backend) is Backend.CPU:
        # What packing saves in one run is less than what it takes to prepare.
        compile_program(program, threads=threads).run(operands, timeout, overlap)
        return
    compile_for(program, backend=backend, threads=threads).run(operands, overlap=overlap)


def _tell_written(bound: Mapping[str, BoundOperand], written: frozenset[str]) -> None:
    for name in written:
        if name in bound:
            tell_written(bound[name].owner)


def _program(program: Program) -> Program:
    if not isinstance(program, Program):
        refuse(PROGRAM, "program", "a teir.Program", type(program).__name__)
    return program


def _is_parallel(program: Program) -> bool:
    return any(
        isinstance(node, IterationNode) and node.policy is Policy.PARALLEL
        for node in program.nodes()
    )


def _backend(name: str) -> Backend:
    known = {backend.value: backend for backend in Backend}
    if not isinstance(name, str) or name not in known:
        refuse(UNKNOWN_BACKEND, "backend", " or ".join(map(repr, known)), repr(name))
    return known[name]


def thread_count(threads: int | None) -> int:
    """How many threads to use: as asked for, else every usable core. Raises TeirError (TEIR703)."""
    if threads is None:
        return default_threads()
    if type(threads) is int and 0 < threads <= MOST_THREADS:
        return threads
    count = None if isinstance(threads, bool) else as_integer(threads)
    if count is None or not 1 <= count <= MOST_THREADS:
        refuse(THREADS, "threads", f"an integer from 1 to {MOST_THREADS}", repr(threads))
    return count


def _require_seconds(timeout: float) -> None:
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if is_number and abs(timeout) > float_info.max and not isinstance(timeout, float):
        refuse(TIMEOUT_RULE, "timeout", "a number of seconds", "an integer that no float holds")
    if not is_number or isnan(timeout):
        refuse(TIMEOUT_RULE, "timeout", "a number of seconds", repr(timeout))


def require_form(form: object) -> None:
    """Refuse what is no form of native code. Raises TeirError (TEIR708)."""
    if not isinstance(form, Form):
        refuse(KNOWN_FORM, "form", "a teir.Form", repr(form))


def _binder(form: Form) -> Callable[[KernelProgram, Isa, int], NativeProgram]:
    match form:
        case Form.TABLE:
            return bind_instant
        case Form.SPECIALISED:
            return bind_specialised
        case _:
            require_form(form)
            assert_never(form)


def default_isa() -> Isa:
    """The host's widest instruction set, or the one the variable TEIR_ISA names; looked up once.

    Raises TeirError (TEIR801) where the machine does not have that one.
    """
    return current().once("default isa", lambda: host_target(os.environ).isa)


def default_threads() -> int:
    """The cores this process may use, looked up once."""
    return current().once("default threads", lambda: usable_threads(os.environ))


def _refuse_position_scratch(program: Program) -> None:
    """How many positions there are only the operands tell, and scratch is laid out before."""
    if not any(map(attrgetter("segments"), program.axes)):
        return
    operands = {tensor.name for tensor in program.tensors}
    findings = tuple(
        Finding(
            rule=NO_POSITION_SCRATCH,
            place=ProgramPlace(part=Part.AXIS, name=axis.name),
            expected="operands only in by_position",
            found=f"scratch {name}",
            hint="give the tensor as an operand, or use backend='reference'",
        )
        for axis in program.axes
        for segment in axis.segments
        for name in segment.by_position
        if name not in operands
    )
    if findings:
        raise TeirError(print_program(program).blame(findings))
