"""Runs that can be stopped: Ctrl-C and time limits.

The run executes in a thread of its own while the caller waits in Python, where signals are
handled. To stop it, the caller sets the cancel flag, which every loop of the program reads, and
waits until the run has ended: nobody may return while the program still writes.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from teir.errors import ArgumentPlace, Finding, Rule, TeirError

TIMEOUT_RULE = Rule(
    code="TEIR707",
    sentence="A run ends within the time limit the caller gave.",
    source="teir, entry points",
)


class RunTimeoutError(TeirError, TimeoutError):
    """Raised when a run was stopped because its time was over."""


def run_watched(call: Callable[[], None], cancel: ctypes.c_int64, timeout: float | None) -> None:
    """``call()``, stopped by KeyboardInterrupt or after ``timeout`` seconds.

    ``call`` keeps what the running code uses. Raises RunTimeoutError where the time was over
    first.
    """
    claim = threading.Lock()
    ended = threading.Event()

    def run() -> None:
        if claim.acquire(blocking=False):
            call()
        ended.set()

    try:
        threading.Thread(target=run, daemon=True).start()
        in_time = ended.wait(None if timeout is None else _seconds(timeout))
    except BaseException:
        _stop(cancel, claim, ended)
        raise
    if not in_time:
        _stop(cancel, claim, ended)
        raise RunTimeoutError((_timeout_finding(timeout),))


def _seconds(timeout: float) -> float:
    """As many as can be waited for: more, or no end of them, are centuries too."""
    return max(0, min(timeout, threading.TIMEOUT_MAX))


def _stop(cancel: ctypes.c_int64, claim: threading.Lock, ended: threading.Event) -> None:
    """Set the flag and wait; further interrupts wait too, for the run still writes.

    Whoever takes the claim first decides whether the run begins at all. A handler may raise before
    it is known that the claim was taken here: the thread then ends without having begun.
    """
    is_ours = False
    while True:
        try:
            cancel.value = 1
            is_ours = is_ours or claim.acquire(blocking=False)
            if not is_ours:
                ended.wait()
            return
        except BaseException:  # a signal handler may raise anything
            continue


def _timeout_finding(timeout: float | None) -> Finding:
    return Finding(
        rule=TIMEOUT_RULE,
        place=ArgumentPlace(name="timeout"),
        expected=f"an end within {timeout} s",
        found="a run that was still going",
        hint="the output's values are unspecified; raise timeout= or use more threads",
    )
