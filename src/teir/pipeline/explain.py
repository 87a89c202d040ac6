"""What a plan does, for people: route, operands, copies, steps, program, kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from teir.backends.llvm.compile_ir import assembly, inlined_text, module_text
from teir.backends.llvm.emit_kernel import emit_kernel, kernel_symbol
from teir.backends.llvm.library import leaf_symbol
from teir.backends.llvm.specialise import assembly_text, llvm_text
from teir.ir.printing import print_program
from teir.lower.kernel_program import Call, KernelNode
from teir.lower.kernels import Kernel
from teir.lower.parameters import contraction_parameters
from teir.pipeline.executable import Executable, Form, require_form
from teir.pipeline.explain_choice import explain_choice, explain_time
from teir.pipeline.operand_types import OperandType
from teir.pipeline.plan import Plan
from teir.pipeline.problem import Route


def explain_plan(plan: Plan, measure: bool) -> str:
    """The whole story of a plan as text; with ``measure`` the time it takes too."""
    problem = plan.problem
    lines = [f"einsum {problem.subscripts}"]
    for place, operand in enumerate(problem.operands):
        lines.append(f"  operand {place}: {_operand_text(operand)}")
    lines.append(f"  out: {_operand_text(problem.out)}")
    lines += [f"  note: {note}" for note in problem.notes]
    if problem.route is not Route.NATIVE or plan.executable is None:
        lines.append(f"  computed by: {'NumPy' if problem.route is Route.NUMPY else 'filling'}")
        return "\n".join(lines)
    executable = plan.executable
    lines.append(f"  computed by: native code ({executable.isa.value}), {plan.threads} thread(s)")
    lines += _tree_lines(plan)
    lines += explain_time(plan, measure)
    lines += explain_choice(plan)
    lines.append("steps (products formed):")
    lines += [
        f"  {place}. {step.text}  ({step.products:,})"
        for place, step in enumerate(plan.steps, start=1)
    ]
    lines.append("contractions (Tables 10.6.1 and 10.6.2):")
    lines += [f"  {row}" for row in contraction_parameters(executable.program)]
    lines.append("kernels:")
    lines += [f"  {kernel_symbol(kernel, executable.isa)}" for kernel in _kernels(executable)]
    lines.append("program:")
    lines += [f"  {line}" for line in print_program(executable.program).text.splitlines()]
    return "\n".join(lines)


def _tree_lines(plan: Plan) -> list[str]:
    """Memory, slices, and what the layouts of the intermediates cost by the model."""
    executable, chosen = plan.executable, plan.chosen
    assert executable is not None
    assert chosen is not None
    tree = chosen.tree
    program = executable.kernel_program
    uses = [
        f"{program.run_scratch_bytes:,} of scratch",
        f"{program.thread_scratch_bytes:,} for each thread",
    ]
    if plan.problem.copied_bytes:
        uses.append(f"{plan.problem.copied_bytes:,} of copied operands")
    lines = [f"  memory: {plan.memory_bytes:,} bytes at most ({', '.join(uses)})"]
    why = "as the tree says" if plan.memory_limit is None else "to stay within the memory limit"
    lines += [
        f"  sliced: {index} in blocks of {block}, {why}" for index, block in tree.slices.items()
    ]
    if tree.fused is not None:
        blocks = ", ".join(f"{index} in blocks of {block}" for index, block in tree.fused.blocks)
        lines.append(f"  fused: steps of index {blocks}, so that their results stay in the caches")
    if tree.cycles is not None and tree.written_cycles is not None:
        lines.append(
            f"  layouts: {tree.cycles:,.0f} cycles by the model, {tree.written_cycles:,.0f} as "
            "written"
        )
    return lines


def _operand_text(operand: OperandType) -> str:
    text = f"{operand.dtype} of shape {operand.shape}"
    if len(operand.strides_bytes) != len(operand.shape):
        return text
    return f"{text}, strides {operand.strides_bytes} bytes"


def plan_llvm(executable: Executable, form: Form) -> str:
    """The LLVM IR of one form of the program, as LLVM prints it after inlining.

    Raises TeirError (TEIR708).
    """
    require_form(form)
    match form:
        case Form.SPECIALISED:
            native = executable.native
            return llvm_text(native.program, native.isa, native.threads)
        case Form.TABLE:
            text, symbols = _module(executable)
            return inlined_text(text, executable.isa, symbols)
        case _:
            assert_never(form)


def plan_assembly(executable: Executable, form: Form) -> str:
    """The assembly text of one form of the program. Raises TeirError (TEIR708)."""
    require_form(form)
    match form:
        case Form.SPECIALISED:
            native = executable.native
            return assembly_text(native.program, native.isa, native.threads)
        case Form.TABLE:
            text, symbols = _module(executable)
            return assembly(text, executable.isa, symbols)
        case _:
            assert_never(form)


def _module(executable: Executable) -> tuple[str, tuple[str, ...]]:
    """The kernels a table calls, and their symbols."""
    kernels = _kernels(executable)
    isa = executable.isa
    symbols = tuple(leaf_symbol(kernel, isa) for kernel in kernels)
    return module_text([emit_kernel(kernel, isa) for kernel in kernels], isa), symbols


def _kernels(executable: Executable) -> tuple[Kernel, ...]:
    """Every kernel the program calls, once, in program order."""
    return tuple(dict.fromkeys(_called(executable.kernel_program.roots)))


def _called(nodes: Iterable[KernelNode]) -> Iterator[Kernel]:
    for node in nodes:
        if isinstance(node, Call):
            yield node.kernel
        else:
            yield from _called(node.body)
