"""The kernels of the contractions in ``usual_contractions.txt``, to be compiled ahead.

A line is an expression and the shape of every operand, C-contiguous: the specification's own
contraction in some sizes and layouts, the contractions of the TCCG benchmark, the permutations of
the TTC and HPTT benchmarks, and odd, tiny and batched shapes. What they call, products and
permutations of other shapes call as well: `teir.lower.usual_kernels` lists kernels by their tiles,
this module by what the search makes of whole contractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from teir.dtypes import DataType
from teir.expr.parsing import parse_expression
from teir.lower.calls import kernels_of
from teir.lower.kernels import BatchBlock, Kernel
from teir.lower.lower import lower
from teir.pipeline.executable import default_threads
from teir.pipeline.machine_speeds import machine_of
from teir.pipeline.operand_types import contiguous, stored_type
from teir.pipeline.problem import state_problem
from teir.search.machine import Machine
from teir.search.path import find_path
from teir.search.tree import contraction_program
from teir.target import Isa

_LIST = "usual_contractions.txt"

Shapes = tuple[tuple[int, ...], ...]


def contraction_kernels(isa: Isa, data_types: Iterable[DataType]) -> frozenset[Kernel]:
    """What these contractions call, on one thread and on all.

    `BatchBlock` is left out: its strides are constants of one contraction.
    """
    machines = [machine_of(threads) for threads in sorted({1, default_threads()})]
    kernels: set[Kernel] = set()
    contractions = tuple(usual_contractions())
    for data_type in data_types:
        for expression, shapes in contractions:
            for machine in machines:
                kernels |= _kernels(expression, shapes, data_type, machine, isa)
    return frozenset(one for one in kernels if not isinstance(one, BatchBlock))


def usual_contractions() -> Iterator[tuple[str, Shapes]]:
    """Every expression of the list and its shapes."""
    text = (Path(__file__).parent / _LIST).read_text(encoding="utf-8")
    for line in text.splitlines():
        expression, *words = line.split()
        yield expression, tuple(tuple(map(int, word.split("x"))) for word in words)


def _kernels(
    expression: str, shapes: Shapes, data_type: DataType, machine: Machine, isa: Isa
) -> set[Kernel]:
    types = tuple(contiguous(stored_type(data_type), shape) for shape in shapes)
    contraction = state_problem(parse_expression(expression), types, None, data_type).contraction
    assert contraction is not None
    walks = [tuple(factor.strides) for factor in contraction.inputs]
    path = find_path(walks, tuple(contraction.output.strides), contraction.extents, "auto")
    program = contraction_program(contraction, path, machine).program
    return kernels_of(lower(program, isa).roots)
