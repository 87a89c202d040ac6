"""Memory barriers (mbarrier): arrivals, bytes in flight, phases.

A phase completes when all arrivals have come and no byte it was told to expect is missing; the
next one then begins. A waiter names the parity of the phase it waits for: a wait for parity p
passes once the current phase has the other parity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from teir.tma.tensor_map import TRANSACTION_LIMIT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """``arrivals`` per phase; ``missing`` of them, and ``pending_bytes``, in the current ``phase``.

    Bytes may complete before they are expected: ``pending_bytes`` is then negative.
    """

    arrivals: int
    missing: int
    pending_bytes: int
    phase: int

    @property
    def is_sound(self) -> bool:
        """False once a phase got more arrivals or bytes in flight than a barrier can count."""
        return self.missing >= 0 and abs(self.pending_bytes) < TRANSACTION_LIMIT_BYTES


def new_barrier(arrivals: int) -> Barrier:
    """A barrier in its first phase, number 0."""
    return Barrier(arrivals=arrivals, missing=arrivals, pending_bytes=0, phase=0)


def arrive(barrier: Barrier) -> Barrier:
    """One arrival."""
    return _advanced(replace(barrier, missing=barrier.missing - 1))


def arrive_expecting(barrier: Barrier, size_bytes: int) -> Barrier:
    """One arrival that announces ``size_bytes`` of copies (arrive.expect_tx)."""
    pending = barrier.pending_bytes + size_bytes
    return _advanced(replace(barrier, missing=barrier.missing - 1, pending_bytes=pending))


def complete_bytes(barrier: Barrier, size_bytes: int) -> Barrier:
    """``size_bytes`` of a copy have landed (complete_tx)."""
    return _advanced(replace(barrier, pending_bytes=barrier.pending_bytes - size_bytes))


def wait_passes(barrier: Barrier, parity: int) -> bool:
    """Would a wait for the phase of ``parity`` (0 or 1) pass now?"""
    return barrier.phase % 2 != parity


def _advanced(barrier: Barrier) -> Barrier:
    if barrier.missing or barrier.pending_bytes:
        return barrier
    return replace(barrier, missing=barrier.arrivals, phase=barrier.phase + 1)
