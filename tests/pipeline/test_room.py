"""What no memory holds, results and operands: a finding that says how much, and a MemoryError."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import teir
from teir.errors import NoRoomError


def test_a_result_without_room_is_a_finding_and_a_memory_error() -> None:
    wide = np.broadcast_to(np.float32(1), (1 << 21,))
    plan = teir.plan("i,j->ij", wide, wide)
    calls = [lambda: teir.einsum("i,j->ij", wide, wide)] * 2 + [lambda: plan(wide, wide)]
    for call in calls:
        with pytest.raises(NoRoomError, match="TEIR648 at out: expected 17,592,186,044,416 bytes"):
            call()
        with pytest.raises(MemoryError):
            call()


def test_tensors_without_room_are_a_finding_too() -> None:
    torch: ModuleType = pytest.importorskip("torch")
    wide = torch.zeros(1).expand(1 << 21)
    with pytest.raises(NoRoomError, match="TEIR648"):
        teir.einsum("i,j->ij", wide, wide)


MATRIX = scipy.sparse.csr_array(np.eye(3))
WIDE = teir.Sparse.from_coo([[0, 5], [1, 2]], [1.0, 2.0], (1 << 58, 3), "ss")
SPREAD = np.broadcast_to(np.ones(1), (1 << 58,))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: teir.plan("ij,jk->ik", MATRIX, (3, 2**45)),
            "operand 1: expected 844,424,930,131,968 bytes for a dense operand of shape",
        ),
        (lambda: teir.einsum("ij->i", WIDE), "out: expected 2,305,843,009,213,693,952 bytes"),
        (
            lambda: teir.einsum("ij,i->", WIDE, SPREAD),
            "in1: expected 2,305,843,009,213,693,952 bytes for a copy of in1",
        ),
    ],
)
def test_sparse_products_without_room_are_a_finding_too(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(NoRoomError, match=f"TEIR648 at {said}"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: teir.plan("ij,jk->ik", MATRIX, (3, 2**60)),
        lambda: teir.plan("ij,...->i", MATRIX, (1,) * 65),
        lambda: teir.einsum(
            "ij,ik->jk", WIDE, teir.Sparse.from_coo([[0]] * 2, [1.0], (1 << 58, 1 << 60), "ss")
        ),
    ],
)
def test_dense_arrays_that_numpy_cannot_have_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(teir.TeirError, match=r"TEIR614 at (operand 1|result): expected"):
        call()
