"""Compiled objects on disk.

An entry is one file: a header with the full key and the digest of the bytes, then the bytes. It is
written to a private name and renamed into place, so readers see a whole entry or none, and any
number of processes may write at once. Nothing read is trusted before the directory and the file
are known to belong to this user and to be writable by nobody else, the whole key is equal and the
digest matches. Whatever goes wrong (no home, full disk, foreign files) means no entry, never an
error: the cache makes things faster and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from teir.runtime.private_files import cache_folder, load_private, store_private

_MAGIC = b"teir object 1\n"
_DIGEST_BYTES = 32
_LENGTH_BYTES = 8
_LARGEST_ENTRY = 1 << 28
MOST_ENTRIES = 4096
"""Beyond this many entries the quarter that was used longest ago goes."""


@dataclass(frozen=True, slots=True)
class ObjectCache:
    """The cache in one directory; ``directory`` is None where caching is turned off."""

    directory: Path | None

    def load(self, key: bytes) -> bytes | None:
        """The bytes stored under ``key``, or None."""
        entry = load_private(self.directory, _file_name(key), _LARGEST_ENTRY)
        return None if entry is None else _unwrap(entry, key)

    def store(self, key: bytes, data: bytes) -> bool:
        """Keep ``data`` under ``key``; False where it could not be written."""
        return store_private(self.directory, _file_name(key), _wrap(key, data), _make_room)


def object_cache(environment: Mapping[str, str]) -> ObjectCache:
    """The cache the environment asks for; see `teir.runtime.private_files.cache_folder`."""
    return ObjectCache(cache_folder(environment, "objects"))


def _file_name(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest() + ".teir"


def _wrap(key: bytes, data: bytes) -> bytes:
    length = len(key).to_bytes(_LENGTH_BYTES, "little")
    return b"".join((_MAGIC, hashlib.sha256(data).digest(), length, key, data))


def _unwrap(entry: bytes, key: bytes) -> bytes | None:
    head = len(_MAGIC) + _DIGEST_BYTES + _LENGTH_BYTES
    if len(entry) < head + len(key) or not entry.startswith(_MAGIC):
        return None
    digest = entry[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]
    length = int.from_bytes(entry[head - _LENGTH_BYTES : head], "little")
    if length != len(key) or entry[head : head + length] != key:
        return None
    data = entry[head + length :]
    return data if hashlib.sha256(data).digest() == digest else None


def _make_room(folder: int) -> None:
    names = os.listdir(folder)
    if len(names) <= MOST_ENTRIES:
        return
    used: list[tuple[float, str]] = []
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            used.append((status.st_mtime, name))
    for _, name in sorted(used)[: len(used) // 4]:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
