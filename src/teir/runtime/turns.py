"""Changes of a thing that threads share, one after the other, without anybody waiting.

A lock would wait for itself where the thread that holds it is called again in between: by a signal
handler, or by a finalizer the collector runs. Here a change that is asked for while another is
made is left to whoever makes that one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Turns:
    """Who may change the thing now, and what is still to change."""

    __slots__ = ("_asked", "_taken")

    def __init__(self) -> None:
        self._asked: deque[Callable[[], None]] = deque()
        self._taken: dict[str, list[int]] = {}
        """One entry while somebody has the turn: setting it where there is none is one step.

        It holds the thread; being a list of its own tells it apart from every other turn."""

    def make(self, change: Callable[[], None]) -> None:
        """Make ``change`` now; where another is being made, right after that one."""
        self._asked.append(change)
        turn = [threading.get_ident()]
        try:
            while self._asked and self._taken.setdefault(_KEY, turn) is turn:
                while self._asked:
                    self._asked.popleft()()
                self._taken.pop(_KEY, None)
        finally:
            if self._taken.get(_KEY) is turn:
                self._taken.clear()

    def is_whole_after_fork(self) -> bool:
        """For the child: False where a thread that is not here was in the middle of a change.

        The turn is free then, and what was still asked for is dropped. A thread that forks in the
        middle of a change, in a signal handler, ends it in the child too.
        """
        turn = self._taken.get(_KEY)
        if turn is None or turn == [threading.get_ident()]:
            return True
        self._taken.clear()
        self._asked.clear()
        return False


_KEY = "by"
