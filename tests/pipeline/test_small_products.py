"""Odd, tiny and batched einsums by native code: right in every type, the same bits however run."""

from __future__ import annotations

import numpy as np
import pytest

import teir

CASES = (
    ("k,k->", ((70_001,), (70_001,))),
    ("ik,ki->", ((130, 61), (61, 130))),
    ("ik,k->i", ((301, 259), (259,))),
    ("ik,k->i", ((5, 70_003), (70_003,))),
    ("bik,bk->bi", ((8, 31, 127), (8, 127))),
    ("bk,bk->b", ((1009, 31), (1009, 31))),
    ("ki,k->i", ((140, 1009), (140,))),
    ("ikb,kb->ib", ((3, 13, 4096), (13, 4096))),
    ("bik,bkj->bij", ((700, 7, 7), (700, 7, 7))),
    ("bik,bkj->bij", ((300, 4, 7), (300, 7, 13))),
    ("ikb,kjb->ijb", ((8, 8, 1024), (8, 8, 1024))),
    ("ikb,kjb->bij", ((5, 4, 333), (4, 3, 333))),
    ("ij,ji->ij", ((260, 130), (130, 260))),
    ("ij,i->ij", ((300, 301), (300,))),
)


def draw(shapes: tuple[tuple[int, ...], ...], dtype: str) -> list[np.ndarray]:
    numbers = np.random.default_rng(5)
    arrays = [numbers.standard_normal(shape) for shape in shapes]
    if dtype.startswith("complex"):
        arrays = [array + 1j * numbers.standard_normal(array.shape) for array in arrays]
    return [array.astype(dtype) for array in arrays]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
@pytest.mark.parametrize(("text", "shapes"), CASES)
def test_right_and_the_same_bits_on_any_threads(
    text: str, shapes: tuple[tuple[int, ...], ...], dtype: str
) -> None:
    arrays = draw(shapes, dtype)
    wide = [array.astype(np.complex128 if "complex" in dtype else np.float64) for array in arrays]
    exact = np.einsum(text, *wide, optimize=True)
    magnitude = np.einsum(text, *map(np.abs, wide), optimize=True)
    results = [
        teir.einsum(text, *arrays, threads=threads, deterministic="threads") for threads in (1, 2)
    ]
    results += [teir.einsum(text, *arrays, threads=threads) for threads in (1, 2)]
    terms = max(max(shape) for shape in shapes)
    unit = 2.0**-52 if dtype == "float64" else 2.0**-23
    stored = 2.0**-10 if dtype == "float16" else 0
    bound = (4 * (terms + 2) * unit + stored) * magnitude + 2.0**-24 * (stored > 0)
    assert all(np.all(np.abs(result - exact) <= bound) for result in results)
    np.testing.assert_array_equal(*results[:2])


@pytest.mark.parametrize(("text", "shapes"), CASES)
def test_the_specialised_function_gives_the_same_bits(
    text: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    arrays = draw(shapes, "float32")
    plan = teir.plan(text, *arrays, threads=1)
    expected = np.asarray(plan(*arrays))
    out = np.zeros_like(expected)
    addresses = tuple(array.ctypes.data for array in (*arrays, out))
    assert plan.executable is not None
    plan.executable.specialised().run_addresses(addresses)
    np.testing.assert_array_equal(out, expected)
