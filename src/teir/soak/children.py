"""Run dangerous work in forked children: a crash or a hang is a result, not the end.

The parent itself never runs native code, so a fork finds it without threads.
"""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Work = Callable[[int], dict[str, Any]]
"""From the number of an item to a result that JSON can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The work on ``item`` ended and returned ``result``."""

    item: int
    result: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The work on ``item`` raised; ``error`` is the traceback."""

    item: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The child was killed by a signal, or ended, while it worked on ``item``."""

    item: int
    signal_number: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hung:
    """The child was stopped after ``seconds`` on ``item``."""

    item: int
    seconds: float


Outcome = Done | Failed | Died | Hung


def in_children(
    work: Work, items: Sequence[int], *, jobs: int, seconds: float
) -> Iterator[Outcome]:
    """One outcome for each item, in any order; ``seconds`` is the limit for one item.

    The items are dealt to ``jobs`` children; a child that dies is replaced.
    """
    hands = [_Child(work, items[number::jobs], seconds) for number in range(jobs)]
    try:
        while any(hand.is_busy for hand in hands):
            readable = {hand.pipe: hand for hand in hands if hand.is_busy}
            ready, _, _ = select.select(list(readable), [], [], 0.2)
            for pipe in ready:
                yield from readable[pipe].read()
            for hand in hands:
                yield from hand.stop_if_late()
    finally:
        for hand in hands:
            hand.stop()


class _Child:
    """A forked child that works through a list of items, and its replacement when it dies."""

    def __init__(self, work: Work, items: Sequence[int], seconds: float) -> None:
        self._work = work
        self._items = list(items)
        self._seconds = seconds
        self._text = b""
        self.pipe = -1
        self._process = -1
        self._since = time.monotonic()
        self._start()

    @property
    def is_busy(self) -> bool:
        return self._process != -1

    def read(self) -> Iterator[Outcome]:
        piece = os.read(self.pipe, 1 << 16)
        self._text += piece
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            self._since = time.monotonic()
            record = json.loads(line)
            item = self._items.pop(0)
            if "error" in record:
                yield Failed(item=item, error=record["error"])
            else:
                yield Done(item=item, result=record["result"])
        if not piece:
            status = self._reap()
            if self._items:
                number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
                yield Died(item=self._items.pop(0), signal_number=number)
            self._start()

    def stop_if_late(self) -> Iterator[Outcome]:
        if not self.is_busy or time.monotonic() - self._since < self._seconds:
            return
        self.stop()
        if self._items:
            yield Hung(item=self._items.pop(0), seconds=self._seconds)
        self._start()

    def stop(self) -> None:
        if self.is_busy:
            os.kill(self._process, signal.SIGKILL)
            self._reap()

    def _reap(self) -> int:
        os.close(self.pipe)
        _, status = os.waitpid(self._process, 0)
        self._process, self.pipe, self._text = -1, -1, b""
        return status

    def _start(self) -> None:
        if not self._items:
            return
        self._since = time.monotonic()
        self.pipe, end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._process = os.fork()
        if self._process == 0:
            os.close(self.pipe)
            _work_through(self._work, self._items, end)
        os.close(end)


def _work_through(work: Work, items: Sequence[int], pipe: int) -> None:
    """The child's life: one JSON line per item, then the end without any clean-up."""
    faulthandler.disable()
    for item in items:
        try:
            record: dict[str, Any] = {"result": work(item)}
        except BaseException:
            record = {"error": traceback.format_exc()}
        line = json.dumps(record).encode() + b"\n"
        while line:
            line = line[os.write(pipe, line) :]
    os._exit(0)
