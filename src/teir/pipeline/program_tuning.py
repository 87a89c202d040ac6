"""The fastest of the programs the passes make of one program.

A program on file says in which order its sums are formed; passes that cut reductions or order
loops may change the rounding, as `teir optimize` does. So the result is a program to look at and
to keep, not a record that later runs would silently follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from teir.ir.check import check as check_program
from teir.ir.check.report import Need
from teir.ir.nodes import Program
from teir.passes.facts import Facts, facts_of
from teir.passes.optimise import optimise
from teir.pipeline.machine_speeds import host, machine_of, measured_speeds
from teir.pipeline.timing import seconds_of
from teir.search.model import predict

_MEASURED = 8
"""Programs measured, the one given among them."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A program, how the passes came to it, and the seconds the model expects."""

    text: str
    program: Program
    predicted: float


@dataclass(frozen=True, slots=True)
class MeasuredVariant:
    """A variant and the seconds one run took."""

    variant: Variant
    seconds: float


def measured_variants(program: Program, threads: int) -> Iterator[MeasuredVariant]:
    """The program given, then those of the passes that the model likes best, as measured.

    ``program`` must be well formed, dense and safe. Raises TeirError where native code refuses it.
    """
    needs = check_program(program).needs
    addresses, buffers = _operands(program, needs)
    for variant in _variants(program, needs, threads)[:_MEASURED]:
        yield MeasuredVariant(variant, seconds_of(variant.program, addresses, threads))
    del buffers


def _variants(program: Program, needs: Mapping[str, Need], threads: int) -> list[Variant]:
    """The program itself, then the others, the fastest by the model first.

    All of them stay inside ``needs``, the memory that the program itself touches.
    """
    target, machine = host(), machine_of(threads)
    speeds = measured_speeds().speeds

    def variant(text: str, one: Program) -> Variant:
        return Variant(text, one, predict(one, machine, speeds).seconds)

    found = [variant("as it is written", program)]
    for text, change in _CHANGES:
        facts = change(facts_of(target, threads=threads))
        made = optimise(program, facts)[-1][1]
        if all(made != one.program for one in found) and _is_safe(made, needs):
            found.append(variant(text, made))
    return [found[0], *sorted(found[1:], key=lambda one: one.predicted)]


def _is_safe(program: Program, needs: Mapping[str, Need]) -> bool:
    """True for a program without findings that touches no bytes of a tensor beyond ``needs``."""
    report = check_program(program)
    if report.findings:
        return False
    touched = ((tensor.name, report.needs.get(tensor.name)) for tensor in program.tensors)
    return all(need is None or _is_inside(need, needs.get(name)) for name, need in touched)


def _is_inside(need: Need, known: Need | None) -> bool:
    return known is not None and known.low <= need.low and need.high <= known.high


_CHANGES: tuple[tuple[str, Callable[[Facts], Facts]], ...] = (
    ("all passes", lambda facts: facts),
    ("all passes, half of L1", lambda facts: replace(facts, l1_bytes=facts.l1_bytes // 2)),
    ("all passes, half of L2", lambda facts: replace(facts, l2_bytes=facts.l2_bytes // 2)),
    ("all passes, sums cut at 128", lambda facts: replace(facts, reduction_block=128)),
    ("all passes, sums cut at 512", lambda facts: replace(facts, reduction_block=512)),
    (
        "all passes, kernels of 16 to 64",
        lambda facts: replace(facts, min_kernel_size=16, max_kernel_size=64),
    ),
    (
        "all passes, kernels of 16 to 256",
        lambda facts: replace(facts, min_kernel_size=16, max_kernel_size=256),
    ),
    (
        "all passes, kernels of 16 to 1024",
        lambda facts: replace(facts, min_kernel_size=16, max_kernel_size=1024),
    ),
)


def _operands(
    program: Program, needs: Mapping[str, Need]
) -> tuple[list[int], list[np.ndarray[Any, np.dtype[np.uint8]]]]:
    """Base addresses of memory for every tensor, and the memory: zeros, which no sum overflows."""
    addresses, buffers = [], []
    for tensor in program.tensors:
        need = needs.get(tensor.name)
        low, high = (0, 0) if need is None else (need.low, need.high)
        buffer = np.zeros(max(1, high - low), np.uint8)
        buffer.fill(0)  # touches the pages
        buffers.append(buffer)
        addresses.append(buffer.ctypes.data - low)
    return addresses, buffers
