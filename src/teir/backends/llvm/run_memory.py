"""Memory of runs that programs share: fresh pages cost more than much of what runs in them.

On a virtual machine fresh pages for 14 to 16 MB of scratch took 8 to 49 ms, while the products that
packed into them took 30 to 100. A first run takes memory that another run has left, and so does
every run of a program with much scratch; native entry points, which keep their addresses, have one
piece for all programs.
"""

from __future__ import annotations

from array import array
from typing import Any

import msgspec
import numpy as np

from teir.backends.llvm.scratch_pages import scratch_memory
from teir.runtime import runtime

MOST_SHARED_BYTES = 64 << 20
"""Memory that is shared: more is given back to the system with the program."""
FEWEST_SHARED_BYTES = 1 << 20
"""Scratch that runs share; less is each program's own, so that calls at once do not meet."""

Memory = np.ndarray[Any, np.dtype[np.uint8]]


class SpareMemory(msgspec.Struct, frozen=True):
    """Memory of a context that nobody uses now. Lists give and take one item at a time."""

    _memory: list[Memory]

    def take(self, size_bytes: int) -> Memory:
        """At least so many bytes, of any values."""
        if size_bytes > MOST_SHARED_BYTES:
            return scratch_memory(size_bytes)
        try:
            return self._memory.pop()
        except IndexError:
            # Pages that are never touched cost nothing.
            return scratch_memory(MOST_SHARED_BYTES)

    def give(self, memory: Memory) -> None:
        """Keep this memory, which no run uses any more, or forget it."""
        if not self._memory and memory.size == MOST_SHARED_BYTES:
            self._memory.append(memory)


class EntryScratch(msgspec.Struct, frozen=True):
    """Scratch of native entry points, for one run of all of them at a time."""

    memory: Memory
    is_used: array[int]
    """1 while a run uses the memory: set and tested by native code."""

    def before_fork(self) -> None:
        """Nothing to wait for."""

    def after_fork_in_parent(self) -> None:
        """Nothing has changed."""

    def after_fork_in_child(self) -> None:
        self.is_used[0] = 0


def spare_memory() -> SpareMemory:
    """The process's."""
    return runtime.current().once("spare memory", lambda: SpareMemory([]))


def entry_scratch() -> EntryScratch:
    """The process's."""
    return runtime.current().once(
        "scratch of entry points",
        lambda: EntryScratch(scratch_memory(MOST_SHARED_BYTES), array("q", [0])),
    )
