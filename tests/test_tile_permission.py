"""The permission to use tile registers is asked for once and refused quietly."""

from __future__ import annotations

import os

import pytest

from teir import tile_permission
from teir.target import cpu_features
from teir.tile_permission import may_use_tiles


def test_other_systems_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_permission.sys, "platform", "darwin")
    assert not may_use_tiles.__wrapped__()


def test_machines_without_tiles_are_refused() -> None:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        has_tiles = "amx_tile" in cpu_features(file.read())
    assert has_tiles or not may_use_tiles()


@pytest.mark.skipif(not may_use_tiles(), reason="no tile registers")
def test_a_fork_may_use_them_too() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if may_use_tiles.__wrapped__() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
