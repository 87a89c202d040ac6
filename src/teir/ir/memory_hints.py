"""The metadata entries ``stream`` and ``prefetch`` of a Contraction or a Copy: advice about memory.

    primitive gemm = Contraction FP32 (a, b -> c; M=[m], N=[n], K=[k]) with {"prefetch": ["a"]}

``"stream": true``: the output is written once and not read again soon, so that it may go past the
caches. ``"prefetch": [...]``: operands that the next invocation of the innermost loop around finds
far from this one's, so that they are worth asking for ahead; of inputs, where that loop is short,
the next invocation of the loop around it, or where blocks ask in passing the next turn of the
innermost loop that moves them. Advice changes no value, may be ignored, and is ignored
where it is not written as above.
"""

from __future__ import annotations

import json
from functools import lru_cache

import msgspec

from teir.ir.nodes import Primitive

_STREAM = "stream"
_PREFETCH = "prefetch"


class MemoryHints(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``prefetched`` names operands; ``streams`` is about the output."""

    streams: bool
    prefetched: frozenset[str]

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The entries of a primitive's metadata, sorted by key."""
        return _entries(self) if self.streams or self.prefetched else ()


@lru_cache(maxsize=256)
def _entries(hints: MemoryHints) -> tuple[tuple[str, str], ...]:
    names = sorted(hints.prefetched)
    prefetch = ((_PREFETCH, json.dumps(names, separators=(",", ":"))),) if names else ()
    return (*prefetch, *(((_STREAM, "true"),) if hints.streams else ()))


NO_HINTS = MemoryHints(streams=False, prefetched=frozenset())


def memory_hints(primitive: Primitive) -> MemoryHints:
    """The advice a primitive carries."""
    return _parsed(primitive.metadata) if primitive.metadata else NO_HINTS


@lru_cache(maxsize=256)
def _parsed(metadata: tuple[tuple[str, str], ...]) -> MemoryHints:
    entries = dict(metadata)
    try:
        names = json.loads(entries.get(_PREFETCH, "[]"))
    except ValueError:
        names = []
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return MemoryHints(
        streams=entries.get(_STREAM) == "true",
        prefetched=frozenset(names if is_list else ()),
    )
