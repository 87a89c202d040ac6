"""What a program becomes, as text: its work, the table row of every Contraction, kernels called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import assert_never

from teir.ir.nodes import Program
from teir.lower.kernel_program import (
    BlockLoop,
    Call,
    Grid,
    Guarded,
    KernelNode,
    KernelProgram,
    Loop,
    RowRunLoop,
    RunLoop,
    SparseLoop,
    inner_nodes,
)
from teir.lower.kernel_text import describe_kernel
from teir.lower.kernels import Kernel
from teir.lower.parameters import contraction_parameters
from teir.lower.work import program_work


def explain_lowering(program: Program, kernel_program: KernelProgram) -> str:
    """The work, the rows of Tables 10.6.1 and 10.6.2, the kernel calls, and the scratch memory."""
    work = program_work(program)
    rows = [
        "work",
        f"  {work.flops:,} floating-point operations, "
        f"{work.bytes_read:,} bytes read, {work.bytes_written:,} bytes written",
    ]
    contractions = contraction_parameters(program)
    if contractions:
        rows += ["contractions (Tables 10.6.1 and 10.6.2; strides in elements)"]
        rows += [f"  {parameters}" for parameters in contractions]
    rows += ["kernel calls"]
    calls = count_calls(kernel_program.roots)
    rows += [f"  {count:>12,} × {describe_kernel(kernel)}" for kernel, count in calls.items()]
    grids = [node for node in _nodes(kernel_program.roots) if isinstance(node, Grid)]
    for grid in grids:
        extents = "×".join(str(axis.extent) for axis in grid.axes)
        rows.append(f"  parallel grid of {extents} tasks")
    scratch = kernel_program.run_scratch_bytes, kernel_program.thread_scratch_bytes
    if any(scratch):
        rows += [f"scratch: {scratch[0]:,} bytes, and {scratch[1]:,} bytes for every thread"]
    return "\n".join(rows)


def count_calls(nodes: Iterable[KernelNode], times: int = 1) -> dict[Kernel, int]:
    """How often each kernel is called, guards counted as one pass, most often first.

    A sparse loop counts as one visit: how many there are only the operands tell.
    """
    counter: Counter[Kernel] = Counter()
    stack: list[tuple[KernelNode, int, frozenset[int]]]
    stack = [(node, times, frozenset()) for node in nodes]
    extents: dict[int, int] = {}
    while stack:
        node, count, guarded = stack.pop()
        match node:
            case Call():
                passing = count
                for index in guarded:
                    passing //= extents.get(index, 1)
                counter[node.kernel] += passing
            case Guarded():
                tests = guarded | {test.index for test in node.tests}
                stack.extend((child, count, tests) for child in node.body)
            case SparseLoop() | RunLoop() | RowRunLoop() | BlockLoop():
                stack.extend((child, count, guarded) for child in inner_nodes(node))
            case Loop() | Grid():
                for axis in (node,) if isinstance(node, Loop) else node.axes:
                    count *= axis.extent
                    if axis.index is not None:
                        extents[axis.index] = axis.extent
                stack.extend((child, count, guarded) for child in inner_nodes(node))
            case _:
                assert_never(node)
    return dict(counter.most_common())


def _nodes(roots: Iterable[KernelNode]) -> Iterable[KernelNode]:
    stack = list(roots)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, Call):
            stack.extend(inner_nodes(node))
