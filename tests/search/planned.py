"""Contractions of contiguous operands, planned for the tests here; what their programs compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.expr.parsing import parse_expression
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.nodes import IterationNode, Policy, Program, Tensor
from teir.ir.printing import print_program
from teir.pipeline.operand_types import OperandType, contiguous
from teir.pipeline.problem import state_problem
from teir.search.choice import Choice
from teir.search.contraction import Contraction
from teir.search.default_choice import default_choice
from teir.search.machine import Machine
from teir.search.step import Span, Step
from teir.search.tree import TreeOptions, TreeProgram, contraction_program

USUAL = Machine(vector_bytes=64, l1_bytes=32768, l2_bytes=2**20, threads=1, threaded_work=2**16)
"""Caches as most machines have them."""
FAR = replace(USUAL, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20)
"""A server whose third cache is far from each core."""
SMALL = replace(USUAL, l2_bytes=1 << 15)
"""A second cache that a few rows fill."""


def shapes_of(text: str, extents: Mapping[str, int]) -> list[tuple[int, ...]]:
    """The shapes of the terms of an expression of letters."""
    return [tuple(extents[index] for index in term) for term in text.split("->")[0].split(",")]


def stated(text: str, types: Sequence[OperandType]) -> Contraction:
    """The contraction of operands of these types."""
    problem = state_problem(parse_expression(text), tuple(types), None, None)
    assert problem.contraction is not None
    return problem.contraction


def of_shapes(
    text: str, shapes: Sequence[tuple[int, ...]], data_type: DataType = DataType.FP32
) -> Contraction:
    """The contraction of contiguous operands of these shapes."""
    return stated(text, [contiguous(data_type, shape) for shape in shapes])


def planned(
    text: str,
    extents: Mapping[str, int],
    machine: Machine,
    data_type: DataType = DataType.FP32,
    choices: tuple[Choice, ...] = (),
) -> TreeProgram:
    """The program of one operand or two, with the default choice where none is given."""
    contraction = of_shapes(text, shapes_of(text, extents), data_type)
    path = (tuple(range(len(contraction.inputs))),)
    return contraction_program(contraction, path, machine, TreeOptions(choices=choices))


def program_of(
    text: str,
    extents: Mapping[str, int],
    machine: Machine = USUAL,
    data_type: DataType = DataType.FP64,
) -> Program:
    """The program of what is `planned`."""
    return planned(text, extents, machine, data_type).program


def choice_of(
    text: str, extents: Mapping[str, int], machine: Machine, data_type: DataType
) -> Choice:
    """What is chosen for the only step of two operands."""
    (step,) = planned(text, extents, machine, data_type).matrix_steps
    return default_choice(step.shape, step.machine)


def step_of(text: str, extents: Mapping[str, int]) -> Step:
    """The step on dense tensors of FP32, before it is simplified."""
    terms = text.replace("->", ",").split(",")
    names = [f"in{place}" for place in range(len(terms) - 1)] + ["out"]
    strides: dict[str, dict[str, int]] = {index: {} for index in extents}
    for name, term in zip(names, terms, strict=True):
        stride = DataType.FP32.width
        for index in reversed(term):
            strides[index][name] = stride
            stride *= extents[index]
    tensors = [Tensor(name=name, data_type=DataType.FP32) for name in names]
    axes = tuple(Span(index, extents[index], strides[index], {}) for index in extents)
    return Step(tuple(tensors[:-1]), tensors[-1], axes)


def assert_exact(
    program: Program, text: str, extents: Mapping[str, int], data_type: DataType, seed: int
) -> None:
    """On small integers the program gives NumPy's result, whatever the output held before."""
    assert check(program).ok, print_program(program).text
    draw, numbers = np.random.default_rng(seed), data_type.numpy_dtype()
    inputs = [draw.integers(-2, 3, shape).astype(numbers) for shape in shapes_of(text, extents)]
    wide = np.result_type(numbers, np.float32)
    expected = np.einsum(text, *(one.astype(wide) for one in inputs)).astype(numbers)
    out = np.full(expected.shape, 7, numbers)
    evaluate(program, {f"in{number}": one for number, one in enumerate(inputs)} | {"out": out})
    np.testing.assert_array_equal(out, expected)


def assert_means_it(text: str, extents: Mapping[str, int], machine: Machine, seed: int) -> None:
    """What is planned gives NumPy's result in four types."""
    for data_type in (DataType.FP32, DataType.FP64, DataType.C64, DataType.BF16):
        program = planned(text, extents, machine, data_type).program
        assert_exact(program, text, extents, data_type, seed)


def loops_of(program: Program) -> list[str]:
    """The axes of the loops in program order."""
    return [node.axis for node in program.nodes() if isinstance(node, IterationNode)]


def shares_loops(program: Program) -> bool:
    """True where threads share a loop."""
    loops = [node for node in program.nodes() if isinstance(node, IterationNode)]
    return any(loop.policy is Policy.PARALLEL for loop in loops)


def assert_alike(
    programs: Sequence[Program], text: str, extents: Mapping[str, int], seed: int
) -> None:
    """Programs on FP64 give the same bits, and NumPy's result up to rounding."""
    draw = np.random.default_rng(seed)
    inputs = [draw.standard_normal(shape) for shape in shapes_of(text, extents)]
    expected = np.einsum(text, *inputs)
    results = [np.full(expected.shape, np.nan) for _ in programs]
    operands = {f"in{number}": one for number, one in enumerate(inputs)}
    for program, out in zip(programs, results, strict=True):
        assert check(program).ok, print_program(program).text
        evaluate(program, operands | {"out": out})
        np.testing.assert_array_equal(out, results[0])
    np.testing.assert_allclose(results[0], expected, rtol=1e-12, atol=1e-12)
