"""The one process-wide value: what is made once per process and shared by all threads.

A `Runtime` keeps things by name, each made on first use under one lock: loaded code, the thread
pool, the object cache. A fork asks kept things that know about forks to come to a state the child
can go on from; the child drops the runtime's own lock, which another thread may have held.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class ForkAware(Protocol):
    """Something kept by the runtime that a fork would break."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


class Runtime:
    """Things made once per process, by name."""

    __slots__ = ("_forking", "_kept", "_lock")

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._forking: dict[int, tuple[ForkAware, ...]] = {}

    def once(self, name: str, make: Callable[[], T]) -> T:
        """The thing kept under ``name``; made by ``make`` if it is asked for the first time."""
        kept = self._kept.get(name)
        if kept is not None:
            return kept  # type: ignore[no-any-return]
        with self._lock:
            if name not in self._kept:
                # A signal handler may have made one meanwhile: the first one stays.
                self._kept.setdefault(name, make())
            return self._kept[name]  # type: ignore[no-any-return]

    def before_fork(self) -> None:
        kept = tuple(thing for thing in tuple(self._kept.values()) if isinstance(thing, ForkAware))
        for thing in kept:
            thing.before_fork()
        self._forking[threading.get_ident()] = kept

    def after_fork_in_parent(self) -> None:
        for thing in reversed(self._forking.pop(threading.get_ident())):
            thing.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        kept = self._forking.pop(threading.get_ident())
        self._forking = {}
        self._lock = threading.RLock()
        for thing in reversed(kept):
            thing.after_fork_in_child()


_CURRENT = Runtime()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_CURRENT.before_fork,
        after_in_parent=_CURRENT.after_fork_in_parent,
        after_in_child=_CURRENT.after_fork_in_child,
    )


def current() -> Runtime:
    """The runtime of this process."""
    return _CURRENT
