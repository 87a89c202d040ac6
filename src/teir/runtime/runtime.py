"""The one process-wide value: what is made once per process and shared by all threads.

A `Runtime` keeps things by name, each made on first use under one lock: loaded code, the thread
pool, the object cache. After a fork the child drops the lock (another thread of the parent may
have held it) and tells every kept thing that its threads are gone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class ForkAware(Protocol):
    """Something kept by the runtime that must repair itself in a forked child."""

    def after_fork_in_child(self) -> None: ...


class Runtime:
    """Things made once per process, by name."""

    __slots__ = ("_kept", "_lock")

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}
        self._lock = threading.RLock()

    def once(self, name: str, make: Callable[[], T]) -> T:
        """The thing kept under ``name``; made by ``make`` if it is asked for the first time."""
        kept = self._kept.get(name)
        if kept is not None:
            return kept  # type: ignore[no-any-return]
        with self._lock:
            if name not in self._kept:
                self._kept[name] = make()
            return self._kept[name]  # type: ignore[no-any-return]

    def after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        for kept in self._kept.values():
            if isinstance(kept, ForkAware):
                kept.after_fork_in_child()


_CURRENT = Runtime()
os.register_at_fork(after_in_child=_CURRENT.after_fork_in_child)


def current() -> Runtime:
    """The runtime of this process."""
    return _CURRENT
