"""Memory for scratch: large pages from some size on, whatever the system grants."""

from __future__ import annotations

import mmap
import sys

import pytest

from teir.backends.llvm.scratch_pages import (
    LARGE_PAGE_BYTES,
    LARGE_PAGES_FROM_BYTES,
    scratch_memory,
)

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="large pages are asked for on Linux")


@pytest.mark.parametrize(
    "size", [0, 1, LARGE_PAGES_FROM_BYTES - 1, LARGE_PAGES_FROM_BYTES, (5 << 20) + 3]
)
def test_all_of_it_is_writable(size: int) -> None:
    memory = scratch_memory(size)
    memory[...] = 7
    assert memory.nbytes == size
    assert memory.flags.writeable
    assert bool((memory == 7).all())


@ON_LINUX
@pytest.mark.parametrize("size", [LARGE_PAGES_FROM_BYTES, 3 << 20])
def test_much_of_it_begins_with_a_large_page(size: int) -> None:
    for memory in [scratch_memory(size) for _ in range(4)]:
        assert memory.__array_interface__["data"][0] % LARGE_PAGE_BYTES == 0


@ON_LINUX
def test_a_system_without_large_pages_gives_others(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(mmap.mmap):
        def madvise(self, *_: int) -> None:
            raise OSError

    monkeypatch.setattr(mmap, "mmap", Refusing)
    memory = scratch_memory(2 * LARGE_PAGES_FROM_BYTES)
    memory[...] = 7
    assert memory.nbytes == 2 * LARGE_PAGES_FROM_BYTES


@ON_LINUX
def test_more_than_there_is_raises_what_numpy_raises() -> None:
    with pytest.raises(MemoryError):
        scratch_memory(1 << 60)
