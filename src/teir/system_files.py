"""Small files in which the operating system tells of the machine and of this process."""

from __future__ import annotations

from pathlib import Path


def read_system_file(path: Path) -> str:
    """The text of a file, empty where it is missing or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
