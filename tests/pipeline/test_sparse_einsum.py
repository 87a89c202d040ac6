"""Sparse products through einsum and plan: against the dense meaning, and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.errors import TeirError
from teir.pipeline import sparse_terms
from teir.pipeline.sparse_operands import hold
from teir.pipeline.sparse_plan import SparsePlan
from teir.soak.sparse_products import compare_product, pair_count

scipy_sparse = pytest.importorskip("scipy.sparse")

Array = np.ndarray[Any, np.dtype[Any]]


def integers(*shape: int, seed: int = 0, density: float = 1.0) -> Array:
    random = np.random.default_rng((seed, *shape))
    return np.asarray(random.integers(-3, 4, shape) * (random.random(shape) < density), float)


def code_of(call: Any) -> str:
    with pytest.raises(TeirError) as caught:
        call()
    assert str(caught.value)
    return caught.value.findings[0].code


B = integers(6, 8, density=0.4)
C, D, E = integers(6, 5), integers(8, 5, seed=1), integers(8, 7)
CSR = scipy_sparse.csr_array(B)


@pytest.mark.parametrize("number", range(0, 240, 3))
def test_random_products_in_random_formats(number: int) -> None:
    assert compare_product(pair_count() + number)["wrong"] == []


@pytest.mark.parametrize("number", [6134, 6483, 9198])
def test_products_that_failed_once(number: int) -> None:
    assert compare_product(number)["wrong"] == []


@pytest.mark.parametrize("number", range(5, pair_count(), 53))
def test_pairs_of_formats(number: int) -> None:
    assert compare_product(number)["wrong"] == []


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr", "lil", "teir"])
def test_the_fused_product_in_every_kind(kind: str) -> None:
    expected = np.einsum("ij,ik,jk,jl->il", B, C, D, E)
    given: Any = teir.Sparse.from_scipy(CSR)
    if kind != "teir":
        given = CSR.tobsr(blocksize=(2, 4)) if kind == "bsr" else CSR.asformat(kind)
    text = "A[i,l] = B[i,j] * C[i,k] * D[j,k] * E[j,l]"
    np.testing.assert_array_equal(teir.einsum("ij,ik,jk,jl->il", given, C, D, E), expected)
    np.testing.assert_array_equal(teir.einsum(text, given, C, D, E), expected)
    out = np.empty_like(expected)
    assert teir.einsum(text, given, C, D, E, out=out) is out
    np.testing.assert_array_equal(out, expected)


def test_blocks_become_axes_of_the_program() -> None:
    blocks = CSR.tobsr(blocksize=(2, 4))
    plan = teir.plan("ij,jl->il", blocks, E)
    assert isinstance(plan, SparsePlan)
    assert [axis.name for axis in plan.program.axes if axis.is_sparse] == ["j.in0"]
    assert {axis.extent for axis in plan.program.axes} >= {2, 4, 3, 7}
    np.testing.assert_array_equal(plan(blocks, E), B @ E)


def test_blocks_to_a_dense_result_in_another_order() -> None:
    got = teir.einsum("ij,jl->il", CSR.tobsr(blocksize=(2, 4)), E, out_levels="dd:1,0")
    np.testing.assert_array_equal(got.to_dense(), B @ E)


def test_native_code_runs_sparse_products() -> None:
    assert "computed by: native code" in teir.plan("ij,jl->il", CSR, E).explain()


def test_a_plan_is_called_with_other_patterns() -> None:
    plan = teir.plan("A[i,l] = B[i,j] * E[j,l]", CSR, (8, 7))
    other = integers(6, 8, seed=9, density=0.7)
    np.testing.assert_array_equal(plan(scipy_sparse.csr_array(other), E), other @ E)
    np.testing.assert_array_equal(plan(CSR, np.asfortranarray(E)), B @ E)
    empty = scipy_sparse.csr_array((6, 8))
    np.testing.assert_array_equal(plan(empty, E), np.zeros((6, 7)))


def test_sums_differences_and_accumulation() -> None:
    f, g = integers(6, 7, seed=2), integers(6, 7, seed=3)
    got = teir.einsum("A[i,l] = -F[i,l] + B[i,j]*E[j,l] - G[i,l]", f, CSR, E, g)
    np.testing.assert_array_equal(got, B @ E - f - g)
    out = f.copy()
    teir.einsum("A[i,l] += B[i,j]*E[j,l]", CSR, E, out=out)
    np.testing.assert_array_equal(out, f + B @ E)
    assert code_of(lambda: teir.einsum("A[i,l] += B[i,j]*E[j,l]", CSR, E)) == "TEIR686"


def test_dense_index_notation_takes_long_names() -> None:
    got = teir.einsum("Out[row,col] = left[row,mid] * right[mid,col]", C, integers(5, 4))
    np.testing.assert_array_equal(got, C @ integers(5, 4))


def test_scalars_of_tensors_have_no_axis() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(B)
    for operand in (tensor.to_sparse_csr(), tensor.to_sparse()):
        found = teir.einsum("ij->", operand)
        assert found.shape == ()
        assert float(found) == B.sum()


def test_intersections() -> None:
    other = scipy_sparse.csr_array(integers(6, 8, seed=4, density=0.5))
    assert teir.einsum("ij,ij->", CSR, other) == (B * other.toarray()).sum()
    np.testing.assert_array_equal(
        teir.einsum("ij,ij,ij->i", CSR, other, CSR), (B * B * other.toarray()).sum(1)
    )


@pytest.mark.parametrize("levels", ["ds", "ss", "ds:1,0", "sd", "dd", "ss:1,0"])
def test_products_of_sparse_matrices_store_what_scipy_stores(levels: str) -> None:
    other = scipy_sparse.csr_array(integers(8, 9, seed=5, density=0.3))
    got = teir.einsum("ij,jk->ik", CSR, other, out_levels=levels)
    assert isinstance(got, teir.Sparse)
    assert str(got.format) == levels
    got.require_valid("result")
    np.testing.assert_array_equal(got.to_dense(), (CSR @ other).toarray())
    if "d" not in levels[1:2]:
        ones = scipy_sparse.csr_array((np.ones(CSR.nnz), CSR.indices, CSR.indptr), shape=CSR.shape)
        reached = (ones @ abs(other)).nnz
        assert got.nnz == reached


def test_without_room_for_a_row_operands_are_sorted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_terms, "_LARGEST_WORKSPACE", 8)
    other = scipy_sparse.csr_array(integers(8, 9, seed=5, density=0.3))
    plan = teir.plan("ij,jk->ik", CSR, other, out_levels="ds")
    assert "sorted" in plan.explain()
    np.testing.assert_array_equal(plan(CSR, other).to_dense(), (CSR @ other).toarray())


def test_the_pattern_of_a_sum_is_the_union() -> None:
    left = teir.Sparse.from_coo([[0, 1], [1, 2]], [1.0, 2.0], (3, 3))
    right = teir.Sparse.from_coo([[0, 2], [1, 0]], [-1.0, 4.0], (3, 3))
    got = teir.einsum("A[i,j] = B[i,j] + C[i,j]", left, right, out_levels="ss")
    assert got.to_coo()[0].tolist() == [[0, 1, 2], [1, 2, 0]]
    assert got.values.tolist() == [0, 2, 4]
    product = teir.einsum("A[i,j] = B[i,j] * C[i,j]", left, right, out_levels="ss")
    assert product.to_coo()[0].tolist() == [[0], [1]]


def test_a_sparse_result_of_dense_levels_below() -> None:
    tensor = integers(3, 4, 5, density=0.2)
    coords = np.nonzero(tensor)
    sparse = teir.Sparse.from_coo(coords, tensor[coords], tensor.shape, "dss")
    plan = teir.plan("A[i,j,m] = B[i,j,k] * C[k,m]", sparse, (5, 6), out_levels="dsd")
    got = plan(sparse, integers(5, 6))
    assert got.nnz == 6 * int(tensor.any(axis=2).sum())
    np.testing.assert_array_equal(got.to_dense(), tensor @ integers(5, 6))
    assert "pattern: that of the sparse operand" in plan.explain()


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float32", "float32"), ("complex64", "complex64"), ("int32", "float64"), ("bool", "float64")],
)
def test_types(dtype: str, expected: str) -> None:
    matrix = scipy_sparse.csr_array(B.astype(dtype))
    got = teir.einsum("ij->i", matrix)
    assert got.dtype == expected
    np.testing.assert_array_equal(got, B.astype(dtype).astype(expected).sum(1))


def test_bf16_is_summed_in_fp32_and_rounded_once() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.ones(300).astype(ml_dtypes.bfloat16)
    sparse = teir.Sparse.from_coo((np.arange(300),), values, (300,))
    got = teir.einsum("i->", sparse)
    assert (got, got.dtype) == (300, ml_dtypes.bfloat16)
    wide = teir.einsum("i->", sparse, dtype="float64")
    assert (wide, wide.dtype) == (300, np.float64)


def test_wide_and_narrow_indices_meet() -> None:
    wide = scipy_sparse.csr_array(
        (CSR.data, CSR.indices.astype(np.int64), CSR.indptr.astype(np.int64)), shape=CSR.shape
    )
    np.testing.assert_array_equal(teir.einsum("ij,ij->ij", CSR, wide), B * B)


def test_a_result_is_a_tensor_where_an_operand_is() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(B).to_sparse_csr()
    got = teir.einsum("ij,jl->il", tensor, E)
    assert isinstance(got, torch.Tensor)
    np.testing.assert_array_equal(got.numpy(), B @ E)


@pytest.mark.parametrize("kinds", [("csr", "csr"), ("csc", "csc"), ("csr", "csc"), ("csc", "csr")])
@pytest.mark.parametrize("levels", ["ds", "ss", "ds:1,0", "ss:1,0"])
@pytest.mark.parametrize("text", ["ij,kj->ik", "ji,jk->ik", "ij,jk->ki"])
def test_products_of_turned_matrices_go_row_by_row(
    kinds: tuple[str, str], levels: str, text: str
) -> None:
    square = B[:6, :6]
    left, right = (scipy_sparse.csr_array(square).asformat(kind) for kind in kinds)
    got = teir.einsum(text, left, right, out_levels=levels)
    np.testing.assert_array_equal(got.to_dense(), np.einsum(text, square, square))
    told = teir.plan(text, left, right, out_levels=levels).explain()
    assert "pattern: computed with the numbers, row by row" in told


@pytest.mark.parametrize("levels", [None, "ds"])
def test_lists_of_integers_name_axes_of_sparse_operands_too(levels: str | None) -> None:
    got = teir.einsum(CSR, [0, 1], E, [1, 2], [0, 2], out_levels=levels)
    dense = got.to_dense() if isinstance(got, teir.Sparse) else got
    np.testing.assert_array_equal(dense, B @ E)
    plan = teir.plan(CSR, [0, 1], E, [1, 2], [0, 2], out_levels=levels)
    again = plan(CSR, E)
    dense = again.to_dense() if isinstance(again, teir.Sparse) else again
    np.testing.assert_array_equal(dense, B @ E)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("bool", "float32", "float32"),
        ("int8", "float32", "float32"),
        ("uint16", "complex64", "complex64"),
        ("int32", "float32", "float64"),
        ("int16", "float64", "float64"),
        ("bool", "int8", "float64"),
        ("int64", "int64", "float64"),
    ],
)
def test_whole_numbers_are_promoted_as_numpy_does(left: str, right: str, expected: str) -> None:
    matrix = scipy_sparse.csr_array(np.abs(B).astype(left))
    factor = E.astype(right)
    exact = matrix.toarray().astype(float) @ factor.astype(complex)
    for _ in range(2):
        got = teir.einsum("ij,jl->il", matrix, factor)
        assert got.dtype == expected
        np.testing.assert_array_equal(got, exact)
    stored = teir.einsum("ij,jl->il", matrix, factor, out_levels="ds")
    assert stored.dtype == expected
    np.testing.assert_array_equal(stored.to_dense(), exact)


class TestChanges:
    """Buffers that change between calls."""

    def test_values_changed_in_place_count(self) -> None:
        for kind in ("csr", "coo", "bsr", "dia"):
            matrix = scipy_sparse.csr_array(B).asformat(kind)
            np.testing.assert_array_equal(teir.einsum("ij,jl->il", matrix, E), B @ E)
            matrix.data *= 2
            np.testing.assert_array_equal(teir.einsum("ij,jl->il", matrix, E), 2 * B @ E)

    def test_index_arrays_broken_in_place_are_refused(self) -> None:
        matrix = scipy_sparse.csr_array(B)
        plan = teir.plan("ij,jl->il", matrix, E)
        plan(matrix, E)
        matrix.indices[3] = 10**6
        assert code_of(lambda: plan(matrix, E)) == "TEIR673"
        source = scipy_sparse.csr_array(B)
        shared = teir.Sparse.from_scipy(source)
        source.indptr[2] = -5
        assert code_of(lambda: plan(shared, E)) == "TEIR672"

    def test_conversions_are_kept_until_the_source_changes(self) -> None:
        matrix = scipy_sparse.coo_array(B)
        first, again = hold("x", matrix), hold("x", matrix)
        assert first.array is again.array
        matrix.data[0] += 1
        assert hold("x", matrix).array is not first.array
        text = teir.plan("ij,jl->il", matrix, E).explain()
        assert "converted: coo_array taken as ds" in text
        assert " ms" in text


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: teir.einsum("ij,jl->il", CSR), "TEIR606"),
        (lambda: teir.einsum("ij,jl->il", CSR, C), "TEIR608"),
        (lambda: teir.einsum("A[i] = B[i,j]", CSR, E), "TEIR688"),
        (lambda: teir.einsum("A[i] = B[i,j", CSR), "TEIR650"),
        (lambda: teir.einsum("A[i] = B[i,j]*C[j]", CSR, np.ones(9)), "TEIR655"),
        (lambda: teir.einsum("ij->ij", CSR, out_levels="d"), "TEIR685"),
        (lambda: teir.einsum("ij->ij", CSR, out_levels="dx"), "TEIR660"),
        (lambda: teir.einsum("ij->ij", CSR, out_levels=3), "TEIR685"),
        (lambda: teir.einsum("ij->ij", CSR, out_levels="ds", out=B.copy()), "TEIR686"),
        (lambda: teir.einsum("ij->ij", CSR, out=np.empty((6, 9))), "TEIR686"),
        (lambda: teir.einsum("ij->ij", CSR, out=np.empty((6, 8), "float32")), "TEIR686"),
        (lambda: teir.einsum("ij->ij", CSR, out=np.empty((6, 16))[:, ::2]), "TEIR686"),
        (lambda: teir.einsum("ij->j", CSR, out=CSR.data[:8]), "TEIR686"),
        (lambda: teir.einsum("ij->ij", CSR, out=[1]), "TEIR686"),
        (lambda: teir.einsum("A[i] += B[i,j]", CSR, out_levels="s"), "TEIR686"),
        (lambda: teir.einsum("ij,j->i", CSR, None), "TEIR621"),
        (lambda: teir.einsum("ij,j->i", CSR, "text"), "TEIR621"),
        (lambda: teir.einsum("ij,jk->ik", CSR, [[1.0], [1.0, 2.0]]), "TEIR621"),
        (lambda: teir.plan("ij,jk->ik", CSR, (-8, 3)), "TEIR671"),
        (lambda: teir.plan("ij,jk->ik", CSR, (8.0, 3)), "TEIR671"),
        (lambda: teir.einsum("ij->ij", CSR, memory_limit=10), "TEIR643"),
        (lambda: teir.einsum("ij->ij", CSR, memory_limit=1.5), "TEIR643"),
        (lambda: teir.einsum("ij->ij", CSR, optimize=[(0,)]), "TEIR687"),
        (lambda: teir.einsum("ij->ij", CSR, deterministic="no"), "TEIR646"),
        (lambda: teir.plan("ij->ij", CSR, deterministic="no"), "TEIR646"),
        (lambda: teir.einsum("ij->ij", CSR, dtype="int32"), "TEIR689"),
        (lambda: teir.plan("ij->i", CSR)(scipy_sparse.csr_array((6, 9))), "TEIR688"),
        (lambda: teir.plan("ij->i", CSR)(CSR.tocsc()), "TEIR688"),
    ],
)
def test_refusals(call: Any, code: str) -> None:
    assert code_of(call) == code


def test_a_tensor_named_twice_is_one_operand() -> None:
    square = scipy_sparse.csr_array(np.eye(4))
    with pytest.raises(TeirError, match="expected 1 operand: B, found 2") as caught:
        teir.einsum("A[i,l] = B[i,j] * B[j,l]", square, square)
    assert caught.value.findings[0].hint == "a tensor named more than once is one operand"


def test_a_binsparse_array_needs_no_shape() -> None:
    matrix = scipy_sparse.csr_array(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]))

    class Exporter:
        def __binsparse_descriptor__(self) -> dict[str, Any]:
            return {"binsparse": {"version": "0.1", "format": "CSR", "shape": [2, 3]}}

        def __binsparse__(self) -> dict[str, Any]:
            parts = (matrix.indptr, matrix.indices, matrix.data)
            return dict(zip(("pointers_to_1", "indices_1", "values"), parts, strict=True))

    vector = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(teir.einsum("ij,j->i", Exporter(), vector), matrix @ vector)
