"""``teir warm``: compile the blocks that native code is put together from, once, to the cache."""

from __future__ import annotations

from teir.cli.console import say


def warm() -> None:
    """Compile what is usually needed and keep it, so that first calls are fast."""
    from teir.backends.llvm.native import warm as warm_blocks

    say(f"{warm_blocks()} pieces of code are in the cache")
