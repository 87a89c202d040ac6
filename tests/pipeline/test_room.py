"""Results that no memory holds: a finding that says how much was wanted, and a MemoryError."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

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
