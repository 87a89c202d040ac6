"""Steps of a product on their way to shared memory: which lanes, what arrives, by what it moves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from backends.cuda.disassembly import disassemble, need_compiler
from backends.cuda.emulation import HostKernels, body_of, compile_kernels, emulate
from backends.cuda.programs import Buffer, aligned, contraction
from teir.backends.cuda.compiler import compile_source
from teir.backends.cuda.decision import Decision, with_decision
from teir.backends.cuda.kernel import CudaProgram, Family
from teir.backends.cuda.plan import plan, problems
from teir.backends.cuda.problem import ContractionProblem
from teir.backends.cuda.product import ProductPlan, plan_product
from teir.backends.cuda.product_lanes import lanes_of
from teir.dtypes import DataType
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program

FP32, FP64, BF16, TF32 = DataType.FP32, DataType.FP64, DataType.BF16, DataType.TF32
C64, C128 = DataType.C64, DataType.C128
TWO_UNITS = {"b": 6, "f": 8, "a": 8, "e": 12, "c": 5, "d": 4}
PRODUCTS: list[tuple[str, Mapping[str, int], DataType, int]] = [
    ("mk,kn->mn", {"m": 130, "n": 136, "k": 40}, FP32, 128),
    ("mk,nk->mn", {"m": 70, "n": 66, "k": 37}, FP32, 64),
    ("km,kn->mn", {"m": 36, "n": 34, "k": 83}, FP32, 32),
    ("bfae,cedf->dcba", TWO_UNITS, FP32, 64),
    ("fbea,ecfd->dcba", {"f": 5, "b": 6, "e": 7, "a": 8, "c": 5, "d": 8}, FP32, 128),
    ("mk,kab->mba", {"m": 20, "k": 25, "a": 12, "b": 10}, FP32, 64),
    ("mka,akn->mn", {"m": 70, "k": 5, "a": 9, "n": 68}, FP64, 64),
    ("bmk,bkn->bmn", {"b": 3, "m": 20, "n": 36, "k": 50}, FP64, 32),
    ("mk,kn->mn", {"m": 50, "n": 36, "k": 35}, C64, 64),
    ("mk,nk->mn", {"m": 34, "n": 20, "k": 35}, C128, 32),
    ("mka,akn->mn", {"m": 70, "k": 5, "a": 9, "n": 68}, BF16, 64),
    ("km,nk->mn", {"m": 40, "n": 33, "k": 35}, TF32, 64),
]
"""Along K and along rows, ragged ends, K over several axes, all types; the tile."""


def planned(number: int) -> CudaProgram:
    return plan(_program(*PRODUCTS[number]))


def _program(expression: str, sizes: Mapping[str, int], data_type: DataType, side: int) -> Program:
    program = contraction(expression, sizes, data_type)[0]
    return with_decision(program, "gemm", Decision(kernel=Family.PRODUCT, tile=(side, side)))


def integers(number: int) -> dict[str, Buffer]:
    """Operands whose products are exact; what out holds before is to be overwritten."""
    expression, sizes, data_type, _ = PRODUCTS[number]
    counts = contraction(expression, sizes, data_type)[1]
    found = {}
    for seed, (name, count) in enumerate(counts.items()):
        found[name] = aligned(count, data_type)
        found[name][:] = np.random.default_rng(seed).integers(-2, 3, count)
        if data_type in (C64, C128):
            found[name] += 1j * np.random.default_rng(seed + 9).integers(-2, 3, count)
    return found


def moved(array: Buffer) -> Buffer:
    """The same numbers, one element beyond an aligned address."""
    room = np.zeros(array.nbytes + 256 + array.itemsize, np.uint8)
    start = -room.ctypes.data % 256 + array.itemsize
    found = room[start : start + array.nbytes].view(array.dtype)
    found[:] = array
    return found


WRONG = {
    "no wait": ("copies_wait<1>();", ";"),
    "a wait too short": ("copies_wait<1>();", "copies_wait<2>();"),
    "no barrier": ("copies_wait<1>();\n        __syncthreads();", "copies_wait<1>();"),
    "another stage": ("from == 0 ? 2 : from - 1;", "from == 0 ? 2 : from;"),
    "an old table": ("const u32 sum = (step + 3) * 16", "const u32 sum = (step + 2) * 16"),
}
TWO_UNITS_NUMBER = 3


def planned_wrongly(wrong: str) -> CudaProgram:
    right, other = WRONG[wrong]
    program = planned(TWO_UNITS_NUMBER)
    (kernel,) = program.kernels
    body = body_of(kernel)
    assert right in body
    source = kernel.source.removesuffix(body) + body.replace(right, other)
    return replace(program, kernels=(replace(kernel, source=source),))


@pytest.fixture(scope="module")
def kernels() -> HostKernels:
    programs = [*map(planned, range(len(PRODUCTS))), *map(planned_wrongly, WRONG)]
    return compile_kernels(programs)


@pytest.mark.parametrize("number", range(len(PRODUCTS)))
@pytest.mark.parametrize("is_moved", [False, True])
def test_products(number: int, is_moved: bool, kernels: HostKernels) -> None:
    """At aligned addresses, and at those no wide copy may read from; exact on small integers."""
    program, operands = planned(number), integers(number)
    expected = {name: array.copy() for name, array in operands.items()}
    if is_moved:
        operands = {name: moved(array) for name, array in operands.items()}
    evaluate(program.program, expected)
    emulate(program, operands, kernels)
    np.testing.assert_array_equal(operands["out"], expected["out"])


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_step_is_noticed(wrong: str, kernels: HostKernels) -> None:
    operands = integers(TWO_UNITS_NUMBER)
    expected = {name: array.copy() for name, array in operands.items()}
    evaluate(planned(TWO_UNITS_NUMBER).program, expected)
    try:
        emulate(planned_wrongly(wrong), operands, kernels)
    except AssertionError:
        return
    assert operands["out"].tobytes() != expected["out"].tobytes()


def plan_of(expression: str, sizes: Mapping[str, int], data_type: DataType) -> ProductPlan:
    (problem,) = problems(contraction(expression, sizes, data_type)[0])
    assert isinstance(problem, ContractionProblem)
    found = plan_product(problem, 128)
    assert found is not None
    return found


FORTIES = {"f": 40, "b": 40, "e": 40, "a": 48, "c": 40, "d": 48}
EIGHTS = {"b": 40, "f": 48, "a": 48, "e": 48, "c": 40, "d": 40}
SHORT = {"a": 24, "b": 12, "c": 12, "d": 24, "e": 12, "f": 12, "g": 24}
SQUARE = {"m": 2016, "n": 2024, "k": 2016}
ODD = {"m": 2015, "n": 2023, "k": 2017}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Depth of a step; elements per copy, and copies of a thread, of the left and right input."""

    expression: str
    sizes: Mapping[str, int]
    depth: int
    vectors: tuple[int, int]
    parts: tuple[int, int]
    data_type: DataType = FP32


def wanted(
    expression: str,
    sizes: Mapping[str, int],
    depth: int,
    vectors: tuple[int, int],
    parts: tuple[int, int],
    data_type: DataType = FP32,
) -> Wanted:
    return Wanted(
        expression=expression,
        sizes=sizes,
        depth=depth,
        vectors=vectors,
        parts=parts,
        data_type=data_type,
    )


LANES = [
    wanted("fbea,ecfd->dcba", FORTIES, 16, (4, 4), (2, 2)),
    wanted("bfae,cedf->dcba", EIGHTS, 16, (1, 1), (8, 8)),
    wanted("bged,cafg->fedcba", SHORT, 8, (4, 1), (1, 4)),
    wanted("mk,kn->mn", SQUARE, 16, (1, 4), (8, 2)),
    wanted("mk,kn->mn", SQUARE, 16, (1, 2), (8, 4), FP64),
    wanted("mk,nk->mn", SQUARE, 16, (1, 1), (8, 8)),
    wanted("mk,nk->mn", ODD, 16, (1, 1), (8, 8)),
    wanted("mk,kn->mn", ODD, 16, (1, 1), (8, 8)),
]
NAMES = [f"{one.expression} {one.data_type.value} {at}" for at, one in enumerate(LANES)]


@pytest.mark.parametrize("case", LANES, ids=NAMES)
def test_lanes_lie_along_what_is_contiguous(
    case: Wanted,
) -> None:
    found = plan_of(case.expression, case.sizes, case.data_type)
    lanes = [lanes_of(found, side, "row", "k") for side in (0, 1)]
    assert found.depth == case.depth
    assert tuple(one.vector for one in lanes) == case.vectors
    assert tuple(one.parts for one in lanes) == case.parts


def test_a_step_holds_neighbours_along_both_contiguous_axes() -> None:
    found = plan_of("bfae,cedf->dcba", EIGHTS, FP32)
    assert [one.extent for one in found.digits] == [4, 4, 12, 12]
    first, second = found.digits[:2]
    assert (first.strides[0], second.strides[1]) == (4, 4)


def loop_of(text: str) -> list[str]:
    """The instructions of the innermost loop that holds the products."""
    lines = [re.sub(r"/\*\w+\*/", "", line).strip() for line in text.splitlines()]
    labels = {line[:-1]: at for at, line in enumerate(lines) if re.fullmatch(r"\.L_\w+:", line)}
    loops = []
    for at, line in enumerate(lines):
        target = re.search(r"BRA.*`\((\.L_\w+)\)", line)
        if target and labels.get(target[1], at) < at:
            loops.append(lines[labels[target[1]] : at])
    found = [one for one in loops if any("FFMA" in line or "DMMA" in line for line in one)]
    return [line for line in min(found, key=len) if line.endswith(";")]


@pytest.mark.parametrize("case", LANES, ids=NAMES)
def test_the_loop_multiplies(
    case: Wanted,
    tmp_path: Path,
) -> None:
    """By far the most instructions are products; what is loaded passes by the registers."""
    need_compiler()
    (kernel,) = plan(_program(case.expression, case.sizes, case.data_type, 128)).kernels
    compiled = compile_source(kernel.source, kernel.name)
    assert compiled.spilled_bytes == 0
    loop = loop_of(disassemble(compiled.cubin, tmp_path))
    assert not any(re.search(r"\bLDG\b", line) for line in loop)
    assert any("LDGSTS" in line for line in loop)
    assert any("LDGSTS.E.BYPASS.128" in line for line in loop) == (max(case.vectors) > 1)
    if case.data_type is FP64:
        products = sum("DMMA.16x8x16" in line for line in loop)
        assert sum("LDS.64" in line for line in loop) == 3 * products == 48
        return
    products = sum("FFMA" in line for line in loop)
    assert products == 64 * case.depth
    assert products > 0.8 * len(loop)
    assert compiled.registers <= 128


WIDEST = {BF16: 128, TF32: 128, FP32: 128, FP64: 128, C64: 64, C128: 64}


@pytest.mark.parametrize("data_type", WIDEST)
def test_nothing_is_spilled(data_type: DataType) -> None:
    """The widest tile of a type; converted numbers, and K over two axes, need most registers."""
    need_compiler()
    sizes = {"m": 501, "n": 500, "k": 51, "a": 7}
    program = _program("mka,akn->mn", sizes, data_type, WIDEST[data_type])
    (kernel,) = plan(program).kernels
    assert compile_source(kernel.source, kernel.name).spilled_bytes == 0
