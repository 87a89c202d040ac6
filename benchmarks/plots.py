"""A plot per class: the share of the bound of every case, this package's and every peer's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from tables import Merged, merge

from teir.cli.peers.choosing import OURS

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "teir"

_LINEAR_TO = 200
"""Percent; small operands that stay in a cache move far faster than large copies."""
_MARKS = "osv^D<>PX*"


def plot_class(title: str, record: Mapping[str, Any], path: Path) -> None:
    """Cases by this package's share, ascending; one mark per peer and case."""
    from matplotlib.figure import Figure

    cases = sorted(merge(record), key=lambda case: case.share[OURS])
    if not cases:
        return
    figure = Figure(figsize=(11, 5.5), layout="constrained")
    axes = figure.subplots()
    places = range(len(cases))
    peers = dict.fromkeys(name for case in cases for name in case.share if name != OURS)
    for mark, peer in zip(_MARKS * 2, peers, strict=False):
        known = [(x, 100 * case.share[peer]) for x, case in enumerate(cases) if peer in case.share]
        axes.plot(*zip(*known, strict=True), mark, markersize=3.5, alpha=0.6, label=peer)
    ours = [100 * case.share[OURS] for case in cases]
    axes.plot(places, ours, "-", color="black", linewidth=1.8, label=OURS)
    _label(axes, cases, title, max(ours))
    figure.savefig(path, metadata={"Date": None})


def _label(axes: Any, cases: list[Merged], title: str, highest: float) -> None:
    axes.set_title(title)
    axes.set_ylabel("% of min(multiply-add peak, bytes at copy bandwidth)")
    if highest > _LINEAR_TO:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0, max(105.0, 1.1 * highest))
    axes.set_xlim(-0.5, len(cases) - 0.5)
    axes.axhline(100, color="gray", linewidth=0.6)
    axes.grid(axis="y", linewidth=0.3)
    names = [case.name for case in cases] if len(cases) <= 60 else []
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=5)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
