"""Readable JSON documents on disk, by name, in a directory of this user's.

As with compiled objects, whatever goes wrong with the files means no document, never an error.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from teir.runtime.private_files import (
    load_private,
    open_folder,
    store_private,
    write_atomically,
)

MOST_BYTES = 1 << 20
"""The largest document that is read."""

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class RecordFolder:
    """The documents in one directory; ``directory`` is None where nothing is kept."""

    directory: Path | None

    def names(self) -> frozenset[str]:
        """The names of all documents."""
        if self.directory is None:
            return frozenset()
        try:
            entries = os.listdir(self.directory)
        except OSError:
            return frozenset()
        return frozenset(
            entry.removesuffix(_SUFFIX)
            for entry in entries
            if entry.endswith(_SUFFIX) and not entry.startswith(".")
        )

    def load(self, name: str) -> bytes | None:
        """A document's bytes, None where there is none that belongs to this user alone."""
        return load_private(self.directory, name + _SUFFIX, MOST_BYTES)

    def store(self, name: str, document: bytes) -> bool:
        """Keep a document; False where it could not be written."""
        return store_private(self.directory, name + _SUFFIX, document, lambda _: None)

    def refusal(self) -> str | None:
        """Why no document can be kept here; None where the directory takes some."""
        if self.directory is None:
            return "there is no directory"
        try:
            folder = open_folder(self.directory, create=True)
        except OSError as error:
            return f"{self.directory}: {error.strerror or error}"
        try:
            write_atomically(folder, f".{os.getpid()}.try", b"")
            os.unlink(f".{os.getpid()}.try", dir_fd=folder)
        except OSError as error:
            return f"{self.directory}: {error.strerror or error}"
        finally:
            os.close(folder)
        return None
