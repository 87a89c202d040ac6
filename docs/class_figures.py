"""Tables of the classes of contractions, from the results in ``benchmarks/results``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]

CLASS_TITLES = {
    "a": "three configurations of section 5.3",
    "b": "`trus,pqtu->pqrs`, 14 sizes, 6 layouts",
    "c": "TCCG contractions",
    "d": "TTC/HPTT permutations",
    "e": "odd, prime, tiny, batched",
}


def section(summaries: Record) -> list[str]:
    """The table of the README: every class beside its best peers, one thread."""
    shown = [one for one in summaries.values() if one["best_peer"] and one["threads"] == 1]
    if not shown:
        return []
    return [
        "",
        "Classes of contractions on one thread, in percent of min(multiply-add peak, bytes at the "
        "speed of `numpy.copyto`), geometric mean and worst; the best peer is the fastest of "
        "NumPy, opt_einsum, PyTorch, TBLIS and etops for each case (`benchmarks/all.py`):",
        "",
        "| class | type | cases | teir | best peer of each case | teir, times as fast |",
        "|---|---|---:|---:|---:|---:|",
        *map(_row, shown),
        *_notes(shown),
    ]


def _notes(shown: list[Record]) -> list[str]:
    """What is missing in rows with a star, each said once."""
    notes = dict.fromkeys(one["note"] for one in shown if one["note"])
    return ["", *(f"\\* {note}" for note in notes)] if notes else []


def peak_lines(summaries: Record) -> list[str]:
    """The speeds that the shares of one thread refer to."""
    return [
        "",
        *(
            f"* class {one['class']}, {one['dtype']}: {one['machine']['date']}, peak "
            f"{one['flops_peak'] / 1e9:.0f} GFLOP/s, `numpy.copyto` "
            f"{one['copy_peak'] / 1e9:.0f} GB/s"
            for one in summaries.values()
            if one["threads"] == 1
        ),
    ]


def _row(one: Record) -> str:
    peer, mark = one["best_peer"], "\\*" if one["note"] else ""
    return (
        f"| {one['class']}: {CLASS_TITLES[one['class']]} | {one['dtype']} | "
        f"{one['all']['cases']}{mark} | {_share(one['all'])} | {_share(peer)} | {_ratio(peer)} |"
    )


def _share(one: Record) -> str:
    return f"{100 * one['mean']:.0f} % (worst {100 * one['worst']:.0f})"


def _ratio(one: Record) -> str:
    return f"{one['ratio']:.2f} (worst {one['worst_ratio']:.2f})"


def pages(summaries: Record) -> list[str]:
    """One section per class, type and number of threads."""
    lines = []
    for name, one in summaries.items():
        threads = f"{one['threads']} {'thread' if one['threads'] == 1 else 'threads'}"
        lines += [
            "",
            f"## Class {one['class']}, {one['dtype']}, {threads}: {CLASS_TITLES[one['class']]}",
            "",
            f"{one['machine']['cpu']}, {one['machine']['date']}; peak "
            f"{one['flops_peak'] / 1e9:.0f} GFLOP/s, `numpy.copyto` "
            f"{one['copy_peak'] / 1e9:.0f} GB/s. Shares of the least possible time: geometric mean "
            f"(worst). [Plot](../benchmarks/results/{name}.svg). {one['note']}".rstrip(),
            "",
            "| | cases | share | teir, times as fast |",
            "|---|---:|---:|---:|",
        ]
        peers = [*one["contenders"], *([one["best_peer"]] if one["best_peer"] else [])]
        for row in (*one["families"], {**one["all"], "name": "**teir, all**"}, *peers):
            ratio = _ratio(row) if "ratio" in row else ""
            lines.append(f"| {row['name']} | {row['cases']} | {_share(row)} | {ratio} |")
        if "scaling" in one:
            found = one["scaling"]
            lines += [
                "",
                f"{found['mean']:.2f} times as fast as one thread (worst {found['worst']:.2f}), "
                f"the peak {found['peak']:.2f} times.",
            ]
    return lines
