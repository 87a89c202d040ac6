"""The figures of a campaign as values, as JSON and as a table for the documentation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


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

    @property
    def ok(self) -> bool:
        return not self.wrong


def write_figures(figures: Sequence[Figure], machine: str, directory: Path) -> None:
    """Write ``soak.json`` and ``soak.md`` into ``directory``, which is made if it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    record = {"machine": machine, "figures": [asdict(figure) for figure in figures]}
    (directory / "soak.json").write_text(json.dumps(record, indent=2) + "\n")
    (directory / "soak.md").write_text(figures_table(figures, machine))


def figures_table(figures: Sequence[Figure], machine: str) -> str:
    """The figures as a Markdown table."""
    rows = [
        f"Measured on {machine}.",
        "",
        "| # | figure | cases | runs | wrong | remarks | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {figure.number} | {figure.title} | {figure.cases:,} | {figure.runs:,} "
        f"| {len(figure.wrong)} | {'; '.join(figure.remarks)} | {figure.seconds:.0f} |"
        for figure in figures
    ]
    return "\n".join(rows) + "\n"
