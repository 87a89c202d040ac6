"""The limits of threadpoolctl, where it is installed, hold for the pool too.

threadpoolctl finds thread pools by the names of loaded shared libraries. Ours lives in generated
code, so it answers in the name of the library that made it, which is always loaded.
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from teir.thread_limits import usable_threads


class LimitedPool(Protocol):
    """What a limit needs of a pool."""

    @property
    def most_threads(self) -> int: ...

    def limit_threads(self, most: int) -> None: ...


def answer_threadpoolctl(pool: LimitedPool) -> bool:
    """Register ``pool`` with threadpoolctl; False where that is not installed."""
    try:
        import threadpoolctl
    except ImportError:
        return False
    threadpoolctl.register(_controller(threadpoolctl.LibController, pool))
    return True


def _controller(base: Any, pool: LimitedPool) -> Any:
    """A controller class; the protocol of threadpoolctl asks for one class per pool."""

    class TeirController(base):  # type: ignore[misc]
        user_api = "teir"
        internal_api = "teir"
        filename_prefixes = ("libllvmlite",)

        def get_num_threads(self) -> int:
            return pool.most_threads or usable_threads(os.environ)

        def set_num_threads(self, num_threads: int) -> None:
            pool.limit_threads(max(1, num_threads))

        def get_version(self) -> None:
            return None

    return TeirController
