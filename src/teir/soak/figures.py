"""The figures of a campaign as values, as JSON and as a table for the documentation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table: what was done, how often, and everything that went wrong."""

    number: int
    """The number of the figure in the list of guarantees."""
    title: str
    cases: int
    runs: int
    wrong: tuple[str, ...]
    remarks: tuple[str, ...]
    seconds: float
    day: str
    """When it was measured: figures of one table may be of different days."""
    table: str = ""
    """More of it, as a Markdown table."""

    @property
    def ok(self) -> bool:
        return not self.wrong


def write_figures(figures: Sequence[Figure], machine: str, directory: Path) -> None:
    """Write ``soak.json`` and ``soak.md`` into ``directory``, which is made if it is missing.

    Figures that are there already and not measured anew are kept.
    """
    directory.mkdir(parents=True, exist_ok=True)
    figures = [*_kept(figures, directory / "soak.json"), *figures]
    figures.sort(key=lambda figure: (figure.number, figure.title))
    record = {"machine": machine, "figures": [asdict(figure) for figure in figures]}
    (directory / "soak.json").write_text(json.dumps(record, indent=2) + "\n")
    (directory / "soak.md").write_text(figures_table(figures, machine))


def _kept(figures: Sequence[Figure], path: Path) -> list[Figure]:
    """The figures of an earlier campaign that ``figures`` does not replace."""
    if not path.exists():
        return []
    kept = [_figure(record) for record in json.loads(path.read_text())["figures"]]
    measured = {_kind(figure) for figure in figures}
    return [figure for figure in kept if _kind(figure) not in measured]


def _figure(record: dict[str, Any]) -> Figure:
    lists = {name: tuple(record[name]) for name in ("wrong", "remarks")}
    return Figure(**{**record, **lists})


def _kind(figure: Figure) -> tuple[int, str]:
    """What tells figures apart: two may have one number, titles may name the effort."""
    return figure.number, figure.title.split(",")[0]


def figures_table(figures: Sequence[Figure], machine: str) -> str:
    """The figures as a Markdown table."""
    rows = [
        f"Measured on {machine}.",
        "",
        "| # | figure | cases | runs | wrong | remarks | seconds | day |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {figure.number} | {figure.title} | {figure.cases:,} | {figure.runs:,} "
        f"| {len(figure.wrong)} | {'; '.join(figure.remarks)} | {figure.seconds:.0f} "
        f"| {figure.day} |"
        for figure in figures
    ]
    text = "\n".join(rows) + "\n"
    for figure in figures:
        if figure.table:
            text += f"\nFigure {figure.number}:\n\n{figure.table}"
    return text
