"""What a program becomes, as text: its work, the table row of every Contraction, kernels called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import assert_never

from teir.ir.nodes import Program
from teir.lower.kernel_program import (
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
from teir.lower.kernels import (
    BatchBlock,
    DotRows,
    Elementwise,
    GemmBlock,
    Kernel,
    LaneBlock,
    PanelBlock,
    PermuteCopy,
    ProductSum,
    RowSweep,
    RunCopy,
    TransposeCopy,
)
from teir.lower.parameters import contraction_parameters
from teir.lower.walked_kernels import WalkedDots, WalkedSampledSum, WalkedScatter, WalkedSum
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
            case SparseLoop() | RunLoop() | RowRunLoop():
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


def describe_kernel(kernel: Kernel) -> str:
    """A kernel in one line: shape of its block, types, how it reaches memory."""
    match kernel:
        case GemmBlock():
            rows = f"{kernel.vectors * kernel.lanes}" + ("-" if kernel.masked else "")
            access = f"A {kernel.a_access.value}, C {kernel.c_access.value}"
            return (
                f"GemmBlock {kernel.in_type.value} {rows}×{kernel.columns} "
                f"({kernel.vectors} vectors of {kernel.lanes} × {kernel.columns} columns; {access}"
                f"{', masked' if kernel.masked else ''}{', brings A' if kernel.brings else ''})"
            )
        case PanelBlock():
            ends = " in runs" if kernel.runs > 1 else ""
            flags = [
                word
                for word, is_set in (
                    ("streams", kernel.streams),
                    ("brings A", kernel.brings),
                    ("brings B", kernel.brings_b),
                    ("claims C", kernel.claims),
                )
                if is_set
            ]
            return (
                f"PanelBlock {kernel.data_type.value} {kernel.rows}×{kernel.columns} "
                f"({', '.join((f'{kernel.vectors} vectors of {kernel.lanes}{ends}', *flags))})"
            )
        case ProductSum():
            accesses = ", ".join(access.value for access in kernel.accesses)
            return (
                f"ProductSum {kernel.in_type.value} of {kernel.inputs} "
                f"{'input' if kernel.inputs == 1 else 'inputs'} "
                f"({kernel.lanes} lanes; {accesses})"
            )
        case DotRows():
            accesses = ", ".join(access.value for access in kernel.accesses)
            return (
                f"DotRows {kernel.in_type.value} {kernel.rows} at once "
                f"({kernel.chains} chains in vectors of {kernel.lanes}; {accesses})"
            )
        case WalkedSum():
            inputs = ", ".join(
                f"{one.access.value} by {one.follows.value}" for one in kernel.inputs
            )
            aligned = ", in whole lines" if kernel.aligns is not None else ""
            fibre = "a fibre" if kernel.rows is None else "the fibre of every row"
            return (
                f"WalkedSum {kernel.in_type.value} over {fibre}, {kernel.vectors} vectors of "
                f"{kernel.lanes} × {kernel.columns} ({inputs}{aligned})"
            )
        case WalkedDots():
            scaled = ", scaled" if kernel.scales else ""
            aligned = ", in whole lines" if kernel.aligns else ""
            fibre = "a fibre" if kernel.rows is None else "the fibre of every row"
            return (
                f"WalkedDots {kernel.data_type.value} over {fibre}, {kernel.vectors} vectors of "
                f"{kernel.lanes} ({kernel.chains} chains{scaled}{aligned})"
            )
        case WalkedSampledSum():
            scaled = ", scaled" if kernel.scales else ""
            fibre = "a fibre" if kernel.rows is None else "the fibre of every row"
            return (
                f"WalkedSampledSum {kernel.data_type.value} over {fibre}, dots of "
                f"{kernel.dot_vectors} and sums of {kernel.vectors} vectors of {kernel.lanes}"
                f"{scaled}"
            )
        case WalkedScatter():
            inputs = ", ".join(
                f"{one.access.value} by {one.follows.value}" for one in kernel.inputs
            )
            verb = "adds" if kernel.accumulates else "stores"
            return (
                f"WalkedScatter {kernel.data_type.value} {verb} by {kernel.output.value}, "
                f"{kernel.vectors} vectors of {kernel.lanes} ({inputs or 'zeros'})"
            )
        case RowSweep():
            return f"RowSweep {kernel.data_type.value} {kernel.rows} rows ({kernel.lanes} lanes)"
        case BatchBlock():
            rows = f"{kernel.vectors * kernel.lanes}" + ("-" if kernel.masked else "")
            return (
                f"BatchBlock {kernel.in_type.value} {rows}×{kernel.columns}×{kernel.depth} "
                f"({kernel.vectors} vectors of {kernel.lanes})"
            )
        case LaneBlock():
            return (
                f"LaneBlock {kernel.in_type.value} {kernel.rows}×{kernel.columns} "
                f"({kernel.lanes} lanes)"
            )
        case Elementwise():
            accesses = ", ".join(access.value for access in kernel.accesses)
            types = kernel.out_type.value
            if kernel.in_type is not kernel.out_type:
                types = f"{kernel.in_type.value} to {types}"
            asks = "; asks ahead" if kernel.brings else ""
            return f"{kernel.operation.value} {types} ({kernel.lanes} lanes; {accesses}{asks})"
        case TransposeCopy():
            return (
                f"TransposeCopy of {kernel.element_bytes}-byte elements "
                f"({kernel.lanes}×{kernel.lanes} in registers)"
            )
        case PermuteCopy():
            return (
                f"PermuteCopy of {kernel.element_bytes}-byte elements "
                f"({kernel.lanes}×{kernel.lanes} in registers, tiles written in lines)"
            )
        case RunCopy():
            return (
                f"RunCopy of {kernel.element_bytes}-byte elements "
                f"(vectors of {kernel.lanes}, tiles written in lines)"
            )
        case _:
            assert_never(kernel)
