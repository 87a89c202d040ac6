"""Sparse arrays: any levels in any order, from and to other kinds, wrong parts refused."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import teir
from teir.arrays.levels import Format, Level
from teir.arrays.sparse import Sparse
from teir.arrays.sparse_adapters import is_sparse
from teir.errors import TeirError

Array = np.ndarray[Any, np.dtype[Any]]


def code_and_text(call: Any) -> tuple[str, str]:
    with pytest.raises(TeirError) as caught:
        call()
    return caught.value.findings[0].code, str(caught.value)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(0, 4)) for _ in range(rank))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density = draw(st.sampled_from((0.0, 0.3, 1.0)))
    return np.asarray(random.integers(-5, 6, shape) * (random.random(shape) < density), float)


@st.composite
def formats(draw: st.DrawFn, rank: int) -> Format:
    levels = tuple(draw(st.sampled_from(list(Level))) for _ in range(rank))
    return Format(levels=levels, mode_order=tuple(draw(st.permutations(range(rank)))))


@settings(max_examples=200, deadline=None)
@given(arrays(), st.data())
def test_every_format_holds_every_array(dense: Array, data: st.DataObject) -> None:
    fmt = data.draw(formats(dense.ndim))
    letters = "".join(level.value for level in fmt.levels)
    coords = np.nonzero(dense)
    sparse = Sparse.from_coo(coords, dense[coords], dense.shape, letters, fmt.mode_order)
    sparse.require_valid("array")
    assert sparse.format == fmt
    np.testing.assert_array_equal(sparse.to_dense(), dense)
    found, values = sparse.to_coo()
    assert found.shape == (dense.ndim, values.size)
    np.testing.assert_array_equal(dense[tuple(found)], values)
    other = data.draw(formats(dense.ndim))
    again = sparse.converted(str(other))
    again.require_valid("array")
    np.testing.assert_array_equal(again.to_dense(), dense)


def test_coordinates_are_sorted_and_duplicates_summed_in_their_order() -> None:
    sparse = teir.Sparse.from_coo(
        [[1, 0, 1, 1], [2, 0, 2, 1]], [1e16, 5.0, 1.0, 3.0], (2, 3), levels="ds"
    )
    level = sparse.stored[1]
    assert level is not None
    assert level.pos.tolist() == [0, 1, 3]
    assert level.crd.tolist() == [0, 1, 2]
    assert sparse.values.tolist() == [5.0, 3.0, 1e16 + 1.0]
    assert sparse.index_dtype == np.int32


def test_coordinates_by_element_are_taken_too() -> None:
    coords = np.array([[0, 1], [1, 2], [0, 0]])
    sparse = Sparse.from_coo(coords, [1.0, 2.0, 3.0], (2, 3))
    assert sparse.to_dense().tolist() == [[3, 1, 0], [0, 0, 2]]


def test_large_extents_take_wide_indices() -> None:
    shape = (2**40, 2**41, 3)
    sparse = Sparse.from_coo([[2**39, 1], [2**40, 0], [2, 1]], [1.0, 2.0], shape, "sss")
    assert sparse.index_dtype == np.int64
    assert sparse.to_coo()[0].tolist() == [[1, 2**39], [0, 2**40], [1, 2]]


def test_an_array_is_immutable() -> None:
    sparse = Sparse.from_coo([[0, 1]], [1.0, 2.0], (3,))
    with pytest.raises(ValueError, match="read-only"):
        sparse.values[0] = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        sparse.shape = (4,)  # type: ignore[misc]
    doubled = sparse.with_values(2 * sparse.values)
    assert doubled.to_dense().tolist() == [2, 4, 0]
    assert sparse.to_dense().tolist() == [1, 2, 0]


def test_its_text_names_format_shape_and_type() -> None:
    sparse = Sparse.from_coo([[0, 1], [2, 0]], [1.0, 2.0], (3, 4), "ds:1,0")
    assert repr(sparse) == "<Sparse ds:1,0 (3, 4): 2 values, float64>"


def test_frozen_copies_and_sharing_shares() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    matrix = scipy_sparse.csr_array(np.eye(3))
    shared, private = Sparse.from_scipy(matrix), Sparse.from_scipy(matrix, frozen=True)
    matrix.data[0] = 7
    assert (shared.values[0], private.values[0]) == (7, 1)
    assert (shared.is_frozen, private.is_frozen) == (False, True)


class TestScipy:
    sparse = pytest.importorskip("scipy.sparse")

    @pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "lil", "dok", "bsr"])
    @pytest.mark.parametrize("maker", ["array", "matrix"])
    def test_every_kind_there_and_back(self, kind: str, maker: str) -> None:
        random = np.random.default_rng(3)
        dense = random.integers(-3, 4, (6, 8)) * (random.random((6, 8)) < 0.4) * 1.0
        first = self.sparse.csr_array(dense) if maker == "array" else self.sparse.csr_matrix(dense)
        given = first.tobsr(blocksize=(2, 4)) if kind == "bsr" else first.asformat(kind)
        made = Sparse.from_scipy(given)
        np.testing.assert_array_equal(made.to_dense(), dense)
        np.testing.assert_array_equal(made.to_scipy().toarray(), dense)
        if kind in ("csr", "csc"):
            assert np.shares_memory(made.values, given.data)

    def test_blocks_stay_dense(self) -> None:
        matrix = self.sparse.csr_array(np.kron(np.eye(3), np.ones((2, 3))))
        made = Sparse.from_scipy(matrix.tobsr(blocksize=(2, 3)))
        assert (str(made.format), made.blocks, made.shape) == ("dsdd", (2, 3), (6, 9))
        assert made.to_scipy().format == "bsr"
        assert str(made.converted().format) == "ds"

    def test_unsorted_rows_are_sorted_and_their_duplicates_summed(self) -> None:
        data, crd, pos = np.array([1.0, 2, 3, 4]), np.array([2, 0, 2, 1]), np.array([0, 3, 4])
        matrix = self.sparse.csr_array((data, crd, pos), shape=(2, 3))
        assert Sparse.from_scipy(matrix).to_dense().tolist() == [[2, 0, 4], [0, 4, 0]]

    def test_integers_become_float64(self) -> None:
        assert Sparse.from_scipy(self.sparse.eye_array(3, dtype=int)).dtype == np.float64

    def test_n_dimensional_coordinates(self) -> None:
        coords = (np.array([0, 1]), np.array([1, 0]), np.array([2, 2]))
        tensor = self.sparse.coo_array((np.array([1.0, 2.0]), coords), shape=(2, 2, 3))
        assert Sparse.from_scipy(tensor).to_dense()[1, 0, 2] == 2

    @pytest.mark.parametrize(
        ("part", "place", "value", "code", "said"),
        [
            ("indptr", 1, -1, "TEIR672", "position 1"),
            ("indptr", 2, 1, "TEIR672", "position 2"),
            ("indptr", 0, 1, "TEIR672", "position 0"),
            ("indptr", 3, 9, "TEIR672", "position 3"),
            ("indptr", 3, 3, "TEIR672", "position 3"),
            ("indices", 2, -1, "TEIR673", "position 2"),
            ("indices", 3, 3, "TEIR673", "position 3"),
            ("indices", 1, 2**31 - 1, "TEIR673", "position 1"),
        ],
    )
    @pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
    def test_hostile_index_arrays(
        self, kind: str, part: str, place: int, value: int, code: str, said: str
    ) -> None:
        matrix = self.sparse.csr_array(np.array([[1.0, 2, 0], [0, 3, 0], [0, 4, 5]])).asformat(kind)
        if kind == "csc":
            matrix = self.sparse.csc_array(np.array([[1.0, 2, 0], [0, 3, 0], [0, 4, 5]]).T)
        getattr(matrix, part)[place] = value
        found, text = code_and_text(lambda: Sparse.from_scipy(matrix))
        assert found == code
        assert said in text
        found, text = code_and_text(lambda: teir.einsum("ij,j->i", matrix, np.ones(3)))
        assert found == code
        assert said in text


class TestPydata:
    sparse = pytest.importorskip("sparse")

    def test_coordinates_and_compressed_axes(self) -> None:
        tensor = self.sparse.random((3, 4, 5), density=0.4, random_state=2)
        dense = tensor.todense()
        for kind in (tensor, self.sparse.GCXS(tensor), self.sparse.DOK.from_coo(tensor)):
            np.testing.assert_array_equal(Sparse.from_scipy(kind).to_dense(), dense)
        for axis in (0, 1):
            flat = self.sparse.GCXS(tensor.reshape((12, 5)), compressed_axes=(axis,))
            np.testing.assert_array_equal(Sparse.from_scipy(flat).to_dense(), dense.reshape(12, 5))

    def test_narrow_indices_are_widened(self) -> None:
        tensor = self.sparse.random((6, 5), density=0.4, random_state=2)
        for dtype in (np.uint8, np.int16, np.uint64):
            flat = self.sparse.GCXS(tensor)
            flat.indices, flat.indptr = flat.indices.astype(dtype), flat.indptr.astype(dtype)
            np.testing.assert_array_equal(teir.einsum("ij->ij", flat), tensor.todense())
            flat.indices[2] = 9
            assert code_and_text(lambda one=flat: teir.einsum("ij->ij", one))[0] == "TEIR673"

    def test_another_fill_value_is_refused(self) -> None:
        tensor = self.sparse.COO.from_numpy(np.eye(3) + 1, fill_value=1.0)
        assert code_and_text(lambda: Sparse.from_scipy(tensor))[0] == "TEIR676"

    def test_hostile_compressed_axes(self) -> None:
        tensor = self.sparse.GCXS(self.sparse.random((3, 4, 5), density=0.4, random_state=2))
        tensor.indices[1] = 99
        assert code_and_text(lambda: Sparse.from_scipy(tensor))[0] == "TEIR673"


@pytest.mark.filterwarnings("ignore:Sparse")
class TestTorch:
    torch = pytest.importorskip("torch")

    def test_layouts_and_types(self) -> None:
        dense = self.torch.tensor([[1.0, 0, 2], [0, 0, 3]])
        for dtype in (self.torch.float32, self.torch.float64, self.torch.bfloat16):
            tensor = dense.to(dtype)
            for made in (tensor.to_sparse(), tensor.to_sparse_csr(), tensor.to_sparse_csc()):
                found = Sparse.from_scipy(made)
                assert found.dtype.name == str(dtype).removeprefix("torch.")
                assert found.to_dense().astype(float).tolist() == dense.tolist()

    @pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
    def test_blocks_and_values_that_are_arrays(self, dtype: str) -> None:
        dense = self.torch.arange(24.0).reshape(4, 6) * (self.torch.arange(6) > 1)
        dense = dense.to(getattr(self.torch, dtype))
        cube = dense.reshape(4, 3, 2)
        rows, columns = dense.to_sparse_bsr((2, 3)), dense.to_sparse_bsc((2, 3))
        for made in (rows, columns, cube.to_sparse(2), cube.to_sparse(1), cube.to_sparse(3)):
            found, expected = Sparse.from_scipy(made), made.to_dense().to(self.torch.float64)
            assert found.dtype.name == dtype
            np.testing.assert_array_equal(found.to_dense().astype(float), expected.numpy())
        assert str(Sparse.from_scipy(cube.to_sparse(2)).format) == "dsd"
        assert Sparse.from_scipy(rows).blocks == (2, 3)

    @pytest.mark.parametrize("by_column", [False, True])
    def test_hostile_blocks(self, by_column: bool) -> None:
        make = getattr(self.torch, f"sparse_bs{'c' if by_column else 'r'}_tensor")
        for pos, crd, code in (([0, 1, 2], [0, 9], "TEIR673"), ([0, 5, 2], [0, 1], "TEIR672")):
            parts = self.torch.tensor(pos), self.torch.tensor(crd), self.torch.ones(2, 2, 2)
            made = make(*parts, size=(4, 4), check_invariants=False)
            assert code_and_text(lambda one=made: Sparse.from_scipy(one))[0] == code

    def test_what_is_refused(self) -> None:
        eye = self.torch.eye(3)
        recording = eye.to_sparse().requires_grad_()
        for tensor in (recording, self.torch.stack([eye, eye]).to_sparse_csr()):
            assert code_and_text(lambda one=tensor: Sparse.from_scipy(one))[0] == "TEIR676"


class Exporter:
    """An array behind the binsparse protocol."""

    def __init__(self, descriptor: dict[str, Any], arrays: dict[str, Array], paired: bool) -> None:
        self.descriptor, self.arrays, self.paired = descriptor, arrays, paired
        self.shape = tuple(descriptor["binsparse"]["shape"])

    def __binsparse_descriptor__(self) -> dict[str, Any]:
        return self.descriptor

    def __binsparse__(self) -> Any:
        return (self.descriptor, self.arrays) if self.paired else self.arrays


def described(form: Any, width: Any = np.int64, **arrays: list[float]) -> Exporter:
    given = {
        name: np.array(values, float if name == "values" else width)
        for name, values in arrays.items()
    }
    return Exporter({"binsparse": {"format": form, "shape": [2, 3]}}, given, paired=form == "CSR")


def test_binsparse_formats() -> None:
    levels = {
        "level_desc": "sparse",
        "rank": 1,
        "level": {"level_desc": "sparse", "rank": 1, "level": {"level_desc": "element"}},
    }
    given = (
        described("CSR", pointers_to_1=[0, 1, 3], indices_1=[2, 0, 1], values=[5, 6, 7]),
        described("CSR", np.uint64, pointers_to_1=[0, 1, 3], indices_1=[2, 0, 1], values=[5, 6, 7]),
        described(
            "DCSR", indices_0=[0, 1], pointers_to_1=[0, 1, 3], indices_1=[2, 0, 1], values=[5, 6, 7]
        ),
        described("DMATR", values=[0, 0, 5, 6, 7, 0]),
        described("DMATC", values=[0, 6, 0, 7, 5, 0]),
        described(
            "CSC", np.uint8, pointers_to_1=[0, 1, 2, 3], indices_1=[1, 1, 0], values=[6, 7, 5]
        ),
        described("COO", indices_0=[1, 0, 1], indices_1=[0, 2, 1], values=[6, 5, 7]),
        described(
            {"custom": {"level": levels}},
            indices_0=[0, 1],
            pointers_to_1=[0, 1, 3],
            indices_1=[2, 0, 1],
            values=[5, 6, 7],
        ),
    )
    for one in given:
        assert is_sparse(one)
        assert Sparse.from_scipy(one).to_dense().tolist() == [[0, 0, 5], [6, 7, 0]]
        assert teir.einsum("ij->i", one).tolist() == [5, 13]


@pytest.mark.parametrize(
    "call", [np.asarray, lambda one: one @ np.ones(3), lambda one: np.ones(2) * one]
)
def test_numpy_takes_none_for_one_object(call: Callable[[Sparse], Any]) -> None:
    with pytest.raises(TypeError, match="or to_dense"):
        call(Sparse.from_coo([[0, 1], [1, 1]], [1.0, 2.0], (2, 3)))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: Sparse.from_coo([[0, 3]], [1.0, 2.0], (3,)), "TEIR670"),
        (lambda: Sparse.from_coo([[0, -1]], [1.0, 2.0], (3,)), "TEIR670"),
        (lambda: Sparse.from_coo([[0, 1]], [1.0], (3,)), "TEIR670"),
        (lambda: Sparse.from_coo([[0.5]], [1.0], (3,)), "TEIR670"),
        (lambda: Sparse.from_coo([[0]], [1.0], (3, 4)), "TEIR670"),
        (lambda: Sparse.from_coo([[0]], [1.0], (-3,)), "TEIR671"),
        (lambda: Sparse.from_coo([[0]], [1.0], ("3",)), "TEIR671"),
        (lambda: Sparse.from_coo([[0]], [1.0], (3,), "ds"), "TEIR660"),
        (lambda: Sparse.from_coo([[0]], [1.0], (3,), "x"), "TEIR660"),
        (lambda: Sparse.from_coo([[0]], ["a"], (3,)), "TEIR675"),
        (lambda: Sparse.from_coo([[0]], np.ones(1, np.longdouble), (3,)), "TEIR675"),
        (lambda: Sparse.from_coo([[0]], np.ones(1, np.clongdouble), (3,)), "TEIR675"),
        (lambda: Sparse.from_coo([[0], [0]], [1.0], (2**20, 2**20), "dd"), "TEIR677"),
        (lambda: Sparse.from_scipy(3), "TEIR676"),
        (lambda: Sparse.from_levels((3,), "s", {}, [1.0]), "TEIR674"),
        (lambda: Sparse.from_levels((3,), "s", {0: ([0, 2], [1, 0])}, [1.0, 2.0]), "TEIR673"),
        (lambda: Sparse.from_levels((3,), "s", {0: ([0, 2], [1, 1])}, [1.0, 2.0]), "TEIR673"),
        (lambda: Sparse.from_levels((3,), "s", {0: ([0, 2], [0, 1])}, [1.0]), "TEIR675"),
        (lambda: Sparse.from_levels((3,), "s", {0: ([0.0, 1], [0])}, [1.0]), "TEIR674"),
        (lambda: Sparse.from_levels((3,), "s", {0: [0, 1]}, [1.0]), "TEIR674"),
        (lambda: Sparse.from_levels((3,), "s", {0: [0, 1, 1]}, [1.0]), "TEIR674"),
        (lambda: Sparse.from_levels((3,), "s", [([0, 1], [0])], [1.0]), "TEIR674"),
        (lambda: Sparse.from_coo([[0]], [1.0], (3,), 1), "TEIR660"),
        (lambda: Sparse.from_coo([[0]], [1.0], (3,), "s", 0), "TEIR660"),
        (lambda: Sparse.from_coo([[0]], [1.0], (3,), "s:"), "TEIR660"),
        (lambda: Sparse.from_coo([[0]], [1.0], (3,), "s", (0.0,)), "TEIR660"),
        (lambda: Sparse.from_coo([[0], [0]], [1.0], (3, 3), "ds:1,0", (0, 1)), "TEIR660"),
        (lambda: Sparse.from_coo((), [1.0], ()).to_scipy(), "TEIR671"),
        (lambda: Sparse.from_coo([[0]] * 65, [1.0], (1,) * 65).to_scipy(), "TEIR671"),
        (lambda: Sparse.from_coo([[0]], [1.0], (10**5000,)), "TEIR671"),
        (lambda: Sparse.from_coo([[0]] * 65, [1.0], (1,) * 65).to_dense(), "TEIR678"),
        (lambda: Sparse.from_coo([[0]] * 2, [1.0], (2**40, 2**40)).to_dense(), "TEIR678"),
        (lambda: Sparse.from_coo([[0]] * 2, [1.0], (2**45, 2)).to_dense(), "TEIR678"),
        (lambda: Sparse.from_coo([[0, 1]], [[1], [1, 2]], (3,)), "TEIR675"),
        (lambda: Sparse.from_coo([[0, [1]]], [1.0, 2.0], (3,)), "TEIR670"),
        (lambda: Sparse.from_levels((3,), "s", {0: ([0, [1]], [0])}, [1.0]), "TEIR674"),
        (lambda: Sparse.from_coo([[0]], [1.0], (3,), "s", (10**5000,)), "TEIR660"),
    ],
)
def test_what_is_no_array_is_refused(call: Any, code: str) -> None:
    assert code_and_text(call)[0] == code


def test_pairs_in_a_list_are_blamed_with_what_to_write() -> None:
    _, text = code_and_text(lambda: Sparse.from_coo([(0, 1), (1, 2), (1, 0)], [1.0] * 3, (2, 3)))
    assert "expected 2 vectors of 3, found 3 vectors" in text
    assert "pass np.array(coords)" in text


def test_what_is_wrong_with_values_names_their_array() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    matrix = scipy_sparse.csr_array(np.eye(3))
    matrix.data = matrix.data[:, None]
    assert "at values of in0:" in code_and_text(lambda: teir.einsum("ij->i", matrix))[1]
    diagonals = scipy_sparse.dia_array(np.eye(3))
    diagonals.offsets = np.array([0, 1])
    found = code_and_text(lambda: teir.einsum("ij->i", diagonals))
    assert found[0] == "TEIR676"
    assert "an offset for every row of data" in found[1]


def test_long_doubles_are_not_rounded_in_silence() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    if np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("long doubles are doubles here")
    with pytest.raises(TeirError, match="TEIR675 at array: expected numbers of at most 64 bits"):
        Sparse.from_scipy(scipy_sparse.csr_array(np.eye(2, dtype=np.longdouble)))


@pytest.mark.parametrize("is_frozen", [True, False])
def test_copies_and_pickles_have_memory_of_their_own(is_frozen: bool) -> None:
    coordinates, numbers = np.array([1, 0]), np.array([1.0, 2.0])
    indices = {1: (np.array([0, 1, 2]), coordinates)}
    array = teir.Sparse.from_levels((2, 2), "ds", indices, numbers, frozen=is_frozen)
    for made in (copy.copy(array), copy.deepcopy(array), pickle.loads(pickle.dumps(array))):
        assert made.is_frozen
        assert not any(
            part.flags.writeable for part in (made.values, made.stored[1].pos, made.stored[1].crd)
        )
        np.testing.assert_array_equal(made.to_dense(), [[0, 1], [2, 0]])
    assert (copy.deepcopy(array) is array) is is_frozen


def test_a_pickle_is_looked_at() -> None:
    array = teir.Sparse.from_coo([[0, 1], [1, 0]], [1.0, 2.0], (2, 2))
    restore, (shape, fmt, stored, values, blocks) = array.__reduce__()
    level = dataclasses.replace(stored[1], crd=np.array([1, 10**6], np.int32))
    with pytest.raises(TeirError, match="TEIR673"):
        restore(shape, fmt, (None, level), values, blocks)


def test_tensors_that_are_no_plain_numbers_are_no_values() -> None:
    torch = pytest.importorskip("torch")
    held = Sparse.from_coo([[0], [1]], [1.0], (2, 2))
    lazy = torch.ones(1, dtype=torch.complex128).conj()
    for values in (torch.ones(1).requires_grad_(), lazy):
        code, text = code_and_text(lambda values=values: held.with_values(values))
        assert code == "TEIR675"
        assert "instead" in text
    code, _ = code_and_text(lambda: Sparse.from_coo(torch.ones(2, 1).requires_grad_(), [1], (2, 2)))
    assert code == "TEIR670"
