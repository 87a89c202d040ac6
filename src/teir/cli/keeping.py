"""What commands say of the cache: whether something will be found again."""

from __future__ import annotations

CACHE_IS_OFF = "nothing is kept: TEIR_CACHE turns the cache off, or there is no directory for it"


def said_of_keeping(is_kept: bool) -> str:
    """Whether a tuning record will be found again."""
    if is_kept:
        return "remembered for this machine"
    return (
        "not remembered: TEIR_CACHE turns the cache off, or its directory or file cannot be written"
    )


def said_of_unwritten(records: str, refusal: str | None) -> str:
    """Why records that are better than what is known were not kept."""
    reason = refusal or "what lies under their names cannot be replaced"
    return f"{records} could not be written: {reason}"
