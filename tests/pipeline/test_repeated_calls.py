"""Calls with keywords, sublists or tensors are kept too: a call seen before plans nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import teir
from teir.errors import TeirError
from teir.pipeline import einsum as module
from teir.pipeline import plan as plan_module

A = np.arange(12.0).reshape(3, 4)
B = np.arange(20.0).reshape(4, 5)
KEYWORDS: tuple[dict[str, Any], ...] = (
    {"threads": 1},
    {"threads": 2},
    {"dtype": "float32"},
    {"dtype": np.float64},
    {"dtype": np.dtype("float32")},
    {"dtype": teir.DataType.FP64, "threads": 1},
    {"optimize": False},
    {"deterministic": "threads"},
    {"memory_limit": 1 << 30},
)


def plans_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(*_: Any) -> Any:
        raise AssertionError("a call seen before")

    for name in ("plan_arrays", "first_plan", "parse_expression"):
        monkeypatch.setattr(module, name, plan)


def called(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a call gives, the first time and the fourth, which plans nothing."""
    first = call()
    call(), call()
    plans_nothing(monkeypatch)
    again = call()
    assert type(again) is type(first)
    np.testing.assert_array_equal(np.asarray(again), np.asarray(first))
    return again


@pytest.mark.parametrize("keywords", KEYWORDS, ids=str)
def test_calls_with_keywords(keywords: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    result = called(lambda: teir.einsum("ij,jk->ik", A, B, **keywords), monkeypatch)
    np.testing.assert_array_equal(result, A @ B)


NUMBERS: tuple[Any, ...] = (2, 2.5, 2 - 1j, True, np.float32(2.5), np.int8(3))


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_calls_with_numbers(number: Any, is_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    text, operands = (",ij->ij", (number, A)) if is_first else ("ij,->ij", (A, number))
    plan = teir.plan(text, *operands)
    results = [plan(*operands), plan(*operands)]
    results.append(called(lambda: teir.einsum(text, *operands), monkeypatch))
    for result in results:
        assert result.dtype == np.result_type(np.asarray(number), A)
        np.testing.assert_array_equal(result, np.asarray(number) * A)


@pytest.mark.parametrize(
    ("text", "operands", "expected"),
    [("ij,jk->ik", (A.tolist(), B), A @ B), ("i,i", ([1, 2], (3, 4)), 11)],
    ids=["lists", "tuples"],
)
def test_calls_with_sequences(
    text: str, operands: Any, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = called(lambda: teir.einsum(text, *operands), monkeypatch)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("value", [[1, [2]], ["a", "b"]], ids=repr)
def test_sequences_of_something_else_are_refused_each_time(value: Any) -> None:
    for _ in range(3):
        assert len(teir.einsum("i,i->i", [1.0, 2.0], B[0, :2])) == 2
        with pytest.raises(TeirError, match="operand 0"):
            teir.einsum("i,i->i", value, B[0, :2])


@pytest.mark.parametrize("keywords", KEYWORDS[:2] + KEYWORDS[-1:], ids=str)
def test_calls_with_keywords_and_a_result(
    keywords: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = np.zeros((3, 5))
    result = called(lambda: teir.einsum("ij,jk->ik", A, B, out=out, **keywords), monkeypatch)
    assert result is out
    np.testing.assert_array_equal(out, A @ B)


@pytest.mark.parametrize("ends", [([0, 2],), ()])
def test_calls_with_sublists(ends: tuple[list[int], ...], monkeypatch: pytest.MonkeyPatch) -> None:
    call = lambda: teir.einsum(A, [0, 1], B, [1, 2], *ends)  # noqa: E731
    np.testing.assert_array_equal(called(call, monkeypatch), A @ B)


@pytest.mark.parametrize(
    "path", [[(0, 1), (0, 1)], ((1, 2), (0, 1)), ["einsum_path", (0, 2), (0, 1)]]
)
def test_calls_with_a_path(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    c = np.arange(10.0).reshape(5, 2)
    call = lambda: teir.einsum("ij,jk,kl->il", A, B, c, optimize=path)  # noqa: E731
    np.testing.assert_array_equal(called(call, monkeypatch), A @ B @ c)


def test_calls_with_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    cotengra = pytest.importorskip("cotengra")
    terms, sizes = (("i", "j"), ("j", "k"), ("k", "l")), {"i": 3, "j": 4, "k": 5, "l": 2}
    tree = cotengra.ContractionTree.from_path(terms, ("i", "l"), sizes, path=[(0, 1), (0, 1)])
    c = np.arange(10.0).reshape(5, 2)
    call = lambda: teir.einsum("ij,jk,kl->il", A, B, c, optimize=tree)  # noqa: E731
    np.testing.assert_array_equal(called(call, monkeypatch), A @ B @ c)


def test_wrong_paths_are_refused_every_time() -> None:
    c = np.ones((5, 2))
    for _ in range(3):
        teir.einsum("ij,jk,kl->il", A, B, c, optimize=[(0, 1), (0, 1)])
        for wrong in ([(0, 1)], [(0.0, 1.0), (0, 1)], [(0, 3), (0, 1)]):
            with pytest.raises(TeirError):
                teir.einsum("ij,jk,kl->il", A, B, c, optimize=wrong)


def test_path_finders_are_asked_every_time() -> None:
    asked = []

    def find(*_: Any) -> list[tuple[int, int]]:
        asked.append(1)
        return [(0, 1), (0, 1)]

    for _ in range(3):
        teir.einsum("ij,jk,kl->il", A, B, np.ones((5, 2)), optimize=find)
    assert len(asked) == 3


def test_sublists_are_told_apart() -> None:
    for _ in range(4):
        np.testing.assert_array_equal(teir.einsum(A, [0, 1], B, [1, 2], [2, 0]), (A @ B).T)
        np.testing.assert_array_equal(teir.einsum(A, [0, 1], B, [1, 2], [0, 2]), A @ B)
        np.testing.assert_array_equal(teir.einsum(A, [0, 1], [0]), A.sum(axis=1))
        np.testing.assert_array_equal(teir.einsum(A, [0, 1]), A)


@pytest.mark.parametrize("wrong", [{"threads": True}, {"threads": 0}, {"dtype": "float31"}])
def test_wrong_keywords_are_refused_every_time(wrong: dict[str, Any]) -> None:
    for _ in range(3):
        teir.einsum("ij,jk->ik", A, B, threads=1)
        with pytest.raises(TeirError):
            teir.einsum("ij,jk->ik", A, B, **wrong)


def test_types_that_keywords_ask_for_are_told_apart() -> None:
    for _ in range(4):
        for name in ("float32", "float64", "complex64"):
            assert teir.einsum("ij,jk->ik", A, B, dtype=name).dtype == name


def test_limits_are_kept_by_what_they_count() -> None:
    """The result counts where the call allocates it."""
    big, out = np.ones((64, 64)), np.empty((64, 64))
    limit = 64 * 64 * 8 - 1
    for _ in range(3):
        teir.einsum("ij,jk->ik", big, big, out=out, memory_limit=limit)
        with pytest.raises(TeirError):
            teir.einsum("ij,jk->ik", big, big, memory_limit=limit)


class TestTensors:
    torch = pytest.importorskip("torch")

    def operands(self) -> tuple[Any, Any]:
        return self.torch.from_numpy(A.copy()), self.torch.from_numpy(B.copy())

    @pytest.mark.parametrize("keywords", [{}, {"threads": 1}], ids=str)
    def test_calls_plan_nothing(
        self, keywords: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a, b = self.operands()
        result = called(lambda: teir.einsum("ij,jk->ik", a, b, **keywords), monkeypatch)
        assert isinstance(result, self.torch.Tensor)
        np.testing.assert_array_equal(np.asarray(result), A @ B)

    @pytest.mark.parametrize("name", ["bfloat16", "float16", "complex64", "int64"])
    def test_types(self, name: str) -> None:
        a, b = (one.to(getattr(self.torch, name)) for one in self.operands())
        plan = teir.plan("ij,jk->ik", a, b)
        for _ in range(4):
            for result in (teir.einsum("ij,jk->ik", a, b), plan(a, b)):
                assert result.dtype is a.dtype
                expected = self.torch.einsum("ij,jk->ik", a, b)
                assert self.torch.equal(result, expected)

    def test_results_are_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        (a, b), out = self.operands(), self.torch.zeros(3, 5, dtype=self.torch.float64)
        assert called(lambda: teir.einsum("ij,jk->ik", a, b, out=out), monkeypatch) is out
        np.testing.assert_array_equal(np.asarray(out), A @ B)

    def test_single_results_are_tensors(self) -> None:
        a, _ = self.operands()
        for _ in range(4):
            result = teir.einsum("ij,ij->", a, a)
            assert isinstance(result, self.torch.Tensor)
            assert float(result) == (A * A).sum()

    def test_plans_are_called_with_tensors(self) -> None:
        (a, b), out = self.operands(), self.torch.zeros(3, 5, dtype=self.torch.float64)
        plan = teir.plan("ij,jk->ik", A, B)
        for _ in range(3):
            np.testing.assert_array_equal(np.asarray(plan(a, b)), A @ B)
            assert isinstance(plan(a, b), self.torch.Tensor)
            assert plan(a, b, out=out) is out
        np.testing.assert_array_equal(np.asarray(out), A @ B)

    def test_called_plans_look_at_no_view(self, monkeypatch: pytest.MonkeyPatch) -> None:
        a, b = self.operands()
        plan = teir.plan("ij,jk->ik", a, b)
        monkeypatch.setattr(plan_module, "view_array", None)
        np.testing.assert_array_equal(np.asarray(plan(a, b)), A @ B)

    def test_what_is_no_plain_tensor_is_refused_every_time(self) -> None:
        torch = self.torch
        a, b = self.operands()
        freed = a.clone()
        freed.untyped_storage().resize_(0)
        plan = teir.plan("ij,jk->ik", A, B)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(a, a)
            wrong = (dual, a.clone().requires_grad_(), freed)
            for _ in range(3):
                teir.einsum("ij,jk->ik", a, b)
                for one in wrong:
                    with pytest.raises(TeirError):
                        teir.einsum("ij,jk->ik", one, b)
                    with pytest.raises(TeirError):
                        plan(one, b)
        lazy = torch.ones(3, 4, dtype=torch.complex128).conj()
        for _ in range(3):
            teir.einsum("ij,ij->ij", lazy.resolve_conj(), lazy.resolve_conj())
            with pytest.raises(TeirError):
                teir.einsum("ij,ij->ij", lazy, lazy)

    def test_overlaps_are_refused_every_time(self) -> None:
        a = self.torch.ones(4, 4, dtype=self.torch.float64)
        plan = teir.plan("ij,jk->ik", np.ones((4, 4)), np.ones((4, 4)))
        for _ in range(3):
            with pytest.raises(TeirError):
                teir.einsum("ij,jk->ik", a, a, out=a)
            with pytest.raises(TeirError):
                plan(a, a, out=a)
            teir.einsum("ij,jk->ik", a, a)

    def test_tensors_stay_as_they_were(self) -> None:
        """Their storage may be resized as before, and so may that of results."""
        torch = self.torch
        (a, b), out = self.operands(), torch.zeros(3, 5, dtype=torch.float64)
        a, b = a.clone(), b.clone()
        plan = teir.plan("ij,jk->ik", a, b)
        for _ in range(3):
            results = [teir.einsum("ij,jk->ik", a, b), plan(a, b)]
            teir.einsum("ij,jk->ik", a, b, out=out)
            assert all(one.untyped_storage().resizable() for one in (a, b, out, *results))

    def test_modes_are_heeded_every_time(self) -> None:
        from torch._subclasses import FakeTensorMode

        torch = self.torch
        (a, b), out = self.operands(), torch.zeros(3, 5, dtype=torch.float64)
        for _ in range(3):
            teir.einsum("ij,jk->ik", a, b, out=out)
            teir.einsum("ij,jk->ik", a, b)
        out.zero_()
        with FakeTensorMode(allow_non_fake_inputs=True):
            teir.einsum("ij,jk->ik", a, b, out=out)
            with pytest.raises(TeirError):
                teir.einsum("ij,jk->ik", a, b)
        np.testing.assert_array_equal(out.numpy(), A @ B)
        with torch.device("meta"):
            assert teir.einsum("ij,jk->ik", a, b).device.type == "cpu"

    def test_calls_inside_of_compiled_functions(self) -> None:
        torch = self.torch
        a, b = self.operands()
        plan = teir.plan("ij,jk->ik", A, B)
        for call in (lambda x, y: teir.einsum("ij,jk->ik", 2 * x, y), lambda x, y: plan(2 * x, y)):
            compiled = torch.compile(call, backend="eager")
            for _ in range(3):
                np.testing.assert_array_equal(np.asarray(compiled(a, b)), 2 * A @ B)


@pytest.mark.parametrize("text", ["ij->ij", "ij->ji", "ii->i"])
@pytest.mark.parametrize("dtype", ["int64", "float64", int])
def test_single_operands_are_converted_every_time(text: str, dtype: Any) -> None:
    a = np.arange(16, dtype="i4").reshape(4, 4)
    for _ in range(4):
        result = teir.einsum(text, a, dtype=dtype)
        assert result.dtype == np.dtype(dtype)
        assert not np.shares_memory(result, a)
        np.testing.assert_array_equal(result, np.einsum(text, a))


class Tree:
    """A tree that says what it likes."""

    def __init__(self, path: Any, inputs: Any = ()) -> None:
        self.path, self.inputs, self.sliced_inds = path, inputs, {}

    def get_path(self) -> Any:
        return self.path


def test_trees_are_told_apart_by_their_paths() -> None:
    c = np.ones((5, 2))
    for _ in range(3):
        teir.einsum("ij,jk,kl->il", A, B, c, optimize=Tree(np.array([[0, 1], [0, 1]])))
        for wrong in (np.array([[0, 3], [0, 1]]), np.array([[0, 1]]), [(0, 1)]):
            with pytest.raises(TeirError):
                teir.einsum("ij,jk,kl->il", A, B, c, optimize=Tree(wrong))
        teir.einsum("ij,jk,kl->il", A, B, c, optimize=Tree([(0, 1), (0, 1)], inputs=None))
        teir.einsum("ij->i", A, optimize=Tree([]))
        with pytest.raises(TeirError):
            teir.einsum("ij->i", A, optimize=[[], [], []])


def test_types_with_their_own_equality_are_asked_every_time() -> None:
    class Odd(type):
        def __eq__(cls, other: object) -> bool:
            return other == "float32"

        def __hash__(cls) -> int:
            return hash("float32")

    class Wide(metaclass=Odd):
        dtype = np.dtype("float64")

    for _ in range(3):
        teir.einsum("ij,jk->ik", A, B, dtype="float32")
        assert teir.einsum("ij,jk->ik", A, B, dtype=Wide).dtype == np.float64
