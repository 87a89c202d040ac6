"""The threads this process may use, from a pretended file system."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from teir.thread_limits import MOST_THREADS, cgroup_cores, usable_threads


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, math.inf),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 1.5),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, math.inf),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "20000 100000\n"}, 1.0),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/x\n2:memory:/x\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            3.0,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/x\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            math.inf,
        ),
        ({"proc/self/cgroup": "nonsense\n"}, math.inf),
    ],
)
def test_control_group(tmp_path: Path, files: dict[str, str], cores: float) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert cgroup_cores(tmp_path) == cores


def test_threads_are_never_more_than_asked_for(tmp_path: Path) -> None:
    assert usable_threads({"OMP_NUM_THREADS": "1,2"}, tmp_path) == 1
    everything = usable_threads({}, tmp_path)
    assert everything >= 1
    assert usable_threads({"OMP_NUM_THREADS": "0"}, tmp_path) == everything
    assert usable_threads({"OMP_NUM_THREADS": "many"}, tmp_path) == everything


def test_threads_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = frozenset(range(2 * MOST_THREADS))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: many, raising=False)
    assert usable_threads({}, tmp_path) == MOST_THREADS
