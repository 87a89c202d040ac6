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
    """One case over all columns; a peer of a later column bears its name."""

    name: str
    family: str
    share: Mapping[str, float]

    @property
    def best_peer(self) -> float | None:
        return max((s for name, s in self.share.items() if name != OURS), default=None)


def merge(record: Mapping[str, Any]) -> list[Merged]:
    """Shares of every contender; this package's own are those of the first column.

    A peer of another column is compared through its share of that process's peak.
    """
    columns: Mapping[str, Any] = record["columns"]
    first = next(iter(columns))
    by_name: dict[str, dict[str, float]] = {}
    families: dict[str, str] = {}
    for column, measured in columns.items():
        for figure in measured["figures"]:
            shares = by_name.setdefault(figure["name"], {})
            families[figure["name"]] = figure["family"]
            for contender, share in figure["share"].items():
                if column == first:
                    shares[contender] = share
                elif contender != OURS:
                    shares[f"{contender}, {column}"] = share
    return [
        Merged(name=name, family=families[name], share=shares)
        for name, shares in by_name.items()
        if OURS in shares
    ]


def summarise(cases: Sequence[Merged]) -> dict[str, Any]:
    """Geometric mean and worst share by family, of all, of every contender and of the best peer.

    ``ratio`` and ``worst_ratio``: how many times as fast this package is, over the cases the
    contender can do.
    """
    contenders = dict.fromkeys(name for case in cases for name in case.share if name != OURS)
    families = dict.fromkeys(case.family for case in cases)
    known = [case for case in cases if case.best_peer is not None]
    return {
        "families": [
            _mean(family, [c.share[OURS] for c in cases if c.family == family])
            for family in families
        ],
        "all": _mean("all", [case.share[OURS] for case in cases]),
        "contenders": [
            _against(name, [(c.share[OURS], c.share[name]) for c in cases if name in c.share])
            for name in contenders
        ],
        "best_peer": _against(
            "best peer of each case", [(case.share[OURS], case.best_peer or 1.0) for case in known]
        )
        if known
        else None,
    }


def _mean(label: str, shares: Sequence[float]) -> dict[str, Any]:
    return {
        "name": label,
        "cases": len(shares),
        "mean": geometric_mean(shares),
        "worst": min(shares),
    }


def _against(label: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    ratios = [ours / theirs for ours, theirs in pairs]
    return {
        **_mean(label, [theirs for _, theirs in pairs]),
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
