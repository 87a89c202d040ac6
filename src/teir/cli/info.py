"""``teir info``: the machine as this package sees it, the limits, the versions."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from teir import __version__
from teir.cli.console import Json, say, say_json, say_table
from teir.cli.options import JsonFlag
from teir.ir.limits import LIMITS
from teir.target import Peaks, Target, host_target

_LIBRARIES = ("numpy", "llvmlite", "msgspec", "opt_einsum", "ml_dtypes", "typer", "rich")
_OPTIONAL = ("scipy", "torch", "cotengra", "z3-solver", "matplotlib")


def info(as_json: JsonFlag = False) -> None:
    """Show the processor, what was measured on it, the limits of inputs, and versions."""
    from teir.cli.measuring import measure_peaks

    target = host_target(os.environ)
    peaks = measure_peaks()
    versions = {name: _version(name) for name in (*_LIBRARIES, *_OPTIONAL)}
    if as_json:
        say_json(_as_json(target, peaks, versions))
        return
    _say_machine(target, peaks)
    say()
    say("limits of inputs")
    say_table(("at most", "of"), [(str(limit.largest), limit.of) for limit in LIMITS])
    say()
    say_table(
        ("package", "version"),
        [
            ("teir", __version__),
            ("python", platform.python_version()),
            *((name, found or "not installed") for name, found in versions.items()),
        ],
    )


def _say_machine(target: Target, peaks: Peaks) -> None:
    caches = target.caches
    kib = [str(size // 1024) for size in (caches.l1_bytes, caches.l2_bytes, caches.l3_bytes)]
    rows = [
        ("processor", f"{target.cpu} ({target.architecture}, {microarchitecture()})"),
        ("instruction set", f"{target.isa.value}, vectors of {target.isa.vector_bytes} bytes"),
        ("usable cores", str(target.threads)),
        ("caches L1d, L2, L3", f"{', '.join(kib)} KiB ({caches.source})"),
        ("FP32 peak, one core", f"{peaks.fp32_flops_per_second / 1e9:.1f} GFLOP/s (measured)"),
        ("FP64 peak, one core", f"{peaks.fp64_flops_per_second / 1e9:.1f} GFLOP/s (measured)"),
        ("copy, one core", f"{peaks.copy_bytes_per_second / 1e9:.1f} GB/s (measured)"),
    ]
    if peaks.tile_flops_per_second is not None:
        speed = f"{peaks.tile_flops_per_second / 1e9:.1f} GFLOP/s (measured)"
        rows.insert(-1, ("BF16 peak, one core, by tiles", speed))
    say_table(("machine", ""), rows)


def _as_json(target: Target, peaks: Peaks, versions: dict[str, str | None]) -> Json:
    caches = target.caches
    return {
        "cpu": target.cpu,
        "architecture": target.architecture,
        "microarchitecture": microarchitecture(),
        "isa": target.isa.value,
        "vector_bytes": target.isa.vector_bytes,
        "threads": target.threads,
        "caches": {
            "l1_bytes": caches.l1_bytes,
            "l2_bytes": caches.l2_bytes,
            "l3_bytes": caches.l3_bytes,
            "source": caches.source,
        },
        "peaks": {
            "fp32_flops_per_second": peaks.fp32_flops_per_second,
            "fp64_flops_per_second": peaks.fp64_flops_per_second,
            "tile_flops_per_second": peaks.tile_flops_per_second,
            "copy_bytes_per_second": peaks.copy_bytes_per_second,
        },
        "limits": {limit.of: limit.largest for limit in LIMITS},
        "versions": {"teir": __version__, "python": platform.python_version(), **versions},
    }


def microarchitecture() -> str:
    """The name archspec gives the processor, for reports; no choice of code depends on it."""
    import archspec.cpu

    return str(archspec.cpu.host().name)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
