"""Numbers of index notation: every data type, every kind of result, calls seen before."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import teir
from teir.errors import TeirError

RNG = np.random.default_rng(5)
TYPES = (np.float64, np.float32, np.complex64, np.complex128, np.float16, ml_dtypes.bfloat16)

CASES = (
    ("y[i] = 2 * A[i,j] * x[j]", None),
    ("y[i] = 2 * A[i,j] * x[j] - 0.5 * x[i]", None),
    ("C[i,k] = 2 * A[i,j] * B[j,k] + x[i] * x[k] / 2", None),
    ("y = -2 * A[i,j] * B[i,j]", None),
    ("C[i,j] = 2 * A[i,j]", "ds"),
    ("C[i,j] = A[i,j] / 4 - 3 * B[i,j]", "ds"),
    ("C[i,k] = 2 * A[i,j] * B[j,k]", "ds"),
    ("C[i,k] = 2 * A[i,j] * B[j,k]", "ss"),
    ("C[i,j] = -3 * A[i,j] * B[i,j]", "ds"),
    ("C[i,j] = 3 * A[i,j] * x[j]", "ds"),
    ("C[i,j] = 2 * A[i,j] * x[j] - 0.5 * B[i,j] * x[i] + 2 * A[j,i]", "ds"),
    ("C[i,j,k] = 2 * A[i,j] * B[j,k] - A[i,k] * x[j]", "dds"),
)


def _operands(dtype: Any) -> dict[str, Any]:
    def whole(*shape: int) -> Any:
        numbers = RNG.integers(-2, 3, shape) * (RNG.random(shape) < 0.6)
        is_complex = np.dtype(dtype).kind == "c"
        return (
            (numbers + 1j * RNG.integers(-2, 3, shape) * (numbers != 0)) if is_complex else numbers
        )

    return {
        "A": whole(6, 6).astype(dtype),
        "B": whole(6, 6).astype(dtype),
        "x": whole(6).astype(dtype),
    }


def _stored(array: Any) -> teir.Sparse:
    coords = np.nonzero(array)
    return teir.Sparse.from_coo(coords, array[coords], array.shape, levels="ds")


def _dense(text: str, arrays: dict[str, Any]) -> Any:
    """NumPy's einsum, term by term."""
    output, right = text.split(" = ")
    letters = output.partition("[")[2].rstrip("]").replace(",", "")
    total: Any = 0
    for term in right.replace("- ", "+ -1 * ").split(" + "):
        product, _, divisor = term.partition(" / ")
        number, operands, inputs = 1 / float(divisor or 1), [], []
        for factor in product.split(" * "):
            name, _, indices = factor.rstrip("]").partition("[")
            if not indices:
                number *= float(name)
                continue
            operands.append(arrays[name])
            inputs.append(indices.replace(",", ""))
        total = total + number * np.einsum(f"{','.join(inputs)}->{letters}", *operands)
    return total


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("text", "levels"), CASES)
def test_numbers_multiply_their_terms(text: str, levels: str | None, dtype: Any) -> None:
    arrays = _operands(dtype)
    wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    expected = _dense(
        text.replace("= -", "= -1 * "), {n: a.astype(wide) for n, a in arrays.items()}
    )
    names = sorted((n for n in arrays if n in text), key=text.partition("=")[2].find)
    operands = [arrays[n] if n == "x" else _stored(arrays[n]) for n in names]
    plan = teir.plan(text, *operands, out_levels=levels)
    for call in (plan, plan, lambda *given: teir.einsum(text, *given, out_levels=levels)) * 2:
        found = call(*operands)
        dense = found.to_dense() if isinstance(found, teir.Sparse) else found
        assert found.dtype == dtype
        np.testing.assert_allclose(np.asarray(dense).astype(wide), expected, rtol=1e-2)


def test_numbers_of_known_calls_are_those_of_the_text() -> None:
    matrix, x = _stored(np.eye(3)), np.ones(3)
    for number in (2, 3, 2):
        text = f"y[i] = {number} * A[i,j] * x[j]"
        for _ in range(3):
            np.testing.assert_array_equal(teir.einsum(text, matrix, x), np.full(3, float(number)))


def test_imaginary_numbers_need_a_complex_result() -> None:
    matrix = _stored(np.eye(2))
    text = "C[i,j] = 2j * A[i,j] - 3 * A[i,j]"
    with pytest.raises(TeirError) as caught:
        teir.einsum(text, matrix)
    (finding,) = caught.value.findings
    assert (finding.code, str(finding.place)) == ("TEIR656", "line 1, column 10")
    np.testing.assert_array_equal(teir.einsum(text, matrix, dtype=complex), (2j - 3) * np.eye(2))
    for levels in ("ds", "ss"):
        found = teir.einsum(text, matrix, dtype=complex, out_levels=levels)
        np.testing.assert_array_equal(found.to_dense(), (2j - 3) * np.eye(2))


def test_numbers_add_into_the_old_value() -> None:
    out = np.ones(3)
    teir.einsum("y[i] += 2 * A[i,j] * x[j]", np.eye(3), np.ones(3), out=out)
    np.testing.assert_array_equal(out, [3, 3, 3])


def test_explain_prints_the_numbers() -> None:
    text = "y[i] = 2 * A[i,j] * x[j] - 0.5 * x[i]"
    shown = teir.plan(text, _stored(np.eye(3)), np.ones(3)).explain()
    assert "product 1: + 2 * A[i,j] * x[j]" in shown
    assert "product 2: - 0.5 * x[i]" in shown


def test_a_number_alone_is_refused() -> None:
    with pytest.raises(TeirError, match="a sparse result would store every element"):
        teir.einsum("C[i,j] = A[i,j] + 1", _stored(np.eye(2)), out_levels="ds")
