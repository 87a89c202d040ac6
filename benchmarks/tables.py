"""Figures of the classes as lines of text: shares of the bound, and times the best peer's speed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from teir.cli.peers.case import Case
from teir.cli.peers.choosing import OURS
from teir.cli.peers.rounds import Rounds, geometric_mean
from teir.dtypes import DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What the rounds of one case brought, as medians."""

    name: str
    family: str
    einsum: str
    shapes: tuple[tuple[int, ...], ...]
    flops: int
    bytes: int
    flops_peak: float
    copy_peak: float
    forms: dict[str, str]
    """Contender to the form that was timed, or to why none was."""
    seconds: dict[str, float]
    share: dict[str, float]
    """The least possible time over the time taken."""

    @classmethod
    def of(
        cls, case: Case, data_type: DataType, rounds: Rounds, forms: Mapping[str, str]
    ) -> Figure:
        return cls(
            name=case.name,
            family=case.family,
            einsum=case.einsum,
            shapes=case.shapes,
            flops=case.flops(data_type),
            bytes=case.size_bytes(data_type),
            flops_peak=statistics.median(rounds.flops_peaks),
            copy_peak=statistics.median(rounds.copy_peaks),
            forms=dict(forms),
            seconds={name: rounds.median_seconds(name) for name in rounds.seconds},
            share={
                name: statistics.median(rounds.shares(case, data_type, name))
                for name in rounds.seconds
            },
        )

    @property
    def is_copy_bound(self) -> bool:
        return self.bytes / self.copy_peak > self.flops / self.flops_peak

    def rate(self, contender: str) -> str:
        taken = self.seconds[contender]
        if self.flops:
            return f"{self.flops / taken / 1e9:7.1f} GF/s"
        return f"{self.bytes / taken / 1e9:7.1f} GB/s"

    def as_record(self) -> dict[str, Any]:
        return asdict(self)


def print_row(figure: Figure) -> None:
    """One line: this package, and the fastest peer where there are peers."""
    if OURS not in figure.seconds:
        print(f"{figure.name:44} {figure.forms[OURS].upper()}", flush=True)
        return
    limit = "copy" if figure.is_copy_bound else "fma "
    line = (
        f"{figure.name:44} {1e3 * figure.seconds[OURS]:9.4f} ms {figure.rate(OURS)} {limit} "
        f"{100 * figure.share[OURS]:6.1f} %"
    )
    peers = {name: share for name, share in figure.share.items() if name != OURS}
    if peers:
        best = max(peers, key=lambda name: peers[name])
        line += (
            f"   {figure.share[OURS] / peers[best]:5.2f} x {best} ({figure.forms[best]}) "
            f"{100 * peers[best]:.1f} %"
        )
    print(line, flush=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One case over all columns; a peer of a later column bears the column's name too."""

    name: str
    family: str
    share: Mapping[str, float]
    ratio: Mapping[str, float]
    """Peer to how many times as fast this package is, both timed in one process."""

    @property
    def best_peer(self) -> str | None:
        return min(self.ratio, key=lambda name: self.ratio[name], default=None)


def merge(record: Mapping[str, Any]) -> list[Merged]:
    """The cases this package does; its own shares are those of the first column."""
    columns: Mapping[str, Any] = record["columns"]
    first = next(iter(columns))
    shares: dict[str, dict[str, float]] = {}
    ratios: dict[str, dict[str, float]] = {}
    families: dict[str, str] = {}
    for column, measured in columns.items():
        for figure in measured["figures"]:
            name, found = figure["name"], figure["share"]
            families[name] = figure["family"]
            for contender, share in found.items():
                label = contender if column == first else f"{contender}, {column}"
                if contender == OURS and column != first:
                    continue
                shares.setdefault(name, {})[label] = share
                if contender != OURS and OURS in found:
                    ratios.setdefault(name, {})[label] = found[OURS] / share
    return [
        Merged(name=name, family=families[name], share=found, ratio=ratios.get(name, {}))
        for name, found in shares.items()
        if OURS in found
    ]


def summarise(cases: Sequence[Merged]) -> dict[str, Any]:
    """Geometric mean and worst share by family, of all, of every contender and of the best peer.

    ``ratio`` and ``worst_ratio``: how many times as fast this package is, over the cases the
    contender can do.
    """
    contenders = dict.fromkeys(name for case in cases for name in case.share if name != OURS)
    families = dict.fromkeys(case.family for case in cases)
    best = [(case, case.best_peer) for case in cases]
    return {
        "families": [
            _mean(family, [c.share[OURS] for c in cases if c.family == family])
            for family in families
        ],
        "all": _mean("all", [case.share[OURS] for case in cases]),
        "contenders": [
            _against(name, [(case, name) for case in cases if name in case.ratio])
            for name in contenders
        ],
        "best_peer": _against(
            "best peer of each case", [(case, peer) for case, peer in best if peer is not None]
        )
        if contenders
        else None,
    }


def _mean(label: str, shares: Sequence[float]) -> dict[str, Any]:
    return {
        "name": label,
        "cases": len(shares),
        "mean": geometric_mean(shares),
        "worst": min(shares),
    }


def _against(label: str, pairs: Sequence[tuple[Merged, str]]) -> dict[str, Any]:
    ratios = [case.ratio[peer] for case, peer in pairs]
    return {
        **_mean(label, [case.share[peer] for case, peer in pairs]),
        "ratio": geometric_mean(ratios),
        "worst_ratio": min(ratios),
    }


def _line(one: Mapping[str, Any]) -> str:
    text = (
        f"{one['name']:30} {one['cases']:3} cases: geometric mean {100 * one['mean']:5.1f} %, "
        f"worst {100 * one['worst']:5.1f} %"
    )
    if "ratio" in one:
        text += f"; {OURS} {one['ratio']:.2f} times as fast, at worst {one['worst_ratio']:.2f}"
    return text


def peaks(record: Mapping[str, Any]) -> tuple[float, float]:
    """Operations and bytes per second, medians over the cases of the first column."""
    figures = next(iter(record["columns"].values()))["figures"]
    return (
        statistics.median(figure["flops_peak"] for figure in figures),
        statistics.median(figure["copy_peak"] for figure in figures),
    )


def scaling(alone: Mapping[str, Any], threaded: Mapping[str, Any]) -> dict[str, float]:
    """How many times as fast several threads are, beside the same of the multiply-add peak."""
    before, after = (
        {figure["name"]: figure for figure in next(iter(record["columns"].values()))["figures"]}
        for record in (alone, threaded)
    )
    known = [name for name in after if OURS in after[name]["seconds"] and name in before]
    ratios = [
        before[name]["seconds"][OURS] / after[name]["seconds"][OURS]
        for name in known
        if OURS in before[name]["seconds"]
    ]
    return {
        "mean": geometric_mean(ratios),
        "worst": min(ratios),
        "peak": peaks(threaded)[0] / peaks(alone)[0],
    }


def print_summary(record: Mapping[str, Any]) -> None:
    cases = merge(record)
    if not cases:
        print("no results")
        return
    found = summarise(cases)
    rows = [*found["families"], found["all"], *found["contenders"], found["best_peer"]]
    for row in rows:
        if row is not None:
            print(_line(row))
    flops_peak, copy_peak = peaks(record)
    print(f"peak {flops_peak / 1e9:.1f} GFLOP/s, numpy.copyto {copy_peak / 1e9:.1f} GB/s")
