"""A soak: random programs, hostile programs, kernels, faults and drills, summed up as figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from teir.soak.catalogue import count_catalogue
from teir.soak.check_cost import BAR_MICROSECONDS, cost_one
from teir.soak.content import audit_key, press_key
from teir.soak.coverage import BRANCHES, LINES, measure_coverage
from teir.soak.differential import compare_one
from teir.soak.drills import DRILLS, drill_one
from teir.soak.fault_list import FAULTS
from teir.soak.faults import SECONDS_PER_FAULT, checker_mutants, mutate_one, seed_one
from teir.soak.figures import Figure
from teir.soak.gather import Say, Tally, gather
from teir.soak.hostile import try_one
from teir.soak.kept import Kept
from teir.soak.kernel_corpus import audit_items, audit_one
from teir.soak.kernel_pages import press_one, pressed_cases
from teir.soak.random_einsums import histogram, judge_one
from teir.soak.repeats import CASES, repeat_one
from teir.soak.running import host_variants
from teir.soak.soundness import examine_one
from teir.soak.sparse_products import compare_product, pair_count
from teir.soak.translation import pass_names, translate_one

SECONDS_PER_FAMILY = 1800.0
"""For one kernel with every remainder: more programs than other items, on a machine in use too."""

MUTATION_SCORE = 95.0
"""Percent of the checker's mutants that must be caught."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """What to do: 0 leaves a figure out. Item ``seed + i`` is the same in every campaign."""

    programs: int = 0
    translations: int = 0
    einsums: int = 0
    products: int = 0
    """Random sparse products, after every pair of formats of the fixed ones."""
    mutants: int = 0
    enumerations: int = 0
    remainders: int = 0
    faults: bool = False
    checker_mutants: int = 0
    check_cost: bool = False
    repeats: int = 0
    coverage: bool = False
    drills: int = 0
    audit: int = 0
    """Remainders of the kernels whose machine code is audited."""
    tests: Path | None = None
    """The directory of the tests: needed for faults, mutants of the checker and coverage."""
    catalogue: bool = False
    seed: int = 0
    jobs: int = 2
    kept: Path | None = None
    """Where results of the kernels are kept, so that a soak which was stopped goes on."""

    @property
    def needs_tests(self) -> bool:
        """True where a figure is asked for that runs the tests."""
        return bool(self.catalogue or self.faults or self.checker_mutants or self.coverage)


QUICK = Campaign(programs=200, translations=60, einsums=200, mutants=400, enumerations=200)
PUBLISHED = Campaign(
    programs=10_000,
    translations=2_000,
    einsums=20_000,
    products=5_000,
    mutants=20_000,
    enumerations=20_000,
    remainders=64,
    faults=True,
    checker_mutants=200,
    check_cost=True,
    repeats=1_000,
    coverage=True,
    drills=100,
    audit=64,
    catalogue=True,
)
"""What the safety page shows."""


def run_campaign(campaign: Campaign, say: Say) -> Iterator[Figure]:
    """Each figure that ``campaign`` asks for, as soon as it is done.

    ``say`` gets a line of progress now and then, and every mistake.
    """
    wanted: tuple[tuple[object, Callable[[Campaign, Say], Figure]], ...] = (
        (campaign.programs, _differential),
        (campaign.translations, _translations),
        (campaign.einsums, _einsums),
        (campaign.products, _sparse_products),
        (campaign.mutants, _hostile),
        (campaign.enumerations, _soundness),
        (campaign.remainders, _kernels),
        (campaign.catalogue, _catalogue),
        (campaign.faults, _faults),
        (campaign.checker_mutants, _checker_mutants),
        (campaign.check_cost, _check_cost),
        (campaign.repeats, _repeats),
        (campaign.coverage, _coverage),
        (campaign.drills, _drills),
        (campaign.audit, _audit),
    )
    for asked, measure in wanted:
        if asked:
            yield measure(campaign, say)


def _differential(campaign: Campaign, say: Say) -> Figure:
    items = _items(campaign, campaign.programs)
    tally = gather("programs", compare_one, items, campaign.jobs, say)
    title = "random programs, native code against the evaluator, exact integers"
    return tally.figure(1, title, campaign.programs, (_seeds(items),))


def _translations(campaign: Campaign, say: Say) -> Figure:
    items = _items(campaign, campaign.translations)
    tally = gather("passes", translate_one, items, campaign.jobs, say)
    changed = [f"{name} {tally.named[name]:,}" for name in pass_names()]
    title = "the same programs after every pass and after lowering"
    remarks = (_seeds(items), "programs changed: " + ", ".join(changed))
    return tally.figure(2, title, campaign.translations, remarks)


def _einsums(campaign: Campaign, say: Say) -> Figure:
    items = _items(campaign, campaign.einsums)
    tally = gather("einsums", judge_one, items, campaign.jobs, say)
    title = "random einsum strings against NumPy in a wider type, error over bound"
    remarks = (_seeds(items), f"largest {max(tally.ratios, default=0.0):.3f}")
    return tally.figure(3, title, campaign.einsums, remarks, histogram(tally.ratios))


def _sparse_products(campaign: Campaign, say: Say) -> Figure:
    pairs = pair_count()
    items = range(pairs + campaign.products)
    tally = gather("sparse products", compare_product, items, campaign.jobs, say)
    title = "sparse products in all formats against the dense meaning, exact integers"
    remarks = (f"{pairs:,} pairs of formats, {campaign.products:,} random products",)
    return tally.figure(4, title, len(items), remarks)


def _hostile(campaign: Campaign, say: Say) -> Figure:
    items = _items(campaign, campaign.mutants)
    tally = gather("mutants", try_one, items, campaign.jobs, say)
    refused = sum(count for key, count in tally.counts.items() if key.startswith("TEIR"))
    codes = sum(1 for key in tally.counts if key.startswith("TEIR"))
    remarks = (
        f"{refused:,} refused by {codes} rules",
        f"{tally.counts['accepted']:,} accepted, {tally.counts['ran']:,} of them run",
    )
    return tally.figure(5, "hostile programs, in memory and as text", campaign.mutants, remarks)


def _soundness(campaign: Campaign, say: Say) -> Figure:
    items = _items(campaign, campaign.enumerations)
    tally = gather("enumerations", examine_one, items, campaign.jobs, say)
    remarks = (
        f"{tally.counts['race']:,} programs with a race, all refused",
        f"{tally.counts['false_refusal']:,} refused without one",
    )
    title = "bounds and races proved against enumerated"
    return tally.figure(6, title, campaign.enumerations, remarks)


def _kernels(campaign: Campaign, say: Say) -> Figure:
    work = partial(press_one, remainders=campaign.remainders)
    items = range(len(pressed_cases()))
    kept = _kept(campaign, "kernels", partial(press_key, remainders=campaign.remainders))
    tally = gather("kernel families", work, items, campaign.jobs, say, SECONDS_PER_FAMILY, kept)
    title = f"kernels between inaccessible pages, 1 to {campaign.remainders} elements, both ends"
    sets = ", ".join(isa.value for isa in host_variants())
    sets += ", once where two have the same code"
    remarks = (f"{len(tally.kernels):,} different kernels reached", f"each case with {sets}")
    return tally.figure(7, title, len(items), remarks)


def _kept(campaign: Campaign, figure: str, key: Callable[[int], str]) -> Kept | None:
    if campaign.kept is None:
        return None
    return Kept(path=campaign.kept / f"{figure}.jsonl", key=key)


def _catalogue(campaign: Campaign, say: Say) -> Figure:
    del say
    tally = Tally()
    passed, total = count_catalogue(_tests(campaign))
    tally.counts["runs"] = total
    if passed != total:
        tally.wrong.append(f"{total - passed} tests failed")
    return tally.figure(8, "tests of the bad-input catalogue", total, (f"{passed:,} passed",))


def _faults(campaign: Campaign, say: Say) -> Figure:
    work = partial(seed_one, tests=_tests(campaign))
    items = range(len(FAULTS))
    tally = gather("faults", work, items, campaign.jobs, say, SECONDS_PER_FAULT)
    stages = ", ".join(f"{name} {count}" for name, count in sorted(tally.named.items()))
    caught = f"{len(items) - tally.counts['wrong']} of {len(items)} caught, by: {stages}"
    return tally.figure(9, "faults seeded into our own compiler", len(items), (caught,))


def _checker_mutants(campaign: Campaign, say: Say) -> Figure:
    mutants = checker_mutants(campaign.checker_mutants, campaign.seed)
    work = partial(mutate_one, mutants=mutants, tests=_tests(campaign))
    items = range(len(mutants))
    tally = gather("mutants of the checker", work, items, campaign.jobs, say, SECONDS_PER_FAULT)
    score = 100 - 100 * tally.counts["skipped"] / max(1, len(mutants))
    if score < MUTATION_SCORE:
        tally.wrong.append(f"a score of {score:.1f} %: {', '.join(sorted(tally.named))} live on")
    remarks = (f"score {score:.1f} %", *(f"not noticed: {name}" for name in sorted(tally.named)))
    return tally.figure(9, "mutants of the checker", len(mutants), remarks)


def _check_cost(campaign: Campaign, say: Say) -> Figure:
    del campaign
    tally = Tally()
    result = cost_one(0)
    tally.counts["runs"] = result["runs"]
    tally.wrong += result["wrong"]
    measured = result["measured"]
    remarks = (
        f"{measured['microseconds']:.0f} µs for ten nodes (bar {BAR_MICROSECONDS:.0f})",
        f"{measured['share']:.2%} of the time to compile (bar 1 %)",
        "no function of the checker in a call of a plan",
    )
    if measured["microseconds"] > BAR_MICROSECONDS:
        say(f"check: {remarks[0]}")
    return tally.figure(10, "cost of the check", 1, remarks)


def _repeats(campaign: Campaign, say: Say) -> Figure:
    work = partial(repeat_one, runs=campaign.repeats)
    tally = gather("repeats", work, range(len(CASES)), campaign.jobs, say, 600.0)
    title = "bitwise repeatability: 1 and 2 threads, both modes of deterministic"
    return tally.figure(11, title, len(CASES), (f"{campaign.repeats:,} runs of each",))


def _coverage(campaign: Campaign, say: Say) -> Figure:
    del say
    tally, remarks = Tally(), []
    for name, part in measure_coverage(_tests(campaign)).items():
        tally.counts["runs"] += 1
        percents = f"{part.line_percent:.1f} % of lines, {part.branch_percent:.1f} % of branches"
        remarks.append(f"{name} {percents}")
        if part.line_percent < LINES or part.branch_percent < BRANCHES:
            tally.wrong.append(f"{name}: {percents}")
    return tally.figure(12, "coverage of checker, loader and lowering", len(remarks), remarks)


def _drills(campaign: Campaign, say: Say) -> Figure:
    items = range(campaign.drills * len(DRILLS))
    tally = gather("drills", drill_one, items, campaign.jobs, say)
    names = ", ".join(drill.__name__.replace("_", " ") for drill in DRILLS)
    return tally.figure(13, "drills", len(DRILLS), (f"{campaign.drills} times each", names))


def _audit(campaign: Campaign, say: Say) -> Figure:
    work, items = partial(audit_one, remainders=campaign.audit), range(audit_items())
    kept = _kept(campaign, "machine-code", partial(audit_key, remainders=campaign.audit))
    tally = gather("machine code", work, items, campaign.jobs, say, SECONDS_PER_FAMILY, kept)
    title = "machine code of kernels: loads, stores, jumps and ways out"
    remarks = (f"{len(tally.kernels):,} different kernels", "0 instructions outside the set")
    return tally.figure(15, title, audit_items(), remarks[: 1 if tally.wrong else 2])


def _tests(campaign: Campaign) -> Path:
    assert campaign.tests is not None
    return campaign.tests


def _items(campaign: Campaign, count: int) -> range:
    return range(campaign.seed, campaign.seed + count)


def _seeds(items: range) -> str:
    return f"seeds {items.start} to {items.stop - 1}"
