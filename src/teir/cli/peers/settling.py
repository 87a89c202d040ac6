"""Calls until the code that is made for calls made often is there."""

from __future__ import annotations

import time

from teir.backends.llvm.background import background_specialiser
from teir.cli.peers.rounds import Call
from teir.runtime.runtime import current


def settle(ours: Call, seconds: float) -> None:
    """Call for ``seconds``, then wait for the specialised code that a plan asked for meanwhile.

    A thread of low priority gets little done beside a benchmark, nothing beside a real-time one.
    """
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        ours()
    background_specialiser(current()).wait()
