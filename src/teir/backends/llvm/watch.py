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
    code="TEIR705",
    sentence="A run ends within the time limit the caller gave.",
    source="teir, entry points",
)


class RunTimeoutError(TeirError, TimeoutError):
    """Raised when a run was stopped because its time was over."""


def run_watched(
    call: Callable[[int], None], frame: int, cancel: ctypes.c_int64, timeout: float | None
) -> None:
    """``call(frame)``, stopped by KeyboardInterrupt or after ``timeout`` seconds.

    Raises RunTimeoutError where the time was over first.
    """
    ended = threading.Event()
    threading.Thread(target=_run, args=(call, frame, ended), daemon=True).start()
    try:
        in_time = ended.wait(timeout)
    except BaseException:
        _stop(cancel, ended)
        raise
    if not in_time:
        _stop(cancel, ended)
        raise RunTimeoutError((_timeout_finding(timeout),))


def _run(call: Callable[[int], None], frame: int, ended: threading.Event) -> None:
    call(frame)
    ended.set()


def _stop(cancel: ctypes.c_int64, ended: threading.Event) -> None:
    """Set the flag and wait; further interrupts wait too, for the run still writes."""
    cancel.value = 1
    while not ended.is_set():
        try:
            ended.wait()
        except KeyboardInterrupt:
            continue


def _timeout_finding(timeout: float | None) -> Finding:
    return Finding(
        rule=TIMEOUT_RULE,
        place=ArgumentPlace(name="timeout"),
        expected=f"an end within {timeout} s",
        found="a run that was still going",
        hint="the output's values are unspecified; raise timeout= or use more threads",
    )
