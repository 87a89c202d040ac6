"""How the lanes of a vector lie in memory."""

from __future__ import annotations

from enum import Enum


class Access(Enum):
    """How the lanes of one vector lie in memory."""

    UNIT = "unit"
    """Lanes are adjacent elements."""
    STRIDED = "strided"
    """Lanes are a run-time stride apart."""
    BROADCAST = "broadcast"
    """All lanes are the same element."""

    __hash__ = object.__hash__
