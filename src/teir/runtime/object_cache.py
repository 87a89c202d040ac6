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
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
        if self.directory is None:
            return None
        try:
            folder = _open_folder(self.directory, create=False)
        except OSError:
            return None
        try:
            entry = _read_private_file(folder, _file_name(key))
        except OSError:
            return None
        finally:
            os.close(folder)
        return None if entry is None else _unwrap(entry, key)

    def store(self, key: bytes, data: bytes) -> bool:
        """Keep ``data`` under ``key``; False where it could not be written."""
        if self.directory is None:
            return False
        try:
            folder = _open_folder(self.directory, create=True)
        except OSError:
            return False
        try:
            _write_atomically(folder, _file_name(key), _wrap(key, data))
            _make_room(folder)
        except OSError:
            return False
        finally:
            os.close(folder)
        return True


def object_cache(environment: Mapping[str, str]) -> ObjectCache:
    """The cache the environment asks for.

    ``TEIR_CACHE=off`` turns it off, ``TEIR_CACHE_DIR`` names its directory; the default is the
    user's cache directory. Without POSIX ownership and modes there is no cache.
    """
    if os.name != "posix" or environment.get("TEIR_CACHE", "").lower() in (
        "off",
        "0",
        "no",
        "false",
    ):
        return ObjectCache(None)
    chosen = environment.get("TEIR_CACHE_DIR")
    if chosen:
        return ObjectCache(Path(chosen))
    import platformdirs

    try:
        return ObjectCache(Path(platformdirs.user_cache_dir("teir")) / "objects")
    except (OSError, RuntimeError):
        return ObjectCache(None)


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


def _open_folder(path: Path, create: bool) -> int:
    """A descriptor of the cache directory. Raises OSError where it is not private."""
    if create:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _require_private(os.fstat(folder))
    except OSError:
        os.close(folder)
        raise
    return folder


def _require_private(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise PermissionError("belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("is writable by others")


def _read_private_file(folder: int, name: str) -> bytes | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb") as file:
        status = os.fstat(file.fileno())
        _require_private(status)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_ENTRY:
            return None
        with contextlib.suppress(OSError):
            os.utime(file.fileno())
        return file.read()


def _write_atomically(folder: int, name: str, entry: bytes) -> None:
    """Write a private file and rename it; raises OSError and leaves nothing behind."""
    private_name = f".{name}.{os.getpid()}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(private_name, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(entry)
        os.rename(private_name, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(private_name, dir_fd=folder)
        raise


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
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
