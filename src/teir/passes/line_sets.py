"""In how many sets of the first cache the rows of an operand lie."""

from __future__ import annotations

from math import gcd

from teir.target import LINE_BYTES, PAGE_BYTES

SETS = PAGE_BYTES // LINE_BYTES
"""Of a first-level cache: lines 4096 bytes apart share one."""


def lines_of_step(run_lines: int, step_bytes: int) -> int:
    """Lines of a run that need not begin at one: one more, unless it ends where the next begins."""
    return run_lines if step_bytes <= run_lines * LINE_BYTES else run_lines + 1


def lines_per_set(depth: int, step_bytes: int, run_lines: int) -> float:
    """Lines that ``depth`` runs ``step_bytes`` apart have in the sets that hold most of them."""
    lines = lines_of_step(run_lines, step_bytes)
    if step_bytes <= lines * LINE_BYTES:
        return depth * step_bytes / PAGE_BYTES
    apart = max(1, gcd(step_bytes, PAGE_BYTES) // LINE_BYTES)
    return -(-lines // apart) * apart * depth / SETS
