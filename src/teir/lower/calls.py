"""The kernel calls of a kernel program, and how often a run makes each: one walk for all who count.

Counts are rough where no number tells: guards pass, and loops over stored elements are of usual
length.
"""

from __future__ import annotations

from math import prod

from teir.lower.kernel_program import (
    Call,
    Grid,
    KernelNode,
    Loop,
    SparseLoop,
    inner_nodes,
)
from teir.lower.kernels import Kernel

USUAL_FIBRE = 32
"""Visits of a sparse loop, whose length no count tells."""


def calls_of(nodes: tuple[KernelNode, ...]) -> list[tuple[Call, int]]:
    """Every call below ``nodes`` and how often one run makes it; 0 for bodies run rarely."""
    found: list[tuple[Call, int]] = []
    waiting = [(nodes, 1)]
    while waiting:
        siblings, times = waiting.pop()
        for node in siblings:
            if isinstance(node, Call):
                found.append((node, times))
            elif isinstance(node, Loop):
                waiting.append((node.body, times * node.extent))
            else:
                waiting += _inside(node, times)
    return found


def _inside(node: KernelNode, times: int) -> list[tuple[tuple[KernelNode, ...], int]]:
    """The bodies of a node that is no plain loop, and how often each runs."""
    assert not isinstance(node, Call)
    rare = inner_nodes(node)[len(node.body) :]
    if isinstance(node, Grid):
        times *= prod([axis.extent for axis in node.axes])
    elif isinstance(node, SparseLoop):
        times *= min(node.extent, USUAL_FIBRE)
    return [(node.body, times), (rare, 0)] if rare else [(node.body, times)]


def kernels_of(nodes: tuple[KernelNode, ...]) -> set[Kernel]:
    """Every kernel called below ``nodes``."""
    return {call.kernel for call, _ in calls_of(nodes)}
