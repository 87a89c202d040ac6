"""Plots of products with a sparse operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from sparse_tables import FAMILIES, best_peer, case_name, own_seconds, peers

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "teir"

_MARKS = "osv^D<>"


def plot_ratios(title: str, figures: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Every peer's time over ours, the cases of a kernel by the best peer's, ascending."""
    from matplotlib.figure import Figure

    shown = [one for one in figures if best_peer(one) is not None]
    kernels = list(dict.fromkeys(one["kernel"] for one in shown))
    shown.sort(key=lambda one: (kernels.index(one["kernel"]), (best_peer(one) or ("", 0))[1]))
    if not shown:
        return
    figure = Figure(figsize=(16, 6), layout="constrained")
    axes = figure.subplots()
    for mark, family in zip(_MARKS, FAMILIES, strict=True):
        known = [
            (place, peers(one)[family] / own_seconds(one))
            for place, one in enumerate(shown)
            if family in peers(one)
        ]
        if known:
            axes.plot(*zip(*known, strict=True), mark, markersize=4, alpha=0.7, label=family)
    _between_kernels(axes, shown)
    axes.axhline(1, color="black", linewidth=1)
    axes.axhline(2, color="gray", linewidth=0.6, linestyle="--")
    axes.set_yscale("log")
    axes.set_title(f"{title}: time of every peer over ours")
    axes.set_ylabel("times as fast")
    axes.set_xlim(-0.5, len(shown) - 0.5)
    names = [case_name(one) for one in shown]
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=5)
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def _between_kernels(axes: Any, shown: Sequence[Mapping[str, Any]]) -> None:
    for place in range(1, len(shown)):
        if shown[place]["kernel"] != shown[place - 1]["kernel"]:
            axes.axvline(place - 0.5, color="gray", linewidth=0.6)
