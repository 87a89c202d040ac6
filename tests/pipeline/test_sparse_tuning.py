"""Tuning of sparse products: what is measured is remembered by structure and size, and used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import scipy.sparse

import teir
from pipeline.tuning_folder import new_process, own_folder
from teir.pipeline import sparse_tuning
from teir.pipeline.sparse_records import sparse_records

PRODUCT = "ij,jk,kl->il"

draw = np.random.default_rng(5)
B = scipy.sparse.random_array((60, 50), density=0.1, format="csr", rng=draw)
C, D = draw.standard_normal((50, 24)), draw.standard_normal((24, 16))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where records are kept."""
    with own_folder(tmp_path, monkeypatch) as folder:
        yield folder


@pytest.fixture
def falling(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every program measured runs, and seems faster than the one before."""
    times: list[float] = []

    def seconds_per_call(call: Any) -> float:
        call()
        times.append(1.0 / (1 + len(times)))
        return times[-1]

    monkeypatch.setattr(sparse_tuning, "seconds_per_call", seconds_per_call)
    return times


def graph_of(plan: Any) -> str:
    (outline,) = plan.outlines
    return str(outline.scheduled.graph)


def test_the_fastest_schedule_is_kept_and_used(folder: Path, falling: list[float]) -> None:
    default = graph_of(teir.plan(PRODUCT, B, C, D))
    tuned = teir.plan(PRODUCT, B, C, D, tune=True)
    assert len(falling) == sparse_tuning.MOST_MEASURED
    assert graph_of(tuned) != default
    np.testing.assert_allclose(tuned(B, C, D), B @ C @ D)
    (path,) = folder.glob("sparse-*.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["schedule"] == graph_of(tuned)
    assert f"the best of {len(falling)} schedules" in tuned.explain()
    new_process()
    assert graph_of(teir.plan(PRODUCT, B, C, D)) == graph_of(tuned)
    np.testing.assert_allclose(teir.einsum(PRODUCT, B, C, D, tune=True), B @ C @ D)
    assert len(falling) == sparse_tuning.MOST_MEASURED


@pytest.mark.usefixtures("folder", "falling")
def test_a_record_serves_sizes_of_its_class_only() -> None:
    tuned = graph_of(teir.plan(PRODUCT, B, C, D, tune=True))
    near, far = draw.standard_normal((50, 26)), draw.standard_normal((50, 96))
    assert graph_of(teir.plan(PRODUCT, B, near, draw.standard_normal((26, 16)))) == tuned
    other = teir.plan(PRODUCT, B, far, draw.standard_normal((96, 16)))
    assert other.outlines[0].scheduled is not None
    assert other.outlines[0].scheduled.record is None


@pytest.mark.usefixtures("folder", "falling")
def test_a_sparse_result_is_tuned_into_levels_of_its_own() -> None:
    left, right = draw.standard_normal((60, 24)), draw.standard_normal((50, 24))
    found = teir.einsum("ij,ik,jk->ij", B, left, right, out_levels="ds", tune=True)
    np.testing.assert_allclose(found.to_dense(), B.toarray() * (left @ right.T))


@pytest.mark.usefixtures("falling")
@pytest.mark.parametrize("text", ["", "{}", '{"teir_sparse_tuning": 7}', "\x00"])
def test_a_spoilt_record_is_left_aside(folder: Path, text: str) -> None:
    default = graph_of(teir.plan(PRODUCT, B, C, D))
    teir.plan(PRODUCT, B, C, D, tune=True)
    (path,) = folder.glob("sparse-*.json")
    path.write_text(text, encoding="utf-8")
    new_process()
    assert graph_of(teir.plan(PRODUCT, B, C, D)) == default


@pytest.mark.usefixtures("falling")
def test_a_schedule_nobody_plans_is_left_aside(folder: Path) -> None:
    default = graph_of(teir.plan(PRODUCT, B, C, D))
    teir.plan(PRODUCT, B, C, D, tune=True)
    (path,) = folder.glob("sparse-*.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(record | {"schedule": "i, j: A += B"}), encoding="utf-8")
    new_process()
    plan = teir.plan(PRODUCT, B, C, D)
    assert graph_of(plan) == default
    assert "tuned on" not in plan.explain()


@pytest.mark.usefixtures("falling")
def test_merging_keeps_a_record_of_this_version(folder: Path) -> None:
    teir.plan(PRODUCT, B, C, D, tune=True)
    records = sparse_records()
    (record,) = records.all()
    old = msgspec.structs.replace(record, version="0.0.1", seconds=record.seconds / 2)
    assert records.merge([old]).kept == 0
    assert records.keep(old)
    slower = msgspec.structs.replace(record, seconds=record.seconds * 2)
    assert records.merge([old, record, slower]).kept == 1
    assert records.all() == [record]
    assert folder.exists()


def test_only_a_long_first_run_says_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes microseconds is measured again: its code may have been read from disk."""
    firsts = iter((9e-4, 2e-3, *(9e-4 for _ in range(99))))
    monkeypatch.setattr(sparse_tuning, "_once", lambda *_: next(firsts))
    monkeypatch.setattr(sparse_tuning, "_seconds", lambda *_: 1e-6)
    b = teir.Sparse.from_coo([[0, 1], [2, 3]], [1.0, 2.0], (5, 6))
    plan = teir.plan("ij,jk,kl->il", b, (6, 8), (8, 9))
    rows = plan.explain(measure=True).splitlines()
    assert sum("2 ms" in row for row in rows) == 1
    assert sum("1 µs" in row for row in rows) > 3
