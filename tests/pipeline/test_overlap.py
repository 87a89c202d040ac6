"""overlap="copy": operands that share bytes with what is written are read as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import teir
from teir.errors import TeirError

Array = np.ndarray[Any, Any]

_SCALED = """
teir 1 "out = A x, both in one buffer"
tensor in0: FP64
tensor in1: FP64
tensor out: FP64
axis i = 3: in0 24, out 8
axis k = 3: in0 8, in1 8
primitive zero = Zero(out; M=[i], N=[])
primitive product = Contraction FP64 (in0, in1 -> out; M=[i], N=[], K=[k])
first: zero
main: product
"""


def square(seed: int = 0) -> Array:
    return np.random.default_rng(seed).random((5, 5))


def test_a_product_is_written_over_its_operand() -> None:
    a, b = square(), square(1)
    expected = a @ b
    result = teir.einsum("ij,jk->ik", a, b, out=a, overlap="copy")
    assert result is a
    np.testing.assert_allclose(a, expected)


@pytest.mark.parametrize("step", [1, -1])
def test_rows_that_meet_in_part(step: int) -> None:
    room = np.arange(40.0).reshape(8, 5)
    a, out = room[:5][::step], room[3:]
    expected = a.T.copy()
    teir.einsum("ij->ji", a, out=out, overlap="copy")
    np.testing.assert_array_equal(out, expected)


def test_the_sublist_form() -> None:
    a, b = square(), square(1)
    expected = a @ b
    teir.einsum(a, [0, 1], b, [1, 2], [0, 2], out=a, overlap="copy")
    np.testing.assert_allclose(a, expected)


def test_operands_apart_are_not_copied() -> None:
    a, b, out = square(), square(1), square(2)
    teir.einsum("ij,jk->ik", a, b, out=out, overlap="copy")
    assert out.tobytes() == teir.einsum("ij,jk->ik", a, b).tobytes()


@pytest.mark.parametrize("calls", [1, 4])
def test_a_plan(calls: int) -> None:
    a, b = square(), square(1)
    plan = teir.plan("ij,jk->ik", a, b)
    for _ in range(calls):
        expected = a @ b
        assert plan(a, b, out=a, overlap="copy") is a
        np.testing.assert_allclose(a, expected)


def test_tensordot_and_transpose() -> None:
    a, b = square(), square(1)
    expected = a @ b
    teir.tensordot(a, b, 1, out=a, overlap="copy")
    np.testing.assert_allclose(a, expected)
    expected = a.T.copy()
    teir.transpose(a, out=a, overlap="copy")
    np.testing.assert_array_equal(a, expected)


def test_the_vector_of_a_sparse_product() -> None:
    matrix = scipy.sparse.random_array((6, 6), density=0.4, format="csr", rng=0)
    x = np.arange(6.0)
    expected = matrix @ x
    assert teir.einsum("ij,j->i", matrix, x, out=x, overlap="copy") is x
    np.testing.assert_allclose(x, expected)
    plan = teir.plan("ij,j->i", matrix, x)
    for _ in range(3):
        expected = matrix @ x
        plan(matrix, x, out=x, overlap="copy")
        np.testing.assert_allclose(x, expected)


def test_the_values_of_a_sparse_operand() -> None:
    matrix = scipy.sparse.csr_array(np.diag(np.arange(1.0, 7.0)))
    out = matrix.data
    expected = 2 * out
    teir.einsum("ij,j->i", matrix, np.full(6, 2.0), out=out, overlap="copy")
    np.testing.assert_allclose(out, expected)


def test_sums_into_an_operand_read_it_as_it_was() -> None:
    a, x = square(), np.arange(5.0)
    expected = x + a @ x
    teir.einsum("y[i] += a[i,j] * x[j]", a, x, out=x, overlap="copy")
    np.testing.assert_allclose(x, expected)


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float64, torch.bfloat16):
        a, b = torch.ones(4, 4, dtype=dtype), torch.full((4, 4), 2.0, dtype=dtype)
        assert teir.einsum("ij,jk->ik", a, b, out=a, overlap="copy") is a
        assert (a == 8).all()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_program(backend: str) -> None:
    program = teir.loads(_SCALED)
    matrix, x = np.arange(9.0), np.arange(3.0)
    operands = {"in0": matrix, "in1": x, "out": x}
    with pytest.raises(TeirError, match="TEIR407"):
        teir.run(program, operands, backend=backend)
    expected = matrix.reshape(3, 3) @ x
    teir.run(program, operands, backend=backend, overlap="copy")
    np.testing.assert_allclose(x, expected)


def test_a_program_whose_base_lies_inside_its_buffer() -> None:
    buffer = np.arange(12.0)
    operands = {
        "in0": teir.Operand(buffer, 24),
        "in1": teir.Operand(buffer, 0),
        "out": teir.Operand(buffer, 0),
    }
    expected = buffer[3:].reshape(3, 3) @ buffer[:3]
    teir.compile(teir.loads(_SCALED)).run(operands, overlap="copy")
    np.testing.assert_allclose(buffer[:3], expected)
    np.testing.assert_array_equal(buffer[3:], np.arange(3.0, 12.0))


def test_an_out_that_overlaps_itself_is_refused_all_the_same() -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(9), (5, 5), (8, 8))
    with pytest.raises(TeirError, match=r"TEIR63[346]"):
        teir.einsum("ij,jk->ik", out, square(), out=out, overlap="copy")


@pytest.mark.parametrize("wrong", ["Copy", None, 1, True, np.ones(2)])
def test_other_modes_are_refused(wrong: Any) -> None:
    a = square()
    with pytest.raises(TeirError, match=r"TEIR649 at overlap: expected 'refuse' or 'copy'"):
        teir.einsum("ij->ji", a, overlap=wrong)
    with pytest.raises(TeirError, match="TEIR649"):
        teir.run(teir.loads(_SCALED), {"in0": a, "in1": a, "out": a}, overlap=wrong)


def test_the_refusal_says_what_would_do() -> None:
    a = square()
    with pytest.raises(TeirError, match="pass overlap='copy'"):
        teir.einsum("ij->ji", a, out=a)
