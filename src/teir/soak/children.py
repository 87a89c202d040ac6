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
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
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

    Each of ``jobs`` children takes items that follow one another, since neighbours share code that
    a child compiles once; one that has none left takes the last of those with most before them. A
    child that dies is replaced.
    """
    spans = [deque(items[start:end]) for start, end in pairwise(_bounds(len(items), jobs))]
    hands = [_Child(work, partial(_taken, spans, number), seconds) for number in range(jobs)]
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


def _bounds(count: int, parts: int) -> list[int]:
    """Where ``parts`` spans of ``count`` items begin, and where the last one ends."""
    return [count * number // parts for number in range(parts + 1)]


def _taken(spans: Sequence[deque[int]], number: int) -> int | None:
    """The next item of span ``number``, taken from it; of the longest where it has none left."""
    if spans[number]:
        return spans[number].popleft()
    longest = max(spans, key=len)
    return longest.pop() if longest else None


class _Child:
    """A forked child that is told one item after the other, and its replacement when it dies."""

    def __init__(self, work: Work, take: Callable[[], int | None], seconds: float) -> None:
        self._work = work
        self._take = take
        self._seconds = seconds
        self._text = b""
        self.pipe = -1
        self._orders = -1
        self._process = -1
        self._item = -1
        self._since = time.monotonic()
        self._go_on()

    @property
    def is_busy(self) -> bool:
        return self._process != -1

    def read(self) -> Iterator[Outcome]:
        piece = os.read(self.pipe, 1 << 16)
        item = self._item
        if not piece:
            status = self._reap()
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
            self._go_on()
            yield Died(item=item, signal_number=number)
            return
        self._text += piece
        if not self._text.endswith(b"\n"):
            return
        record = json.loads(self._text)
        self._text = b""
        self._go_on()
        if "error" in record:
            yield Failed(item=item, error=record["error"])
        else:
            yield Done(item=item, result=record["result"])

    def stop_if_late(self) -> Iterator[Outcome]:
        if not self.is_busy or time.monotonic() - self._since < self._seconds:
            return
        item = self._item
        self.stop()
        self._go_on()
        yield Hung(item=item, seconds=self._seconds)

    def stop(self) -> None:
        if self.is_busy:
            os.kill(self._process, signal.SIGKILL)
            self._reap()

    def _reap(self) -> int:
        os.close(self.pipe)
        os.close(self._orders)
        _, status = os.waitpid(self._process, 0)
        self._process, self.pipe, self._orders, self._text = -1, -1, -1, b""
        return status

    def _go_on(self) -> None:
        """Begin the next item; without one the child is stopped."""
        item = self._take()
        if item is None:
            self.stop()
            return
        if not self.is_busy:
            self._start()
        self._item, self._since = item, time.monotonic()
        with suppress(BrokenPipeError):  # of one that died between two items, `read` will tell
            os.write(self._orders, b"%d\n" % item)

    def _start(self) -> None:
        self.pipe, results = os.pipe()
        orders, self._orders = os.pipe()
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None where a descriptor is closed
            stream.flush()
        self._process = os.fork()
        if self._process == 0:
            os.close(self.pipe)
            os.close(self._orders)
            _work_through(self._work, orders, results)
        os.close(orders)
        os.close(results)


def _work_through(work: Work, orders: int, results: int) -> None:
    """The child's life: one JSON line per item it is told, then the end without any clean-up."""
    faulthandler.disable()
    try:
        for word in os.fdopen(orders, "rb", buffering=0):
            line = json.dumps(_record(work, int(word))).encode() + b"\n"
            while line:
                line = line[os.write(results, line) :]
    finally:
        os._exit(0)


def _record(work: Work, item: int) -> dict[str, Any]:
    try:
        return {"result": work(item)}
    except BaseException:
        return {"error": traceback.format_exc()}
