"""How many kernels a kernel program calls in one run."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import assert_never

from teir.lower.kernel_program import (
    BlockLoop,
    Call,
    Grid,
    Guarded,
    KernelNode,
    Loop,
    RowRunLoop,
    RunLoop,
    SparseLoop,
)


def calls_below(nodes: Iterable[KernelNode]) -> int:
    """Kernel calls of one run of ``nodes``, guards counted as always passing."""
    calls = 0
    for node in nodes:
        match node:
            case Call():
                calls += 1
            case Loop():
                calls += node.extent * calls_below(node.body)
            case Grid():
                calls += prod(axis.extent for axis in node.axes) * calls_below(node.body)
            case SparseLoop():
                calls += node.extent * calls_below(node.body)
            case Guarded() | RunLoop() | RowRunLoop() | BlockLoop():
                calls += calls_below(node.body)
            case _:
                assert_never(node)
    return calls
