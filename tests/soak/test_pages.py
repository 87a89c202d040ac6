"""One byte beyond either end of guarded memory is a fault."""

from __future__ import annotations

import ctypes
import signal
from typing import Any

import numpy as np
import pytest

from teir.soak.children import Died, Done, in_children
from teir.soak.pages import GuardedPages


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("size", [1, 4096, 5000])
def test_a_stray_byte_is_a_fault(size: int, at_end: bool) -> None:
    def read_byte(stray: int) -> dict[str, Any]:
        content = np.arange(size, dtype=np.uint8)
        pages = GuardedPages(size)
        placed = pages.place(content, at_end=at_end)
        start = placed.__array_interface__["data"][0]
        assert np.array_equal(placed, content)
        address = start + size - 1 + stray if at_end else start - stray
        return {"byte": ctypes.c_ubyte.from_address(address).value}

    inside, stray = in_children(read_byte, [0, 1], jobs=1, seconds=10)
    assert isinstance(inside, Done)
    assert stray == Died(item=1, signal_number=signal.SIGSEGV)
