"""Random sums of products in index notation against the dense meaning; scalars among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import teir
from teir.soak.index_notation_cases import notation_case


@pytest.mark.parametrize("block", range(8))
def test_random_sums_of_products(block: int) -> None:
    for number in range(8 * block, 8 * block + 8):
        case = notation_case(number)
        text = str(case.assignment)
        threads = 1 + number % 2
        found = teir.einsum(text, *case.operands, out_levels=case.out_levels, threads=threads)
        if isinstance(found, teir.Sparse):
            assert case.out_levels is not None
            found = found.to_dense()
        np.testing.assert_array_equal(found, case.expected, f"{number}: {text}")


@pytest.mark.parametrize(
    "text", ["A[k] = b * C[j,k] * D[j]", "A[k] = C[j,k] * b * c", "A = b * c * d", "A = b * c"]
)
def test_factors_without_indices(text: str) -> None:
    arrays = {
        "C": np.arange(6.0).reshape(2, 3),
        "D": np.array([2.0, -1.0]),
        "b": np.float64(3),
        "c": np.float64(-2),
        "d": np.float64(5),
    }
    names = [name for name in sorted(arrays, key=text.find) if name in text.split("=")[1]]
    dense = {
        "A[k] = b * C[j,k] * D[j]": 3 * arrays["D"] @ arrays["C"],
        "A[k] = C[j,k] * b * c": -6 * arrays["C"].sum(0),
        "A = b * c * d": -30.0,
        "A = b * c": -6.0,
    }
    found = teir.einsum(text, *(arrays[name] for name in names))
    np.testing.assert_array_equal(found, dense[text])


@pytest.mark.parametrize("names", [("T0", "T1", "T2", "T3"), ("H3", "H2", "H1", "P1"), "CBDE"])
def test_tensors_may_have_the_names_that_temporaries_would_have(names: Sequence[str]) -> None:
    first, second, third, fourth = names
    text = f"A = {first}[j,k,m] * {second}[l,j] * {third}[m,k] * {fourth}[i,k]"
    rng = np.random.default_rng(0)
    shapes = ((9, 17, 1), (2, 9), (1, 17), (9, 17))
    arrays = [rng.integers(-3, 4, shape).astype(np.float64) for shape in shapes]
    coords = np.array(np.nonzero(arrays[0]))
    stored = teir.Sparse.from_coo(coords, arrays[0][tuple(coords)], shapes[0], levels="sss")
    assert teir.einsum(text, stored, *arrays[1:]) == np.einsum("jkm,lj,mk,ik->", *arrays)


@pytest.mark.parametrize("sign", ["=", "+="])
def test_an_out_that_cannot_be_written_is_told_for_what_it_is(sign: str) -> None:
    b, c = np.ones((3, 2)), np.ones((2, 4))
    read_only = np.ones((3, 4))
    read_only.flags.writeable = False
    cases = {
        "found a read-only array": read_only,
        "expected an array of NumPy or PyTorch, found list": [[1.0]],
        "or of index notation is a writable, C-contiguous array": np.ones((4, 3)).T,
    }
    for words, out in cases.items():
        with pytest.raises(teir.TeirError, match="TEIR686") as caught:
            teir.einsum(f"A[i,k] {sign} B[i,j] * C[j,k]", b, c, out=out)
        assert words in str(caught.value)
    assert read_only.tolist() == [[1.0] * 4] * 3


@pytest.mark.parametrize("kind", [np.int64, np.bool_])
def test_integers_and_booleans_are_computed_in_float64(kind: type[np.generic]) -> None:
    b, c = np.ones((3, 2), kind), np.ones((2, 4), kind)
    found = teir.einsum("A[i,k] = B[i,j] * C[j,k]", b, c)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.full((3, 4), 2.0))
