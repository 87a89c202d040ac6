"""Calls with tensors of PyTorch: known as those with matrices of SciPy, and as careful."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.pipeline.known_calls import KnownCall
from teir.pipeline.tensor_views import _view

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")

TEXT = "ij,jk->ik"
DENSE = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])


def rows(values: tuple[float, ...] = (2.0, 1.0, 3.0)) -> Any:
    return torch.sparse_csr_tensor(
        torch.tensor([0, 1, 3]), torch.tensor([1, 0, 2]), torch.tensor(values).double(), (2, 3)
    )


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The results of known calls."""
    found: list[Any] = []
    usual = KnownCall.run

    def run(call: KnownCall, operands: Any, out: Any) -> Any:
        found.append(usual(call, operands, out))
        return found[-1]

    monkeypatch.setattr(KnownCall, "run", run)
    return found


@pytest.mark.parametrize("is_plan", [False, True])
def test_later_calls_are_known(native: list[Any], is_plan: bool) -> None:
    sparse, dense = rows(), torch.arange(12, dtype=torch.float64).reshape(3, 4)
    call = teir.plan(TEXT, sparse, dense) if is_plan else lambda *one: teir.einsum(TEXT, *one)
    for factor in (1.0, 2.0, 3.0):
        got = call(sparse, factor * dense)
        assert isinstance(got, torch.Tensor)
        np.testing.assert_array_equal(got.numpy(), factor * DENSE @ dense.numpy())
    assert sum(one is not NotImplemented for one in native) == 2


def test_values_written_in_place_count(native: list[Any]) -> None:
    sparse, dense = rows(), torch.eye(3, dtype=torch.float64)
    teir.einsum(TEXT, sparse, dense)
    sparse.values().mul_(2)
    np.testing.assert_array_equal(teir.einsum(TEXT, sparse, dense).numpy(), 2 * DENSE)
    assert len(native) == 1
    sparse.col_indices()[0] = 2
    moved = DENSE[:, [0, 2, 1]] * [[2], [0]] + DENSE * [[0], [2]]
    np.testing.assert_array_equal(teir.einsum(TEXT, sparse, dense).numpy(), moved)


@pytest.mark.parametrize("wrong", [-1, 3, 1 << 40])
def test_indices_written_in_place_are_looked_at(wrong: int) -> None:
    sparse, dense = rows(), torch.eye(3, dtype=torch.float64)
    teir.einsum(TEXT, sparse, dense)
    sparse.col_indices()[1] = wrong
    with pytest.raises(teir.TeirError, match="TEIR673"):
        teir.einsum(TEXT, sparse, dense)


def test_rows_that_do_not_ascend_are_sorted() -> None:
    unsorted = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 3]), torch.tensor([1, 2, 0]), torch.tensor([2.0, 3.0, 1.0]), (2, 3)
    )
    assert _view(unsorted) is None
    for _ in range(2):
        got = teir.einsum(TEXT, unsorted, torch.eye(3))
        np.testing.assert_array_equal(got.numpy(), DENSE)


def test_out_is_the_tensor_given() -> None:
    sparse, dense = rows(), torch.eye(3, dtype=torch.float64)
    out = torch.empty(2, 3, dtype=torch.float64)
    for _ in range(3):
        out.zero_()
        assert teir.einsum(TEXT, sparse, dense, out=out) is out
        np.testing.assert_array_equal(out.numpy(), DENSE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.complex64])
def test_types_and_kinds(dtype: Any) -> None:
    plain = rows()
    sparse = torch.sparse_csr_tensor(
        plain.crow_indices(), plain.col_indices(), plain.values().to(dtype), (2, 3)
    )
    for _ in range(3):
        got = teir.einsum("ij,j->i", sparse, torch.ones(3, dtype=dtype))
        assert got.dtype == dtype
        assert got.to(torch.float32).tolist() == [2.0, 4.0]
    mixed = teir.einsum("ij,j->i", plain, np.ones(3))
    assert isinstance(mixed, torch.Tensor)
    total = teir.einsum("ij->", plain)
    assert (type(total), total.shape, total.item()) == (torch.Tensor, (), 6.0)


def test_gradients_are_refused_and_parts_that_moved_are_seen() -> None:
    sparse = rows()
    with pytest.raises(teir.TeirError, match="gradient"):
        teir.einsum("ij,j->i", sparse, torch.ones(3, dtype=torch.float64, requires_grad=True))
    first = _view(sparse)
    assert _view(sparse) is first
    other = rows((1.0, 1.0, 1.0))
    assert _view(other) is not first
    got = [teir.einsum("ij->i", one).tolist() for one in (sparse, other, sparse, other)]
    assert got == [[2.0, 4.0], [1.0, 2.0], [2.0, 4.0], [1.0, 2.0]]


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "float64"])
def test_tensors_whose_values_were_converted_are_looked_at_again(kind: str) -> None:
    values = torch.tensor([1, 0, 2, 0], dtype=getattr(torch, kind))[::2]
    rows, columns = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
    matrix = torch.sparse_csr_tensor(rows, columns, values, (2, 2))
    x = torch.ones(2, dtype=torch.float64)
    assert teir.einsum("ij,j->i", matrix, x).tolist() == [1, 2]
    matrix.values().mul_(10)
    assert teir.einsum("ij,j->i", matrix, x).tolist() == [10, 20]


def test_tensors_whose_columns_change_their_order_in_place_are_sorted() -> None:
    matrix = torch.tensor([[1.0, 2.0]], dtype=torch.float64).to_sparse_csr()
    x = torch.tensor([1.0, 10.0], dtype=torch.float64)
    for _ in range(2):
        assert teir.einsum("ij,j->i", matrix, x).tolist() == [21]
        for part in (matrix.col_indices(), matrix.values()):
            part.copy_(part.flip(0))


def test_types_that_numpy_does_not_know_are_refused() -> None:
    narrow = torch.ones(3).to(torch.float8_e4m3fn)
    matrix = torch.ones(2, 3)
    for call in (
        lambda: teir.einsum("A[i] = B[i,j] * C[j]", matrix, narrow),
        lambda: teir.einsum("A[i] = B[i,j] * C[j]", matrix, torch.ones(3), out=narrow[:2]),
        lambda: teir.einsum("ij,j->i", rows(), narrow),
    ):
        with pytest.raises(teir.TeirError, match="TEIR622"):
            call()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_are_refused_by_numbered_axes() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for call in (lambda: teir.transpose(nested), lambda: teir.tensordot(nested, nested)):
        with pytest.raises(teir.TeirError, match="a nested tensor"):
            call()


def test_a_tensor_is_no_type() -> None:
    with pytest.raises(teir.TeirError, match="a data type"):
        teir.einsum("i->i", np.ones(3), dtype=torch.ones(3))
