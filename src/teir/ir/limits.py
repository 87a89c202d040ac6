"""The limits of what is read; every one is checked and printed by ``teir info``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest value that is accepted, and what it counts."""

    largest: int
    of: str


INPUT_BYTES = Limit(largest=16 * 2**20, of="bytes of one input")
JSON_NESTING = Limit(largest=32, of="nesting levels of a JSON input")
JSON_CONTAINERS = Limit(largest=1_000_000, of="objects and arrays of a JSON input")
SCHEDULE_DEPTH = Limit(largest=256, of="nodes on one path of the schedule")
ENTRIES = Limit(largest=100_000, of="axes, and as many nodes, primitives and tensors")
IDENTIFIER_BYTES = Limit(largest=256, of="UTF-8 bytes of an identifier")
LINE_CHARACTERS = Limit(largest=2**20, of="characters of one line of the text form")
NUMBER_CHARACTERS = Limit(largest=32, of="characters of a number")
LISTED_FINDINGS = Limit(largest=1_000, of="findings listed at once")

LIMITS = (
    INPUT_BYTES,
    JSON_NESTING,
    JSON_CONTAINERS,
    SCHEDULE_DEPTH,
    ENTRIES,
    IDENTIFIER_BYTES,
    LINE_CHARACTERS,
    NUMBER_CHARACTERS,
    LISTED_FINDINGS,
)
