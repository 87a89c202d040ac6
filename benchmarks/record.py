"""What every benchmark writes beside its figures: the machine and the versions they belong to."""

from __future__ import annotations

import datetime
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from teir.target import host_target

RESULTS = Path(__file__).parent / "results"
_LIBRARIES = ("numpy", "llvmlite", "opt_einsum")


def machine() -> dict[str, Any]:
    """Facts of this machine and of the libraries in use."""
    target = host_target(os.environ)
    return {
        "cpu": target.cpu,
        "architecture": target.architecture,
        "isa": target.isa.value,
        "threads": target.threads,
        "l1_bytes": target.caches.l1_bytes,
        "l2_bytes": target.caches.l2_bytes,
        "l3_bytes": target.caches.l3_bytes,
        "load_average": os.getloadavg()[0],
        "is_realtime": os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR),
        "python": platform.python_version(),
        **{library: version(library) for library in _LIBRARIES},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def write(name: str, figures: Any) -> Path:
    """Write ``results/NAME.json``: the machine, then the figures."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {"machine": machine(), "figures": figures}
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return path
