"""Read a case: a program and, in comments, its operands and what must come out.

    # Section 10.7.2: ...                                    what it is
    # operands: in0 3x4x5x7, out 7x5x4x3                     shapes; small integers are drawn
    # expect out: np.einsum("abcd->dcba", in0)               NumPy on the operands before the run
    # address: in0 40, out 80                                these two elements become equal
    # kernel gemm_squ: GEMM lda=8 ldb=16 ldc=8               Tables 10.6.1 and 10.6.2

The comments stand above a program in text form, or in a file ending in .expect beside a JSON one.
Everything not expected must stay as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from teir.ir.load import load
from teir.ir.nodes import Program

Operands = dict[str, np.ndarray[Any, np.dtype[Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    program: Program
    shapes: Mapping[str, tuple[int, ...]]
    expected: Mapping[str, str]
    addresses: tuple[Mapping[str, int], ...]
    kernels: Mapping[str, str]

    def operands(self) -> Operands:
        """Small integers in the shapes and types of the tensors."""
        numbers = np.random.default_rng(sum(map(ord, self.name)))
        types = {tensor.name: tensor.data_type.numpy_dtype() for tensor in self.program.tensors}
        return {
            name: numbers.integers(-4, 5, shape).astype(types[name])
            for name, shape in self.shapes.items()
        }

    def results(self, before: Operands) -> Operands:
        """What each operand holds after the run; those nobody speaks of stay as they were."""
        changed = {
            name: np.asarray(eval(formula, {"np": np, **before}))
            for name, formula in self.expected.items()
        }
        return {
            name: changed[name].astype(array.dtype).reshape(array.shape)
            if name in changed
            else array
            for name, array in before.items()
        }


def read_case(path: Path) -> Case:
    """The case at ``path``, a .teir or a .json file."""
    header = path.with_suffix(".expect") if path.suffix == ".json" else path
    lines = [line for line in header.read_text().splitlines() if line.startswith("# ")]
    return Case(
        name=path.name,
        program=load(path),
        shapes={name: _shape(text) for name, text in _pairs(_values(lines, "operands"))},
        expected=dict(_named(lines, "expect")),
        addresses=tuple(
            {name: int(text) for name, text in _pairs([value])}
            for value in _values(lines, "address")
        ),
        kernels=dict(_named(lines, "kernel")),
    )


def _values(lines: list[str], key: str) -> list[str]:
    return [line.removeprefix(f"# {key}: ") for line in lines if line.startswith(f"# {key}: ")]


def _named(lines: list[str], key: str) -> list[tuple[str, str]]:
    found = (re.fullmatch(rf"# {key} (\w+): (.*)", line) for line in lines)
    return [(match[1], match[2]) for match in found if match]


def _pairs(values: list[str]) -> list[tuple[str, str]]:
    words = [part.split() for value in values for part in value.split(",")]
    return [(name, text) for name, text in words]


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(extent) for extent in text.split("x"))
