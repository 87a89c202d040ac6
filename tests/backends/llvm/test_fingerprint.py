"""The fingerprint of memory: every single change shows."""

from __future__ import annotations

import numpy as np
import pytest

from teir.backends.llvm.fingerprint import fingerprint
from teir.pipeline.executable import default_isa


@pytest.mark.parametrize("size", [1, 7, 8, 9, 255, 256, 257, 1000])
def test_every_changed_byte_shows(size: int) -> None:
    number = fingerprint(default_isa())
    data = np.random.default_rng(size).integers(0, 256, size + 1, dtype=np.uint8)[1:]
    seen = {number(data.ctypes.data, size, 0)}
    for place in range(size):
        data[place] ^= 1 << place % 8
        seen.add(number(data.ctypes.data, size, 0))
    assert len(seen) == size + 1


def test_length_order_and_seed_count() -> None:
    number = fingerprint(default_isa())
    zeros = np.zeros(600, np.uint8)
    assert len({number(zeros.ctypes.data, size, 0) for size in range(600)}) == 600
    words = np.arange(64, dtype=np.int64)
    swapped = words.copy()
    swapped[[3, 40]] = swapped[[40, 3]]
    found = [number(one.ctypes.data, one.nbytes, 0) for one in (words, words.copy(), swapped)]
    assert found[0] == found[1] != found[2]
    assert number(words.ctypes.data, words.nbytes, 1) != found[0]
