"""Work on many items in children, and what came of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, assert_never

from teir.soak.children import Died, Done, Failed, Hung, Outcome, in_children
from teir.soak.figures import Figure
from teir.soak.kept import Kept

Say = Callable[[str], None]

SECONDS_PER_ITEM = 60.0
REPORT_EVERY_SECONDS = 10.0
SHOWN = 20
"""At most so many wrong cases are kept per figure."""

_KEY = "key"
"""Where a result says under which key it is kept."""

COUNTED = ("accepted", "ran", "race", "false_refusal", "skipped")
"""Keys of a result that are counted where they are true."""


@dataclass(slots=True)
class Tally:
    """Results gathered over one figure."""

    counts: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    """What the results count by name."""
    wrong: list[str] = field(default_factory=list)
    kernels: set[str] = field(default_factory=set)
    ratios: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    kept_seconds: float = 0.0
    """What the results that were kept took when they were made."""

    def figure(
        self, number: int, title: str, cases: int, remarks: Sequence[str], table: str = ""
    ) -> Figure:
        return Figure(
            number=number,
            title=title,
            cases=cases,
            runs=self.counts["runs"],
            wrong=tuple(self.wrong),
            remarks=tuple(remarks),
            seconds=self.kept_seconds + time.monotonic() - self.started,
            day=datetime.now(UTC).date().isoformat(),
            table=table,
        )


def gather(
    title: str,
    work: Callable[[int], dict[str, Any]],
    items: Sequence[int],
    jobs: int,
    say: Say,
    seconds: float = SECONDS_PER_ITEM,
    kept: Kept | None = None,
) -> Tally:
    """The results of ``work`` on every item; ``seconds`` is the limit for one.

    Items in ``kept`` are not done again, and what goes well is added to it.
    ``say`` gets a line of progress now and then, and every mistake. A result may hold ``wrong`` (a
    list of sentences), ``runs``, ``kernels``, ``ratio``, ``refused`` (a code), ``named`` (counts by
    name) and the keys of `COUNTED`.
    """
    tally = Tally()
    known = {} if kept is None else kept.results()
    if kept is not None:
        work = partial(_unless_known, work=work, key=kept.key, known=frozenset(known))
    said = before = time.monotonic()
    for number, outcome in enumerate(in_children(work, items, jobs=jobs, seconds=seconds), 1):
        for text in _mistakes(outcome):
            tally.counts["wrong"] += 1
            if len(tally.wrong) < SHOWN:
                tally.wrong.append(text)
            say(f"{title}: {text}")
        if isinstance(outcome, Done):
            key = outcome.result.pop(_KEY, None)
            result, taken = known.get(key, (outcome.result, 0.0))
            _count(tally, result)
            tally.kept_seconds += taken
            if kept is not None and key is not None and key not in known:
                kept.add(key, result, time.monotonic() - before)
        before = time.monotonic()
        if time.monotonic() - said > REPORT_EVERY_SECONDS:
            said = time.monotonic()
            say(f"{title}: {number:,} of {len(items):,}, {tally.counts['wrong']} wrong")
    return tally


def _unless_known(
    item: int,
    *,
    work: Callable[[int], dict[str, Any]],
    key: Callable[[int], str],
    known: frozenset[str],
) -> dict[str, Any]:
    """The result of ``work`` and the item's key; the key alone where its result is known."""
    name = key(item)
    return {_KEY: name} if name in known else {**work(item), _KEY: name}


def _count(tally: Tally, result: dict[str, Any]) -> None:
    tally.counts["runs"] += result.get("runs", 1)
    tally.kernels.update(result.get("kernels", ()))
    tally.named.update(result.get("named", {}))
    tally.counts.update(key for key in COUNTED if result.get(key))
    if "ratio" in result:
        tally.ratios.append(result["ratio"])
    if "refused" in result:
        tally.counts[result["refused"]] += 1


def _mistakes(outcome: Outcome) -> Iterator[str]:
    match outcome:
        case Done(item=item, result=result):
            yield from (f"item {item}: {text}" for text in result.get("wrong", ()))
        case Failed(item=item, error=error):
            yield f"item {item}: {error.strip()}"
        case Died(item=item, signal_number=number):
            yield f"item {item}: killed by signal {number}"
        case Hung(item=item, seconds=seconds):
            yield f"item {item}: no end after {seconds:.0f} s"
        case _:
            assert_never(outcome)
