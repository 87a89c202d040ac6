"""Tile kernels beside LIBXSMM and first calls, from the results in ``benchmarks/results``."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

Record = Mapping[str, Any]

FORMS = {"table": "precompiled blocks", "specialised": "specialised"}
WORST = 0.85


def tile_lines(stored: Record) -> list[str]:
    """How tiles compare with LIBXSMM, by type and form; nothing where they were not measured."""
    if not stored:
        return []
    tiles: Sequence[Record] = stored["figures"]
    types = dict.fromkeys(one["data_type"] for one in tiles)
    count = len(tiles) // len(types)
    return [
        "",
        "## Tile kernels beside LIBXSMM",
        "",
        f"{count} tiles with M, N and K from 1 to 128, hot in the first caches, half of them added "
        f"to what is there (`benchmarks/tiles.py`, {_where(stored)}): LIBXSMM's time divided by "
        "ours.",
        "",
        f"| type | form | geometric mean | worst | below {WORST} |",
        "|---|---|---:|---:|---:|",
        *(_tile_row(tiles, data_type, form) for data_type in types for form in FORMS),
    ]


def _tile_row(tiles: Sequence[Record], data_type: str, form: str) -> str:
    ratios = [one[f"{form}_over_libxsmm"] for one in tiles if one["data_type"] == data_type]
    below = sum(ratio < WORST for ratio in ratios)
    mean = statistics.geometric_mean(ratios)
    return f"| {data_type} | {FORMS[form]} | {mean:.3f} | {min(ratios):.2f} | {below} |"


def first_call_lines(stored: Record) -> list[str]:
    """What the first call of a contraction never seen takes over a warm one."""
    if not stored:
        return []
    figures = stored["figures"]
    calls = figures["first_calls_of_class_c"].values()
    on_disk = statistics.median(one["stored_seconds"] for one in calls)
    empty = statistics.median(one["empty_seconds"] for one in calls if "empty_seconds" in one)
    phases = ", ".join(
        f"{name} {1e6 * s:.0f} us" for name, s in figures["planning_seconds"].items()
    )
    small = max(one["plan_seconds"] for one in figures["small_calls"])
    einsum = max(one["einsum_seconds"] for one in figures["small_calls"])
    return [
        "",
        "## First calls",
        "",
        "The contractions of class c, each called for the first time, less a warm call on arrays "
        f"as new (`benchmarks/overheads.py`, {_where(stored)}). Median: {1e3 * on_disk:.2f} ms "
        f"with kernels on disk, {1e3 * empty:.0f} ms where they must be compiled. Planning a small "
        f"contraction again takes: {phases}. On extents 1 to 4 `plan(a, b, out=c)` takes up to "
        f"{1e6 * small:.2f} us and `teir.einsum` up to {1e6 * einsum:.2f} us"
        f"{_of_tensors(figures)}.",
    ]


def _of_tensors(figures: Record) -> str:
    """The same on tensors of PyTorch."""
    rows = figures.get("tensor_calls")
    if rows is None:
        return ""
    names = ("plan_seconds", "einsum_seconds", "torch_seconds")
    plan, einsum, peer = (1e6 * max(one[name] for one in rows) for name in names)
    return f"; on tensors of PyTorch {plan:.1f} us and {einsum:.1f} us, `torch.einsum` {peer:.1f}"


def _where(stored: Record) -> str:
    machine = stored["machine"]
    return f"{machine['cpu']}, {machine['isa']}, {machine['date']}"
