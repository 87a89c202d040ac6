"""Index notation on dense operands: einsums of the dense half, against NumPy in a wider type."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import teir
from pipeline.tuning_folder import own_folder
from teir.pipeline import sparse_einsum

Array = np.ndarray[Any, np.dtype[Any]]

EPSILONS = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "complex64": 1e-6}
TYPES = (
    np.float64, np.float32, np.complex64, np.complex128, np.float16, ml_dtypes.bfloat16,
    np.int64, np.int8, np.bool_,
)  # fmt: skip
WORDS = ("i", "j", "k", "mu", "T0", "in0")
LADDER = "R[a,b,i,j] = V[a,b,c,d] * T[c,d,i,j]"


def wide(array: Any) -> Array:
    array = np.asarray(array)
    short = array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array
    made: Array = short.astype(np.complex128)
    return made


def drawn(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Array:
    """Small integers in C order, in Fortran's, with gaps, or backwards."""
    made = np.asarray(rng.integers(0 if dtype is np.bool_ else -3, 2, shape)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        made = made + np.asarray(1j * rng.integers(-2, 3, shape)).astype(dtype)
    match int(rng.integers(5)):
        case 0:
            return np.asarray(made, order="F")
        case 1 if made.ndim:
            spread = np.repeat(made, 2, axis=-1)
            return spread[..., ::2]
        case 2 if made.ndim:
            return made[::-1].copy()[::-1]
    return np.asarray(made)


def random_case(seed: int) -> tuple[str, list[Array], Array, Array]:
    """The right side, its operands, what it means, and the sum of the terms' magnitudes."""
    rng = np.random.default_rng(seed)
    pool = rng.permutation(WORDS)[: rng.integers(1, 5)].tolist()
    extents = {
        word: int(rng.choice([0, 1, 2, 3, 5, 9], p=[0.03, 0.17, 0.2, 0.2, 0.2, 0.2]))
        for word in pool
    }
    output = [word for word in pool if rng.random() < 0.4]
    dtype = TYPES[rng.integers(len(TYPES))]
    numbers = {word: place for place, word in enumerate(pool)}
    texts: list[str] = []
    operands: list[Array] = []
    shape = [extents[word] for word in output]
    meant, most = np.zeros(shape, np.complex128), np.zeros(shape)
    for _ in range(rng.integers(1, 4)):
        factors = [
            rng.choice(
                pool, rng.integers(0, 4), replace=bool(rng.random() < 0.2) or len(pool) < 4
            ).tolist()
            for _ in range(rng.integers(1, 5))
        ]
        factors[0] += [word for word in output if not any(word in one for one in factors)]
        scale = float(rng.choice([1, 1, -1, 2, -0.5, 0]))
        names: list[str] = []
        arguments: list[Any] = []
        for indices in factors:
            array = drawn(rng, [extents[word] for word in indices], dtype)
            names.append(f"B{len(operands)}" + (f"[{','.join(indices)}]" if indices else ""))
            operands.append(array)
            arguments += [wide(array), [numbers[word] for word in indices]]
        target = [numbers[word] for word in output]
        meant += scale * np.einsum(*arguments, target)
        magnitudes = [one if isinstance(one, list) else abs(one) for one in arguments]
        most += abs(scale) * np.einsum(*magnitudes, target)
        texts.append(f"{'-' if scale < 0 else '+'} {abs(scale)} * {' * '.join(names)}")
    left = f"R[{','.join(output)}]" if output else "R"
    return f"{left} = {' '.join(texts).removeprefix('+ ')}", operands, meant, most


@pytest.mark.parametrize("block", range(10))
def test_random_sums_of_products(block: int) -> None:
    for seed in range(12 * block, 12 * block + 12):
        text, operands, meant, most = random_case(seed)
        threads = 1 + seed % 2
        found = np.asarray(teir.einsum(text, *operands, threads=threads))
        bound = 4 * EPSILONS.get(found.dtype.name, 1e-13) * (most + 1)
        assert found.shape == meant.shape
        assert np.all(abs(wide(found) - meant) <= bound), f"{seed}: {text}"
        again = teir.einsum(text, *operands, threads=threads)
        np.testing.assert_array_equal(wide(again), wide(found), f"{seed}: {text}, again")
        out = np.array(found)
        teir.einsum(text.replace("=", "+=", 1), *operands, out=out, threads=threads)
        assert np.all(abs(wide(out) - 2 * meant) <= 2 * bound), f"{seed}: {text}, added"


def test_a_dense_product_is_planned_as_an_einsum() -> None:
    told = teir.plan(LADDER, (6, 6, 6, 6), (6, 6, 3, 3)).explain()
    assert "all factors are dense: planned as the einsum abcd,cdij->abij" in told
    assert LADDER in told


def test_several_factors_are_multiplied_in_pairs() -> None:
    text = "y[row] = A[row,mu] * B[mu,nu] * x[nu]"
    told = teir.plan(text, (50, 60), (60, 70), (70,)).explain()
    products = [line for line in told.splitlines() if line.endswith(" products)")]
    assert [int(line.split("(")[1].split()[0].replace(",", "")) for line in products] == [
        60 * 70,
        50 * 60,
    ]


def test_elementwise_products_stay_loop_nests() -> None:
    told = teir.plan("R[i,j] = A[i,j] * B[j,i]", (9, 9), (9, 9)).explain()
    assert "all factors are dense" not in told


def test_a_dense_term_beside_a_sparse_one() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.random((9, 8)), rng.random((8, 7)), rng.random((9, 7))
    kept = np.where(rng.random((9, 8)) < 0.3, a, 0)
    coords = np.array(np.nonzero(kept))
    stored = teir.Sparse.from_coo(coords, kept[tuple(coords)], kept.shape, levels="ds")
    text = "R[i,k] = S[i,j] * B[j,k] - 0.5 * A[i,j] * B[j,k] + C[i,k]"
    plan = teir.plan(text, stored, b, a, c)
    assert plan.explain().count("all factors are dense") == 2
    assert "ij,jk->ik" in plan.explain()
    expected = kept @ b - 0.5 * a @ b + c
    np.testing.assert_allclose(plan(stored, b, a, c), expected)


def test_a_repeated_call_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    v, t = rng.random((4, 4, 4, 4)), rng.random((4, 4, 3, 3))
    first = teir.einsum(LADDER, v, t)
    monkeypatch.setattr(sparse_einsum, "stages_of", None)
    np.testing.assert_array_equal(teir.einsum(LADDER, v.copy(), t.copy()), first)


def test_sums_of_three_terms_again() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.random((5, 5)) for _ in range(3))
    text = "R[i,k] = A[i,j] * B[j,k] - 2 * B[i,j] * C[j,k] + C[i,j] * A[j,k] - C[i,k]"
    expected = a @ b - 2 * b @ c + c @ a - c
    for _ in range(3):
        np.testing.assert_allclose(teir.einsum(text, a, b, c), expected)


def test_intermediates_there_is_no_room_for_are_not_made() -> None:
    rng = np.random.default_rng(0)
    a, b, x = rng.random((40, 50)), rng.random((50, 60)), rng.random((60, 30))
    text = "R[i,l] = A[i,j] * B[j,k] * X[k,l]"
    limit = 8 * 40 * 30 + 4096
    plan = teir.plan(text, a, b, x, threads=1, memory_limit=limit)
    assert "all factors are dense" not in plan.explain()
    np.testing.assert_allclose(plan(a, b, x), a @ b @ x)


def test_the_bits_do_not_depend_on_the_threads() -> None:
    rng = np.random.default_rng(0)
    v, t = rng.random((12, 12, 12, 12)), rng.random((12, 12, 5, 5))
    first, second = (
        teir.einsum(LADDER, v, t, threads=threads, deterministic="threads") for threads in (1, 3)
    )
    np.testing.assert_array_equal(first, second)


def test_tuning_measures_the_programs_of_the_einsum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = np.ones((24, 24)), np.ones((24, 24))
    with own_folder(tmp_path, monkeypatch):
        assert "tuned on" not in teir.plan("ik,kl->il", a, b).explain()
        teir.plan("R[i,l] = A[i,k] * B[k,l]", a, b, tune=True)
        assert "tuned on" in teir.plan("ik,kl->il", a, b).explain()
