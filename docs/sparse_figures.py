"""Tables of products with a sparse operand, from the results in ``benchmarks/results``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]

TITLES = {
    "K1": "SDDMM, SpMM",
    "K2": "SDDMM, SpMM, GEMM",
    "K3": "SpMMH, GEMM",
    "K4": "SpMM, GEMM",
    "K5": "three-way TTMC",
    "K6": "SpTTM, TTM",
    "K7": "SpTTM, SpTTM",
    "K8": "MTTKRP, GEMM",
}


def kernel_rows(summary: Record) -> list[str]:
    """How many times as fast as the best peer, by kernel."""
    one = summary.get("1")
    if not one:
        return ["Not measured yet."]
    lines = [
        "| kernel | cases | times the best peer | worst case | of C | of SciPy | of torch |",
        "|---|---:|---:|---|---:|---:|---:|",
    ]
    rows = [*one["kernels"], *([one["eight"]] if one["eight"] else [])]
    for row in rows:
        title = f"{row['kernel']}: {TITLES[row['kernel']]}" if row["kernel"] in TITLES else None
        c = [row["peers"][who]["mean"] for who in row["peers"] if who.startswith("C, ")]
        lines.append(
            f"| {title or row['kernel']} | {row['cases']} | {row['mean']:.2f} | "
            f"{row['worst']:.2f}, {row['worst_case']} | {f'{min(c):.2f}' if c else ''} | "
            f"{_mean(row, 'scipy')} | {_mean(row, 'torch')} |"
        )
    return lines


def _mean(row: Record, who: str) -> str:
    found = row["peers"].get(who)
    return f"{found['mean']:.2f}" if found else ""


def other_lines(summary: Record) -> list[str]:
    """The fused default, SpMM in the second cache, two threads."""
    one, two = summary.get("1"), summary.get("2")
    lines = []
    if one and one["default"]:
        least = one["default"]
        lines.append(
            f"* The fused default in C takes at least {least['worst']:.2f} times as long "
            f"({least['worst_case']}), {least['mean']:.1f} times in geometric mean; where it was "
            "not run the least time its arithmetic needs counts."
        )
    if one and one["in_cache"]:
        shares = ", ".join(f"{100 * row['share']:.0f} %" for row in one["in_cache"])
        extents = ", ".join(str(row["extent"]) for row in one["in_cache"])
        lines.append(
            "* SpMM whose gathered operand stays in the second cache runs at "
            f"{shares} of the multiply-add peak (extents {extents})."
        )
    if two and two["scaling"]:
        scaled = "; ".join(f"{row['kernel']} {row['mean']:.2f}" for row in two["scaling"])
        lines.append(f"* Two threads, times as fast as one in geometric mean: {scaled}.")
    if one:
        machine = one["machine"]
        lines.append(
            f"* {machine['cpu']}, {machine['isa']}, {machine['date']}. "
            "[Plot](../benchmarks/results/sparse-float64.svg)."
        )
    return lines or ["Not measured yet."]


def case_rows(summary: Record) -> list[str]:
    """Milliseconds and ratio of every case, one line per kernel and data."""
    one = summary.get("1")
    if not one:
        return ["Not measured yet."]
    cases = one["cases"]
    extents = sorted({row["extent"] for row in cases if row["extent"]})
    heads = " | ".join(f"{extent}" for extent in extents)
    lines = [f"| kernel | data | {heads} |", f"|---|---|{'---|' * len(extents)}"]
    for kernel, data in dict.fromkeys((row["kernel"], row["data"]) for row in cases):
        found = {
            row["extent"]: row for row in cases if (row["kernel"], row["data"]) == (kernel, data)
        }
        if None in found:
            cells = [_cell(found[None]), *([""] * (len(extents) - 1))]
        else:
            cells = [_cell(found[one]) if one in found else "" for one in extents]
        lines.append(f"| {kernel} | {data} | {' | '.join(cells)} |")
    return lines


def _cell(row: Record) -> str:
    """``1.23 / 2.5 x scipy``: our milliseconds, and the best peer's time over ours."""
    text = f"{1e3 * row['seconds']:.3g}"
    if row["ratio"] is None:
        return text
    return f"{text} / {row['ratio']:.2f} x {row['best_peer'].removeprefix('C, ')}"


def ranking_rows(figures: Sequence[Record]) -> list[str]:
    """The chosen schedule beside the best measured one, by kernel."""
    known = [row for row in figures if row["ratio"] == row["ratio"]]
    if not known:
        return ["Not measured yet."]
    lines = [
        "| kernel | cases | schedules each | chosen over best, geometric mean | worst |",
        "|---|---:|---:|---:|---|",
    ]
    for kernel in sorted({row["kernel"] for row in known}):
        lines.append(_ranked(kernel, [row for row in known if row["kernel"] == kernel]))
    return [*lines, _ranked("**all**", known)]


def _ranked(title: str, rows: Sequence[Record]) -> str:
    mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
    worst = max(rows, key=lambda row: row["ratio"])
    counts = sorted({row["measured"] for row in rows})
    shown = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    case = f"{worst['kernel']} {worst['data']} {worst['extent']}"
    return f"| {title} | {len(rows)} | {shown} | {mean:.2f} | {worst['ratio']:.2f}, {case} |"


def layout_rows(figures: Sequence[Record]) -> list[str]:
    """K4 in its layouts: the best schedule of every kind of temporary, and the chosen kind."""
    shown = [row for row in figures if row["by_temporary"] and row["extent"] >= 64]
    if not shown:
        return ["Not measured yet."]
    kinds = ("none", "scalar", "row", "matrix")
    lines = [
        f"| layout | data | extent | {' | '.join(kinds)} | chosen |",
        f"|---|---|---:|{'---:|' * len(kinds)}---|",
    ]
    for row in shown:
        found = row["by_temporary"]
        cells = [f"{1e3 * found[kind][0]:.2f}" if kind in found else "" for kind in kinds]
        lines.append(
            f"| {_layout(row['kernel'])} | {row['data']} | {row['extent']} | {' | '.join(cells)} | "
            f"{row['chosen_temporary']} |"
        )
    return lines


def _layout(kernel: str) -> str:
    c = "C_kj" if "Ckj" in kernel else "C_jk"
    d = "D_lk" if "Dlk" in kernel else "D_kl"
    return f"{c}, {d}"


def headline(summary: Record, page: str) -> list[str]:
    """One line that refers to the page ``page``, as seen from the one it stands on."""
    one = summary.get("1")
    if not one or not one["eight"]:
        return []
    row = one["eight"]
    return [
        "",
        "Products with a sparse operand, double precision, one thread: over "
        f"{row['cases']} cases of eight kernels {row['mean']:.2f} times as fast as the best of "
        "C (four schedules, two sets of flags), SciPy, torch and pydata sparse, at worst "
        f"{row['worst']:.2f} ([{page}]({page})).",
    ]
