"""Small matrices along sites are one invocation, whose results are exact."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import teir
from search.planned import USUAL, assert_alike, assert_exact, loops_of, planned, shares_loops
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.lower.explanation import count_calls
from teir.lower.lower import lower
from teir.lower.site_kernels import SiteProduct
from teir.search.machine import Machine
from teir.target import Isa

ONE, TWO = "ab,cbd->cad", "abxy,cxdye->cadbe"
TYPES = (DataType.FP32, DataType.FP64, DataType.C64, DataType.C128)


def kernels(program: Program, isa: Isa = Isa.AVX512) -> list[SiteProduct]:
    found = count_calls(lower(program, isa).roots)
    return [kernel for kernel in found if isinstance(kernel, SiteProduct)]


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("inner", [1, 2])
def test_a_gate_on_a_late_qubit_is_one_call(data_type: DataType, inner: int) -> None:
    extents = {"a": 2, "b": 2, "c": 200, "d": inner}
    program = planned(ONE, extents, USUAL, data_type).program
    assert len(kernels(program)) == 1
    assert loops_of(program) == []
    if not data_type.is_complex:
        assert_exact(program, ONE, extents, data_type, 2)


@pytest.mark.parametrize("inner", [1, 2, 4])
@pytest.mark.parametrize("between", [1, 2, 7])
def test_a_gate_on_two_qubits_is_one_call(inner: int, between: int) -> None:
    extents = {"a": 2, "b": 2, "x": 2, "y": 2, "c": 100, "d": between, "e": inner}
    program = planned(TWO, extents, USUAL, DataType.FP32).program
    assert len(kernels(program)) == 1
    assert_exact(program, TWO, extents, DataType.FP32, 4)


def test_rows_of_whole_vectors_make_blocks() -> None:
    extents = {"a": 2, "b": 2, "c": 200, "d": 64}
    assert kernels(planned(ONE, extents, USUAL, DataType.FP32).program) == []


@pytest.mark.parametrize("text", ["nc,cd->nd", "nc,dc->nd", "cd,nc->nd", "nij,ai->naj"])
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
def test_points_are_exact(text: str, data_type: DataType) -> None:
    extents = {"n": 123, "c": 3, "d": 3, "i": 2, "j": 2, "a": 2}
    program = planned(text, extents, USUAL, data_type).program
    assert len(kernels(program)) == 1
    assert_exact(program, text, extents, data_type, 3)


def test_threads_share_the_longest_rows() -> None:
    extents = {"a": 2, "b": 2, "c": 1 << 16, "d": 2}
    program = planned(ONE, extents, replace(USUAL, threads=2), DataType.FP32).program
    assert shares_loops(program)
    assert kernels(program)


def test_bits_do_not_depend_on_the_vectors() -> None:
    extents = {"a": 2, "b": 2, "c": 100, "d": 2}
    machines = (USUAL, replace(USUAL, vector_bytes=32), replace(USUAL, threads=2, threaded_work=1))
    programs = [planned(ONE, extents, one, DataType.FP64).program for one in machines]
    assert_alike(programs, ONE, extents, 3)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("data_type", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(70, 2, 2, 2, 1), (33, 2, 3, 2, 2), (1, 2, 500, 2, 4)])
def test_native_gates_are_exact(shape: tuple[int, ...], data_type: str, threads: int) -> None:
    draw = np.random.default_rng(5)
    state, gate = (draw.integers(-3, 4, one).astype(data_type) for one in (shape, (2, 2, 2, 2)))
    out = np.full(shape, 9, data_type)
    teir.einsum(TWO, gate, state, out=out, threads=threads)
    np.testing.assert_array_equal(out, np.einsum(TWO, gate, state))


def test_sums_keep_the_order_they_have_elsewhere() -> None:
    """Products are added as in every other program of the contraction, whatever a vector holds."""
    text = "DBdb,abcdefg->aBcDefg"
    extents = dict.fromkeys("abcdefgBD", 2)
    machines = [replace(USUAL, vector_bytes=size) for size in (64, 32, 16)]
    programs = [planned(text, extents, machine, DataType.FP64).program for machine in machines]
    assert_alike(programs, text, extents, 7)


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        ("ck,eijc->eijk", {"c": 8, "k": 8, "e": 3, "i": 5, "j": 40}),
        ("hwc,kc->hwk", {"c": 3, "k": 16, "h": 20, "w": 9}),
        ("hwc,kc->hwk", {"c": 16, "k": 3, "h": 20, "w": 9}),
        ("abc,bd->adc", {"a": 200, "b": 8, "c": 4, "d": 8}),
    ],
)
def test_pairs_of_short_sums_are_one_call(text: str, extents: dict[str, int]) -> None:
    program = planned(text, extents, USUAL, DataType.BF16).program
    assert loops_of(program) == []
    assert len(kernels(program)) == 1
    assert_exact(program, text, extents, DataType.BF16, 3)


@pytest.mark.parametrize(
    "machine", [replace(USUAL, vector_bytes=32), replace(USUAL, multiplies_twice=True)]
)
def test_pairs_need_vectors_that_hold_them(machine: Machine) -> None:
    extents = {"c": 8, "k": 8, "h": 20, "w": 9}
    program = planned("hwc,kc->hwk", extents, machine, DataType.BF16).program
    assert kernels(program, Isa.AVX2) == []
    assert_exact(program, "hwc,kc->hwk", extents, DataType.BF16, 3)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("columns", "products"), [(8, 8), (3, 5), (16, 3), (5, 16), (12, 24)])
def test_native_pairs_are_exact(columns: int, products: int, threads: int) -> None:
    draw, bf16 = np.random.default_rng(5), DataType.BF16.numpy_dtype()
    rows = draw.integers(-3, 4, (531, products)).astype(bf16)
    matrix = draw.integers(-3, 4, (products, columns)).astype(bf16)
    wanted = rows.astype(np.float32) @ matrix.astype(np.float32)
    found = teir.einsum("rk,kn->rn", rows, matrix, threads=threads)
    np.testing.assert_array_equal(found, wanted.astype(bf16))
