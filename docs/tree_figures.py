"""Tables of einsum trees beside the peers, from the results in ``benchmarks/results``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]

OURS = "teir"
CONTENDERS = {
    OURS: "teir",
    "teir, as written": "teir, layouts as written",
    "NumPy": "NumPy",
    "opt_einsum with torch": "opt_einsum with PyTorch",
}
PEERS = ("NumPy", "opt_einsum with torch")


def tree_rows(figures: Record, allocator: str) -> list[str]:
    """Times and shares of the peak of all trees, with one kind of allocator."""
    measured = figures.get(allocator)
    if measured is None:
        return ["Not measured yet."]
    heads = ("tree", *CONTENDERS.values(), "teir, times as fast as either", "at the peak")
    return [
        f"Medians of {measured['rounds']} rounds.",
        "",
        f"| {' | '.join(heads)} |",
        "|" + "---|" * len(heads),
        *(_row(name, figure) for name, figure in measured["trees"].items()),
    ]


def _row(name: str, figure: Record) -> str:
    seconds = figure["seconds"]
    cells = (
        name,
        *(_taken(figure, who) for who in CONTENDERS),
        ", ".join(f"{seconds[peer] / seconds[OURS]:.2f}" for peer in PEERS),
        f"{1e3 * figure['flops'] / figure['peak']:.0f} ms",
    )
    return f"| {' | '.join(cells)} |"


def _taken(figure: Record, who: str) -> str:
    if who not in figure["seconds"]:
        return ""
    return f"{1e3 * figure['seconds'][who]:.0f} ms, {100 * figure['share'][who]:.0f} %"
