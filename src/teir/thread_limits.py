"""How many threads this process may use: cores, the control group's quota, OMP_NUM_THREADS."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from teir.system_files import read_system_file

MOST_THREADS = 1024
"""The most threads of one run: beyond, starting them takes longer than most runs."""


def usable_threads(environment: Mapping[str, str], root: Path = Path("/")) -> int:
    """Cores this process may use: affinity, the control group's quota, OMP_NUM_THREADS."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    wanted = environment.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    asked = int(wanted) if wanted.isascii() and wanted.isdigit() and int(wanted) else cores
    return max(1, math.ceil(min(cores, asked, cgroup_cores(root), MOST_THREADS)))


def cgroup_cores(root: Path) -> float:
    """The cores' worth of time the control group grants, infinite where it sets no limit."""
    groups = [
        line.split(":", 2) for line in read_system_file(root / "proc/self/cgroup").splitlines()
    ]
    limits = [math.inf]
    for _, controllers, path in (group for group in groups if len(group) == 3):
        if controllers == "":
            folders = [root / "sys/fs/cgroup" / path.lstrip("/"), root / "sys/fs/cgroup"]
            limits += [_quota(*read_system_file(folder / "cpu.max").split()) for folder in folders]
        elif "cpu" in controllers.split(","):
            folder = root / "sys/fs/cgroup" / controllers
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            limits.append(_quota(*(read_system_file(folder / name).strip() for name in files)))
    return min(limits)


def _quota(*words: str) -> float:
    if len(words) != 2 or not all(word.isdigit() for word in words) or int(words[1]) == 0:
        return math.inf
    return max(1.0, int(words[0]) / int(words[1]))
