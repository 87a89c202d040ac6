"""Results that repeat along an axis no input moves: formed once, then copied."""

from __future__ import annotations

import numpy as np
import pytest

import teir
from teir.dtypes import DataType

KINDS = [np.float32, np.float64, np.complex64, DataType.BF16.numpy_dtype(), np.float16]


def numbers(shape: tuple[int, ...], kind: type, axis: int | None) -> np.ndarray:
    """Small whole numbers, the same along ``axis``, of stride 0 there."""
    drawn = np.random.default_rng(len(shape)).integers(-2, 3, shape).astype(kind)
    return drawn if axis is None else np.broadcast_to(drawn.take([0], axis), shape)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("text", "left", "right", "repeated"),
    [
        ("facde,fbcde->fab", (5, 43, 15, 8, 2), (5, 13, 15, 8, 2), (None, 1)),
        ("ak,bk->ba", (30, 40), (70, 40), (0, None)),
        ("ak,bk->ab", (30, 40), (70, 40), (0, 0)),
        ("abk,abk->ab", (40, 5, 60), (40, 5, 60), (1, 1)),
    ],
)
def test_what_is_computed(
    text: str,
    left: tuple[int, ...],
    right: tuple[int, ...],
    repeated: tuple[int | None, int | None],
    kind: type,
    threads: int,
) -> None:
    a, b = numbers(left, kind, repeated[0]), numbers(right, kind, repeated[1])
    wide = np.complex128 if np.dtype(kind).kind == "c" else np.float64
    expected = np.einsum(text, a.astype(wide), b.astype(wide)).astype(kind)
    padded = np.zeros((*expected.shape[:-1], expected.shape[-1] + 1), kind)
    teir.einsum(text, a, b, out=padded[..., 1:], threads=threads)
    np.testing.assert_array_equal(padded[..., 1:], expected)
    assert not padded[..., 0].any()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_no_operand_is_packed_as_often_as_it_is_repeated(kind: type) -> None:
    a, b = np.ones((5, 1436, 15, 16), kind), np.ones((5, 1, 15, 16), kind)
    plan = teir.plan("facd,fbcd->fab", a, np.broadcast_to(b, (5, 1131, 15, 16)))
    assert plan.memory_bytes <= a.nbytes


def test_few_repetitions_are_formed_where_they_belong() -> None:
    a, b = np.ones((70, 40)), np.broadcast_to(np.ones((1, 40)), (3, 40))
    scratch = [one.name for one in teir.plan("ak,bk->ab", a, b).program.scratch]
    assert "out_once" not in scratch
