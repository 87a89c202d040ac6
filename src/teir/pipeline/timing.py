"""How long a program takes on operands of its own, drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from teir.arrays.numpy_fields import address_of
from teir.ir.nodes import Program
from teir.pipeline.executable import compile_program
from teir.pipeline.operand_types import OperandType
from teir.pipeline.problem import Problem

_ROUNDS = 7
_PROGRAM_SECONDS = 0.15
"""Time spent on one program, but for programs of which one run takes longer."""
_ROUND_SECONDS = 0.002
"""Rounds of shorter runs repeat them until the clock can tell their time."""


@dataclass(frozen=True, slots=True)
class DrawnOperands:
    """Arrays as a problem has them: the same types, shapes and strides, other memory."""

    buffers: tuple[np.ndarray[Any, Any], ...]
    addresses: tuple[int, ...]


def draw_operands(problem: Problem, seed: int = 0) -> DrawnOperands:
    """Operands of the problem's program. Raises MemoryError where they do not fit."""
    generator = np.random.default_rng(seed)
    buffers, addresses = [], []
    for array in problem.tensor_types():
        low, high = array.span_bytes
        buffer = _drawn(generator, array, high - low)
        buffers.append(buffer)
        addresses.append(address_of(buffer) - low)
    return DrawnOperands(tuple(buffers), tuple(addresses))


def _drawn(
    generator: np.random.Generator, array: OperandType, size_bytes: int
) -> np.ndarray[Any, Any]:
    """Numbers, and parts of complex ones, between 1 and 2: none is slow because it is tiny, and no
    sum overflows."""
    assert array.data_type is not None
    dtype = array.data_type.numpy_dtype()
    count = -(-size_bytes // dtype.itemsize)
    block = (1 + generator.random(min(count, 1 << 16))).astype(dtype)
    if array.data_type.is_complex:
        block.imag = 1 + generator.random(len(block))
    return np.resize(block, count)


def run_once(program: Program, addresses: Sequence[int], threads: int) -> None:
    """Run a program on operands at these addresses."""
    compile_program(program, threads=threads).run_addresses(tuple(addresses))


def seconds_of(program: Program, addresses: Sequence[int], threads: int) -> float:
    """The median time of one run, the program being warm."""
    executable = compile_program(program, threads=threads)
    places = tuple(addresses)
    return seconds_per_call(lambda: executable.run_addresses(places))


def seconds_per_call(call: Callable[[], object]) -> float:
    """The median of a few rounds, after two calls to warm up."""
    call()
    start = perf_counter()
    call()
    once = max(perf_counter() - start, 1e-7)
    repeats = max(1, int(_ROUND_SECONDS / once))
    rounds = max(3, min(_ROUNDS, int(_PROGRAM_SECONDS / (once * repeats))))
    return median(_round(call, repeats) for _ in range(rounds))


def _round(call: Callable[[], object], repeats: int) -> float:
    start = perf_counter()
    for _ in range(repeats):
        call()
    return (perf_counter() - start) / repeats
