"""Memory between two pages that nobody may touch: a stray byte is a fault."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from typing import Any

import numpy as np

from teir.arrays.numpy_fields import address_of
from teir.soak.operands import Image

Buffer = np.ndarray[Any, np.dtype[Any]]


class GuardedPages:
    """Readable and writable memory with an inaccessible page before and behind it."""

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        inside = max(page, -(-size // page) * page)
        self._map = mmap.mmap(-1, inside + 2 * page)
        room = np.frombuffer(self._map, np.uint8)
        self._inside = room[page : page + inside]
        start = address_of(room)
        for address in (start, start + page + inside):
            _protect(address, page)

    def place(self, content: Buffer, *, at_end: bool) -> Buffer:
        """A copy of ``content`` that touches the page behind it, or the page before it."""
        size = content.size
        start = self._inside.size - size if at_end else 0
        placed = self._inside[start : start + size]
        placed[:] = content
        return placed


class GuardedOperands:
    """Guarded pages for each operand, on which copies of the images are placed."""

    def __init__(self, images: Mapping[str, Image]) -> None:
        self._images = dict(images)
        self._pages = {name: GuardedPages(image.content.size) for name, image in images.items()}

    def placed(self, *, at_end: bool) -> dict[str, Image]:
        """The operands copied anew; what was placed before is overwritten."""
        return {
            name: Image(
                data_type=image.data_type,
                content=self._pages[name].place(image.content, at_end=at_end),
                base=image.base,
            )
            for name, image in self._images.items()
        }


def on_guarded_pages(images: Mapping[str, Image], *, at_end: bool) -> dict[str, Image]:
    """The operands copied, each to guarded pages of its own."""
    return GuardedOperands(images).placed(at_end=at_end)


def _protect(address: int, size: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    nothing = 0
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), nothing) != 0:
        raise OSError(ctypes.get_errno(), "mprotect failed")
