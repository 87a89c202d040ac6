"""Files only this user may write: where they lie, how they are read and replaced.

Nothing read is trusted before the directory and the file are known to belong to this user and to
be writable by nobody else. A file is written to a private name and renamed into place, so readers
see a whole file or none, and any number of processes may write at once.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str], kind: str) -> Path | None:
    """Where files of one kind ("objects", "tuning") are kept, None where nothing is.

    ``TEIR_CACHE=off`` turns caching off. ``TEIR_CACHE_DIR`` names the directory of the objects,
    in which other kinds have directories of their own; the default lies in the user's cache
    directory. Without POSIX ownership and modes there is no cache.
    """
    if os.name != "posix" or environment.get("TEIR_CACHE", "").lower() in _OFF:
        return None
    chosen = environment.get("TEIR_CACHE_DIR")
    if chosen:
        return Path(chosen) if kind == "objects" else Path(chosen) / kind
    import platformdirs

    try:
        return Path(platformdirs.user_cache_dir("teir")) / kind
    except (OSError, RuntimeError):
        return None


_OFF = ("off", "0", "no", "false")


def open_folder(path: Path, create: bool) -> int:
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


def read_private_file(folder: int, name: str, most_bytes: int) -> bytes | None:
    """The bytes of a file of this user's, None where it is no plain file or too large.

    Marks it as used. Raises OSError, also where others may write it.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(name, flags, dir_fd=folder), "rb") as file:
        status = os.fstat(file.fileno())
        _require_private(status)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            return None
        with contextlib.suppress(OSError):
            os.utime(file.fileno())
        return file.read()


def load_private(directory: Path | None, name: str, most_bytes: int) -> bytes | None:
    """The bytes of a file in ``directory``, None where there is none that is this user's alone."""
    if directory is None:
        return None
    try:
        folder = open_folder(directory, create=False)
    except OSError:
        return None
    try:
        return read_private_file(folder, name, most_bytes)
    except OSError:
        return None
    finally:
        os.close(folder)


def store_private(
    directory: Path | None, name: str, entry: bytes, then: Callable[[int], None]
) -> bool:
    """Write a file into ``directory`` and do ``then`` with the directory's descriptor.

    False where it could not be done.
    """
    if directory is None:
        return False
    try:
        folder = open_folder(directory, create=True)
    except OSError:
        return False
    try:
        write_atomically(folder, name, entry)
        then(folder)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


def write_atomically(folder: int, name: str, entry: bytes) -> None:
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
