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


_KINDS = {"none": "black", "scalar": "tab:orange", "row": "tab:blue", "matrix": "tab:green"}


def plot_temporaries(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """All measured schedules of K4 by their largest temporary, in four layouts; the chosen ringed.

    Figure 11 of the SparseAuto paper has the same product at the same two extents.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = [row for row in rows if row["by_temporary"]]
    extents = sorted({row["extent"] for row in shown if row["extent"] >= 64})
    if not extents:
        return
    figure = Figure(figsize=(7 * len(extents), 6), layout="constrained")
    panels = figure.subplots(1, len(extents), squeeze=False, sharey=True)[0]
    for axes, extent in zip(panels, extents, strict=True):
        columns = [row for row in shown if row["extent"] == extent]
        for place, row in enumerate(columns):
            _column(axes, place, row)
        names = [f"{row['kernel']} {row['data']}" for row in columns]
        axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
        axes.set_yscale("log")
        axes.set_title(f"K4, extents {extent}")
        axes.grid(axis="y", linewidth=0.3)
    panels[0].set_ylabel("seconds")
    marks = [Line2D([], [], marker="o", ls="", color=_KINDS[kind], label=kind) for kind in _KINDS]
    ring = Line2D([], [], marker="o", ls="", mfc="none", color="red", ms=11, label="chosen")
    panels[-1].legend(
        handles=[*marks, ring],
        title="largest temporary",
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
    )
    figure.savefig(path, metadata={"Date": None})


def _column(axes: Any, place: int, row: Mapping[str, Any]) -> None:
    for number, (kind, color) in enumerate(_KINDS.items()):
        taken = row["by_temporary"].get(kind, [])
        x = place + 0.15 * (number - 1.5)
        axes.plot([x] * len(taken), taken, "o", color=color, markersize=4, alpha=0.5)
        if kind == row["chosen_temporary"]:
            chosen = row["chosen_seconds"]
            axes.plot([x], [chosen], "o", mfc="none", color="red", markersize=11)
