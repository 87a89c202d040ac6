"""A soak: many random programs, hostile programs and kernels, summed up as figures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, assert_never

from teir.soak.catalogue import count_catalogue
from teir.soak.children import Died, Done, Failed, Hung, Outcome, in_children
from teir.soak.differential import compare_one
from teir.soak.figures import Figure
from teir.soak.hostile import try_one
from teir.soak.kernel_pages import kernel_items, press_one
from teir.soak.soundness import examine_one

Say = Callable[[str], None]

SECONDS_PER_ITEM = 60.0
REPORT_EVERY_SECONDS = 10.0
SHOWN = 20
"""At most so many wrong cases are kept per figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What to do: 0 leaves a figure out. Item ``seed + i`` is the same in every campaign."""

    programs: int
    mutants: int
    enumerations: int
    remainders: int
    tests: Path | None
    seed: int
    jobs: int


def run_campaign(campaign: Campaign, say: Say) -> Iterator[Figure]:
    """Each figure that ``campaign`` asks for, as soon as it is done.

    ``say`` gets a line of progress now and then, and every mistake.
    """
    if campaign.programs:
        yield _differential(campaign, say)
    if campaign.mutants:
        yield _hostile(campaign, say)
    if campaign.enumerations:
        yield _soundness(campaign, say)
    if campaign.remainders:
        yield _kernels(campaign, say)
    if campaign.tests is not None:
        yield _catalogue(campaign.tests)


@dataclass(slots=True)
class _Tally:
    """Results gathered over one figure."""

    counts: Counter[str]
    wrong: list[str]
    kernels: set[str]
    started: float

    def figure(self, number: int, title: str, cases: int, remarks: tuple[str, ...]) -> Figure:
        return Figure(
            number=number,
            title=title,
            cases=cases,
            runs=self.counts["runs"],
            wrong=tuple(self.wrong),
            remarks=remarks,
            seconds=time.monotonic() - self.started,
        )


def _differential(campaign: Campaign, say: Say) -> Figure:
    tally = _gather("programs", compare_one, _items(campaign, campaign.programs), campaign, say)
    return tally.figure(
        1,
        "random programs, native code against the evaluator, exact integers",
        campaign.programs,
        (f"seeds {campaign.seed} to {campaign.seed + campaign.programs - 1}",),
    )


def _hostile(campaign: Campaign, say: Say) -> Figure:
    tally = _gather("mutants", try_one, _items(campaign, campaign.mutants), campaign, say)
    refused = sum(count for key, count in tally.counts.items() if key.startswith("TEIR"))
    codes = sum(1 for key in tally.counts if key.startswith("TEIR"))
    return tally.figure(
        5,
        "hostile programs, in memory and as text",
        campaign.mutants,
        (
            f"{refused:,} refused by {codes} rules",
            f"{tally.counts['accepted']:,} accepted, {tally.counts['ran']:,} of them run",
        ),
    )


def _soundness(campaign: Campaign, say: Say) -> Figure:
    tally = _gather(
        "enumerations", examine_one, _items(campaign, campaign.enumerations), campaign, say
    )
    return tally.figure(
        6,
        "bounds and races proved against enumerated",
        campaign.enumerations,
        (
            f"{tally.counts['race']:,} programs with a race, all refused",
            f"{tally.counts['false_refusal']:,} refused without one",
        ),
    )


def _kernels(campaign: Campaign, say: Say) -> Figure:
    work = partial(press_one, remainders=campaign.remainders)
    items = range(kernel_items())
    tally = _gather("kernel families", work, items, campaign, say)
    return tally.figure(
        7,
        f"kernels between inaccessible pages, 1 to {campaign.remainders} elements, both ends",
        len(items),
        (f"{len(tally.kernels):,} different kernels reached",),
    )


def _catalogue(tests: Path) -> Figure:
    started = time.monotonic()
    passed, total = count_catalogue(tests)
    return Figure(
        number=8,
        title="tests of the bad-input catalogue",
        cases=total,
        runs=total,
        wrong=() if passed == total else (f"{total - passed} tests failed",),
        remarks=(f"{passed:,} passed",),
        seconds=time.monotonic() - started,
    )


def _items(campaign: Campaign, count: int) -> range:
    return range(campaign.seed, campaign.seed + count)


def _gather(
    title: str,
    work: Callable[[int], dict[str, Any]],
    items: range,
    campaign: Campaign,
    say: Say,
) -> _Tally:
    tally = _Tally(counts=Counter(), wrong=[], kernels=set(), started=time.monotonic())
    said = tally.started
    outcomes = in_children(work, items, jobs=campaign.jobs, seconds=SECONDS_PER_ITEM)
    for number, outcome in enumerate(outcomes, start=1):
        for text in _mistakes(outcome):
            tally.counts["wrong"] += 1
            if len(tally.wrong) < SHOWN:
                tally.wrong.append(text)
            say(f"{title}: {text}")
        if isinstance(outcome, Done):
            _count(tally, outcome.result)
        if time.monotonic() - said > REPORT_EVERY_SECONDS:
            said = time.monotonic()
            say(f"{title}: {number:,} of {len(items):,}, {tally.counts['wrong']} wrong")
    return tally


def _count(tally: _Tally, result: dict[str, Any]) -> None:
    tally.counts["runs"] += result.get("runs", 1)
    tally.kernels.update(result.get("kernels", ()))
    tally.counts.update(
        key for key in ("accepted", "ran", "race", "false_refusal") if result.get(key)
    )
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
