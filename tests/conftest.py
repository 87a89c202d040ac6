"""Drawn examples have no deadline: machines differ, and are shared with others."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
