"""A folder for tuning records of a test's own, and processes that start anew on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from teir.runtime.runtime import current

_KEPT = (
    *("tuning records", "speeds", "einsum plans"),
    *("sparse tuning records", "sparse schedules", "sparse calls"),
)


def new_process() -> dict[str, Any]:
    """Forget what this process knows of records, plans and schedules; what that was."""
    kept = current()._kept
    return {name: kept.pop(name) for name in _KEPT if name in kept}


@contextmanager
def own_folder(parent: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where records are kept meanwhile; afterwards this process knows what it knew before."""
    monkeypatch.setenv("TEIR_CACHE_DIR", str(parent / "cache"))
    monkeypatch.delenv("TEIR_CACHE", raising=False)
    before = new_process()
    yield parent / "cache" / "tuning"
    new_process()
    current()._kept.update(before)
