"""Every case on the evaluator and on native code for every instruction set of this machine."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cases.case_file import Case, Operands, read_case
from teir.backends.llvm.compile_ir import runs_here
from teir.ir.evaluate import evaluate
from teir.ir.load import loads
from teir.ir.nodes import Program
from teir.lower.parameters import contraction_parameters
from teir.pipeline.executable import compile_program
from teir.target import Isa

PATHS = sorted(
    path for path in Path(__file__).parent.iterdir() if path.suffix in (".teir", ".json")
)
VARIANTS = tuple(isa for isa in Isa if runs_here(isa))
CASES = {path.name: read_case(path) for path in PATHS}


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def run_native(program: Program, operands: Operands, isa: Isa, threads: int) -> None:
    compile_program(program, isa=isa, threads=threads).run(operands)


def check_result(case: Case, before: Operands, after: Operands) -> None:
    for name, expected in case.results(before).items():
        np.testing.assert_array_equal(after[name], expected, err_msg=name)
    for address in case.addresses:
        (one, first), (other, second) = address.items()
        assert element_at(after[one], first) == element_at(after[other], second)


def element_at(array: np.ndarray, address: int) -> float:
    content = array.reshape(-1).view(np.uint8)[address : address + array.itemsize]
    return float(content.view(array.dtype)[0])


def test_no_case_is_missing() -> None:
    flat = [path for path in PATHS if path.name.startswith("flat-")]
    tree = [path for path in PATHS if path.name.startswith("10.7.")]
    backend = [path for path in PATHS if path.name.startswith("5.3-")]
    assert (len(flat), len(tree), len(backend)) == (7, 7, 3)


def test_evaluator(case: Case) -> None:
    before = case.operands()
    after = {name: array.copy() for name, array in before.items()}
    evaluate(case.program, after, seed=7)
    check_result(case, before, after)


@pytest.mark.parametrize("isa", VARIANTS)
@pytest.mark.parametrize("threads", [1, 2])
def test_native(case: Case, isa: Isa, threads: int) -> None:
    before = case.operands()
    after = {name: array.copy() for name, array in before.items()}
    run_native(case.program, after, isa, threads)
    check_result(case, before, after)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kernels])
def test_kernel_parameters(name: str) -> None:
    case = CASES[name]
    for parameters in contraction_parameters(case.program):
        row, *values = case.kernels[parameters.primitive].split()
        assert parameters.row.value == row
        known = dict(parameters.named_values())
        wanted = {key: int(number) for key, number in (value.split("=") for value in values)}
        assert {key: known[key] for key in wanted} == wanted


PERMUTATION_SIZES = tuple(product((3, 4, 7), repeat=4))


def permutation(t: int, r: int, u: int, s: int) -> Program:
    """Section 5.6.2 of the backend document: trus -> turs, u and s inside the primitive."""
    record = {
        "teir_flat": 1,
        "data_type": "FP32",
        "prim_first": "None",
        "prim_main": "Copy",
        "prim_last": "None",
        "dim_types": ["C", "C", "C", "C"],
        "exec_types": ["seq", "seq", "prim", "prim"],
        "dim_sizes": [t, r, u, s],
        "strides": [[r * u * s, u * s, s, 1], [u * r * s, s, r * s, 1]],
    }
    return loads(json.dumps(record))


@pytest.mark.parametrize("isa", [None, *VARIANTS])
def test_permutation_of_section_5_6_2(isa: Isa | None) -> None:
    assert len(PERMUTATION_SIZES) == 81
    for t, r, u, s in PERMUTATION_SIZES:
        source = np.random.default_rng(1).uniform(-10, 10, (t, r, u, s)).astype(np.float32)
        out = np.full((t, u, r, s), np.nan, np.float32)
        program = permutation(t, r, u, s)
        if isa is None:
            evaluate(program, {"in0": source, "out": out})
        else:
            run_native(program, {"in0": source, "out": out}, isa, 1)
        np.testing.assert_array_equal(out, np.einsum("trus->turs", source))
