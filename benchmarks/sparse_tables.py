"""Figures of products with a sparse operand as ratios: how many times as fast this package is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparse_cases import IN_CACHE
from sparse_kernels import ALONE, OURS, PLANNED, PRODUCT

from teir.cli.peers.rounds import geometric_mean

FAMILIES = ("C, fused default", "C, published", "C, row workspace", "C, SpTTN", "scipy", "torch")
FAMILIES += ("sparse",)
Record = Mapping[str, Any]


def own_seconds(figure: Record) -> float:
    """A user's call where it writes into a result made beforehand; else the kernel alone."""
    seconds = figure["seconds"]
    return float(seconds.get(PLANNED, seconds[OURS]))


def peers(figure: Record) -> dict[str, float]:
    """Peer to seconds, of several forms of one peer the fastest."""
    found: dict[str, float] = {}
    for who, seconds in figure["seconds"].items():
        family = next((one for one in FAMILIES if who.startswith(one)), None)
        if family is not None:
            found[family] = min(seconds, found.get(family, seconds))
    return found


def best_peer(figure: Record) -> tuple[str, float] | None:
    """The fastest peer and how many times its time ours takes."""
    found = peers(figure)
    if not found:
        return None
    who = min(found, key=lambda one: found[one])
    return who, found[who] / own_seconds(figure)


def case_name(figure: Record) -> str:
    return f"{figure['kernel']} {figure['data']} {figure['extent']}"


def summarise(figures: Sequence[Record]) -> dict[str, Any]:
    """Ratios by kernel, of the eight kernels together, and over the fused default."""
    compared = [one for one in figures if best_peer(one) and one["data"] != IN_CACHE]
    kernels = dict.fromkeys(one["kernel"] for one in compared)
    eight = [one for one in compared if one["kernel"].startswith("K")]
    rows = [_row(name, [one for one in compared if one["kernel"] == name]) for name in kernels]
    in_cache = [one for one in figures if one["data"] == IN_CACHE]
    alone = [one for one in figures if ALONE in one["seconds"]]
    return {
        "kernels": rows,
        "eight": _row("K1 to K8", eight) if eight else None,
        "default": _over_default(eight),
        "in_cache": [
            {"extent": one["extent"], "share": one["flops"] / own_seconds(one) / one["flops_peak"]}
            for one in in_cache
        ],
        "scaling": [
            _scaling(kernel, [one for one in alone if one["kernel"] == kernel])
            for kernel in dict.fromkeys(one["kernel"] for one in alone)
        ],
        "cases": [_case(one) for one in figures],
    }


def _row(name: str, figures: Sequence[Record]) -> dict[str, Any]:
    ratios = {case_name(one): best[1] for one in figures if (best := best_peer(one)) is not None}
    worst = min(ratios, key=lambda case: ratios[case])
    by_peer = {}
    for family in FAMILIES:
        known = [peers(one)[family] / own_seconds(one) for one in figures if family in peers(one)]
        if known:
            by_peer[family] = {"cases": len(known), "mean": geometric_mean(known)}
    return {
        "kernel": name,
        "cases": len(ratios),
        "mean": geometric_mean(list(ratios.values())),
        "worst": ratios[worst],
        "worst_case": worst,
        "peers": by_peer,
    }


def _over_default(figures: Sequence[Record]) -> dict[str, Any] | None:
    """Least ratio of the fused default's time, which may be a lower bound, over ours."""
    name = "C, fused default"
    ratios = {
        case_name(one): peers(one).get(name, one["not_run"].get(name)) / own_seconds(one)
        for one in figures
        if name in peers(one) or name in one["not_run"]
    }
    if not ratios:
        return None
    worst = min(ratios, key=lambda case: ratios[case])
    return {"worst": ratios[worst], "worst_case": worst, "mean": geometric_mean([*ratios.values()])}


def _scaling(kernel: str, figures: Sequence[Record]) -> dict[str, Any]:
    ratios = [one["seconds"][ALONE] / one["seconds"][OURS] for one in figures]
    return {
        "kernel": kernel,
        "cases": len(ratios),
        "mean": geometric_mean(ratios),
        "worst": min(ratios),
    }


def _case(figure: Record) -> dict[str, Any]:
    best = best_peer(figure)
    return {
        "kernel": figure["kernel"],
        "data": figure["data"],
        "extent": figure["extent"] if figure["kernel"] != PRODUCT else None,
        "seconds": own_seconds(figure),
        "kernel_seconds": figure["seconds"][OURS],
        "best_peer": best[0] if best else None,
        "ratio": best[1] if best else None,
        "schedule": figure["schedule"],
    }


def print_summary(found: Mapping[str, Any]) -> None:
    rows = [*found["kernels"], *([found["eight"]] if found["eight"] else [])]
    for row in rows:
        print(
            f"{row['kernel']:9} {row['cases']:3} cases: {row['mean']:6.2f} times the best peer, "
            f"worst {row['worst']:.2f} ({row['worst_case']})"
        )
    if found["default"]:
        one = found["default"]
        print(f"fused default: at least {one['worst']:.2f} ({one['worst_case']})")
    for row in found["scaling"]:
        print(f"{row['kernel']:9} {row['mean']:5.2f} times one thread, worst {row['worst']:.2f}")
