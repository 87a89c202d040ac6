"""The objects of a code library as one entry of the cache: a kernel is found whoever asked first.

A plan's missing kernels are compiled in one object. All objects lie in one file, the oldest first,
so that a process reads them at once, and finds a kernel that another plan was compiled with.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

MOST_BYTES = 8 << 20
"""What is kept, all together; the latest object is kept whatever its size."""

_SIZES = struct.Struct("<QQ")


class StoredObject(NamedTuple):
    """Object code, and the symbols it was compiled with, in their order."""

    symbols: tuple[str, ...]
    data: bytes


def packed(objects: Sequence[StoredObject]) -> bytes:
    """The bytes of an entry."""
    parts = []
    for one in objects:
        names = "\n".join(one.symbols).encode()
        parts += [_SIZES.pack(len(names), len(one.data)), names, one.data]
    return b"".join(parts)


def unpacked(entry: bytes) -> list[StoredObject]:
    """The objects of an entry that `packed` made."""
    objects = []
    at = 0
    while at < len(entry):
        name_bytes, data_bytes = _SIZES.unpack_from(entry, at)
        names = at + _SIZES.size
        data = names + name_bytes
        at = data + data_bytes
        symbols = tuple(entry[names:data].decode().split("\n"))
        objects.append(StoredObject(symbols, entry[data:at]))
    return objects


def with_latest(objects: Sequence[StoredObject], latest: StoredObject) -> list[StoredObject]:
    """The objects and the latest one, without the oldest where they are too large together."""
    kept = [latest]
    room = MOST_BYTES - len(latest.data)
    for one in reversed(objects):
        if one.symbols == latest.symbols:
            continue
        room -= len(one.data)
        if room < 0:
            break
        kept.append(one)
    return kept[::-1]
