"""A bar for work that turns out to take longer than a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

Advance = Callable[[int, int], None]
"""``advance(done, of)`` says how much of the work is done."""

_PATIENCE_SECONDS = 1.0


@contextmanager
def patient_bar(title: str) -> Iterator[Advance]:
    """A bar on standard error once a second has passed; nothing where that is no terminal."""
    began = monotonic()
    with ExitStack() as shown:
        bars: list[Advance] = []

        def advance(done: int, of: int) -> None:
            if not bars and monotonic() - began > _PATIENCE_SECONDS:
                bars.append(_bar(title, shown))
            for bar in bars:
                bar(done, of)

        yield advance


def _bar(title: str, shown: ExitStack) -> Advance:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        return _nothing
    bar = shown.enter_context(Progress(console=console, transient=True))
    task = bar.add_task(title, total=None)

    def advance(done: int, of: int) -> None:
        bar.update(task, completed=done, total=of)

    return advance


def _nothing(done: int, of: int) -> None:
    """Older versions of rich end a bar that is not shown with an empty line."""
