"""Tuning: what is measured is remembered, used, and never trusted."""

from __future__ import annotations

import ctypes
import json
import os
import pkgutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import teir
from pipeline.tuning_folder import new_process, own_folder
from teir.errors import TeirError
from teir.ir.nodes import Program
from teir.pipeline import machine_speeds, timing, tuning
from teir.pipeline.choosing import tunable_of
from teir.pipeline.machine_speeds import (
    known_speeds,
    machine_of,
    measured_speeds,
    tuning_records,
)
from teir.pipeline.tuning_export import Exported, read_export, write_export
from teir.pipeline.tuning_records import read_record
from teir.search.machine import Speeds
from teir.search.tuning import Measured, default_choices, one_away

EXPRESSION = "aij,jk->aki"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where records are kept."""
    speeds = Speeds(
        fp32_flops_per_second=1e11,
        fp64_flops_per_second=5e10,
        l2_bytes_per_second=1e11,
        l3_bytes_per_second=1e11,
        memory_bytes_per_second=2e10,
        l3_bytes=1 << 25,
        tile_flops_per_second=1e12 if machine_of(1).has_tiles else None,
    )
    monkeypatch.setattr(machine_speeds, "_measure", lambda _: speeds)
    with own_folder(tmp_path, monkeypatch) as folder:
        yield folder


@pytest.fixture
def falling(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every program measured is faster than the one before."""
    times: list[float] = []

    def seconds_of(*_: Any) -> float:
        times.append(1.0 / (1 + len(times)))
        return times[-1]

    monkeypatch.setattr(tuning, "seconds_of", seconds_of)
    return times


def operands() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    draw = np.random.default_rng(3)
    return (
        draw.standard_normal((6, 70, 90)).astype(np.float32),
        draw.standard_normal((90, 80)).astype(np.float32),
    )


def record_file(folder: Path) -> Path:
    (file,) = folder.glob("record-*.json")
    return file


def test_the_fastest_is_remembered_as_readable_json(folder: Path, falling: list[float]) -> None:
    a, b = operands()
    plan = teir.plan(EXPRESSION, a, b, threads=1, tune=True)
    assert len(falling) > 3
    record = json.loads(record_file(folder).read_text())
    assert record["problem"]["expression"] == EXPRESSION
    assert record["problem"]["operands"][0]["shape"] == [6, 70, 90]
    assert record["measured"] == len(falling)
    assert record["seconds"] == falling[-1]
    assert record["default_seconds"] == 1.0
    assert record["complete"] is True
    assert set(record["choices"][0]) >= {"packed_a", "packed_b", "order", "depth"}
    assert plan.chosen is not None
    assert plan.chosen.found.record is not None
    assert f"the best of {len(falling)} programs" in plan.explain()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(record_file(folder).stat().st_mode) == 0o600


def test_what_is_remembered_is_used_without_asking_and_keeps_the_bits(
    folder: Path, falling: list[float]
) -> None:
    a, b = operands()
    default = teir.plan(EXPRESSION, a, b, threads=1)
    wanted = teir.einsum(EXPRESSION, a, b, threads=1)
    tuned = teir.einsum(EXPRESSION, a, b, threads=1, tune=True)
    count = len(falling)
    assert tuned.tobytes() == wanted.tobytes()
    new_process()
    later = teir.plan(EXPRESSION, a, b, threads=1)
    assert later.program != default.program
    assert later(a, b).tobytes() == wanted.tobytes()
    assert teir.plan(EXPRESSION, a, b, threads=1, tune=True).program == later.program
    assert len(falling) == count
    assert record_file(folder).exists()


def test_another_problem_has_a_record_of_its_own(folder: Path, falling: list[float]) -> None:
    a, b = operands()
    teir.plan(EXPRESSION, a, b, threads=1, tune=True)
    for other in (
        lambda: teir.plan(EXPRESSION, a.astype(np.float64), b.astype(np.float64), threads=1),
        lambda: teir.plan(EXPRESSION, a[:5], b, threads=1),
        lambda: teir.plan(EXPRESSION, a.swapaxes(0, 1).copy().swapaxes(0, 1), b, threads=1),
        lambda: teir.plan(EXPRESSION, a, b, threads=2),
    ):
        plan = other()
        assert plan.chosen is not None
        assert plan.chosen.found.record is None
        assert plan.chosen.found.note is None
    assert falling
    assert len(list(folder.glob("record-*"))) == 1


def damaged(change: Callable[[dict[str, Any]], None]) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        record = json.loads(data)
        change(record)
        return json.dumps(record).encode()

    return edit


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    *way, last, value = path

    def change(record: Any) -> None:
        for step in way:
            record = record[step]
        record[last] = value

    return change


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "half of it": lambda data: data[: len(data) // 2],
    "no text": lambda data: b"\xff" + data,
    "a pickle": lambda _: b"\x80\x04K\x01.",
    "a key twice": lambda data: data.replace(b'"date"', b'"seconds": 1.0, "date"'),
    "deep nesting": lambda _: b"[" * 5000,
    "another version": damaged(_set("version", "0.0.0")),
    "another format": damaged(_set("teir_tuning", 2)),
    "another expression": damaged(_set("problem", "expression", "ij,jk->ik")),
    "another machine": damaged(_set("machine", "cpu", "abacus")),
    "no depth": damaged(_set("choices", 0, "depth", 0)),
    "a negative panel": damaged(_set("choices", 0, "panel", -16)),
    "a huge panel": damaged(_set("choices", 0, "panel", 1 << 62)),
    "a block that is text": damaged(_set("choices", 0, "row_block", "many")),
    "an order that is none": damaged(_set("choices", 0, "order", "random")),
    "a field too many": damaged(_set("command", "rm")),
    "a step too many": damaged(lambda record: record["choices"].append(record["choices"][0])),
    "no steps": damaged(_set("choices", [])),
    "no time": damaged(_set("seconds", 0)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_tampered_or_stale_record_is_ignored_with_a_note(
    damage: Callable[[bytes], bytes],
    folder: Path,
    falling: list[float],
) -> None:
    a, b = operands()
    wanted = teir.plan(EXPRESSION, a, b, threads=1)
    teir.plan(EXPRESSION, a, b, threads=1, tune=True)
    file = record_file(folder)
    file.write_bytes(damage(file.read_bytes()))
    new_process()
    plan = teir.plan(EXPRESSION, a, b, threads=1)
    assert plan.program == wanted.program
    assert plan.chosen is not None
    assert plan.chosen.found.record is None
    assert plan.chosen.found.note
    assert "a tuning record is not used" in plan.explain()
    assert falling


@pytest.mark.parametrize("panel", [1, 7, 100_000, 1 << 39])
@pytest.mark.parametrize("depth", [1, 33, 1 << 39])
@pytest.mark.parametrize("packing", ["none", "blocks", "whole"])
def test_strange_decisions_give_the_same_bits_or_the_default(
    panel: int,
    depth: int,
    packing: str,
    folder: Path,
    falling: list[float],
) -> None:
    a, b = operands()
    wanted = teir.einsum(EXPRESSION, a, b, threads=1)
    teir.plan(EXPRESSION, a, b, threads=1, tune=True)
    file = record_file(folder)
    record = json.loads(file.read_text())
    record["choices"][0] |= {"panel": panel, "depth": depth, "packed_a": packing, "row_block": 3}
    file.write_text(json.dumps(record))
    new_process()
    plan = teir.plan(EXPRESSION, a, b, threads=1)
    assert plan(a, b).tobytes() == wanted.tobytes()
    assert plan.chosen is not None
    assert (plan.chosen.found.record is None) == (plan.chosen.found.note is not None)
    assert falling


def test_copies_without_depth_are_shared_among_threads(folder: Path, falling: list[float]) -> None:
    a, b = (np.arange(90_000.0).reshape(300, 300) % 7 for _ in range(2))
    teir.plan("ij,jk->ik", a, b, threads=1, tune=True)
    file = record_file(folder)
    record = json.loads(file.read_text())
    decided = {"order": "rows", "sharing": "rows", "packed_b": "whole", "depth": 1}
    record["choices"][0] |= decided | {"panel": 32, "row_block": 64, "column_block": 70}
    file.write_text(json.dumps(record))
    new_process()
    plan = teir.plan("ij,jk->ik", a, b, threads=1)
    np.testing.assert_array_equal(plan(a, b), a @ b)
    assert plan.chosen is not None
    assert plan.chosen.found.record is not None
    assert falling


@pytest.mark.usefixtures("folder", "falling")
@pytest.mark.parametrize("place", ["planning.compile_program", "choosing.prove", "choosing.lower"])
def test_any_error_on_the_way_from_a_record_to_code_leaves_it_aside(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = operands()
    wanted = teir.einsum(EXPRESSION, a, b, threads=1)
    default = teir.plan(EXPRESSION, a, b, threads=1).program
    tuned = teir.plan(EXPRESSION, a, b, threads=1, tune=True).program
    assert tuned != default
    place = f"teir.pipeline.{place}"
    original = pkgutil.resolve_name(place)

    def failing(program: Program, *arguments: Any, **keywords: Any) -> Any:
        if program != default:
            raise ValueError
        return original(program, *arguments, **keywords)

    new_process()
    monkeypatch.setattr(place, failing)
    plan = teir.plan(EXPRESSION, a, b, threads=1)
    assert plan(a, b).tobytes() == wanted.tobytes()
    assert "no safe program comes of it (ValueError)" in plan.explain()


def test_a_record_others_may_write_is_not_read(folder: Path, falling: list[float]) -> None:
    a, b = operands()
    teir.plan(EXPRESSION, a, b, threads=1, tune=True)
    os.chmod(record_file(folder), 0o666)
    new_process()
    plan = teir.plan(EXPRESSION, a, b, threads=1)
    assert plan.chosen is not None
    assert "others may write it" in (plan.chosen.found.note or "")
    os.chmod(record_file(folder), 0o600)
    os.chmod(folder, 0o777)
    new_process()
    plan = teir.plan(EXPRESSION, a, b, threads=1)
    assert plan.chosen is not None
    assert plan.chosen.found.record is None
    assert falling


def test_ctrl_c_keeps_what_was_measured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = [1.0, 0.7, 0.9]

    def seconds_of(*_: Any) -> float:
        if not times:
            raise KeyboardInterrupt
        return times.pop(0)

    monkeypatch.setattr(tuning, "seconds_of", seconds_of)
    a, b = operands()
    with pytest.raises(KeyboardInterrupt):
        teir.plan(EXPRESSION, a, b, threads=1, tune=True)
    record = read_record(record_file(folder).read_bytes())
    assert (record.seconds, record.default_seconds) == (0.7, 1.0)
    assert record.measured == 3
    assert not record.complete
    plan = teir.plan(EXPRESSION, a, b, threads=1)
    assert "the measuring was interrupted" in plan.explain()


def test_without_a_cache_tuning_works_and_remembers_nothing(
    folder: Path, falling: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEIR_CACHE", "off")
    new_process()
    a, b = operands()
    tuned = teir.plan(EXPRESSION, a, b, threads=1, tune=True)
    assert tuned.chosen is not None
    assert tuned.chosen.found.record is not None
    assert not folder.exists()
    assert falling


def test_merging_keeps_the_faster_record(folder: Path, falling: list[float]) -> None:
    a, b = operands()
    teir.plan(EXPRESSION, a, b, threads=1, tune=True)
    records = tuning_records()
    (record,) = records.all()
    data = write_export(Exported((record,)))
    assert read_export(data, "file") == Exported((record,))
    assert records.merge([record]).kept == 0
    faster = msgspec.structs.replace(record, seconds=record.seconds / 2)
    assert records.merge([faster]).kept == 1
    assert records.all() == [faster]
    assert records.merge([record]).kept == 0
    elsewhere = msgspec.structs.replace(
        record, machine=msgspec.structs.replace(record.machine, cpu="another")
    )
    assert records.merge([elsewhere]).kept == 1
    assert len(records.all()) == 2
    assert falling
    assert folder.exists()


def test_merging_keeps_a_record_of_this_version(folder: Path, falling: list[float]) -> None:
    teir.plan(EXPRESSION, *operands(), threads=1, tune=True)
    records = tuning_records()
    (record,) = records.all()
    old = msgspec.structs.replace(record, version="0.0.1", seconds=record.seconds / 2)
    assert records.merge([old]).kept == 0
    assert records.all() == [record]
    assert records.keep(old)
    assert records.merge([msgspec.structs.replace(old, version="0.0.2")]).kept == 0
    slower = msgspec.structs.replace(record, seconds=record.seconds * 2)
    assert records.merge([record, old, slower]).kept == 1
    assert records.all() == [record]
    assert falling
    assert folder.exists()


def test_an_imported_file_is_refused_whole() -> None:
    for data in (b"", b"{}", b"[]", b'{"teir_tuning_records": [1]}', b"\x80\x04K\x01."):
        with pytest.raises(TeirError) as caught:
            read_export(data, "records.json")
        assert [finding.code for finding in caught.value.findings] == ["TEIR645"]
        assert "records.json" in str(caught.value)


@pytest.mark.parametrize(
    ("array", "isa", "found"),
    [
        ({"shape": (-1, 2, 2)}, None, "an extent of -1"),
        ({"strides": (8, 2**50, 8)}, None, "stride of 1125899906842624"),
        ({"strides": (8,)}, None, "3 extents and 1 strides"),
        ({}, "z80", "isa 'z80'"),
    ],
)
def test_records_that_can_never_be_used_are_refused(
    folder: Path, falling: list[float], array: dict[str, Any], isa: str | None, found: str
) -> None:
    teir.plan(EXPRESSION, *operands(), threads=1, tune=True)
    (record,) = tuning_records().all()
    out = msgspec.structs.replace(record.problem.out, **array)
    problem = msgspec.structs.replace(record.problem, out=out)
    machine = msgspec.structs.replace(record.machine, isa=isa or record.machine.isa)
    wrong = msgspec.structs.replace(record, problem=problem, machine=machine)
    with pytest.raises(TeirError, match="TEIR645") as caught:
        read_export(write_export(Exported((wrong,))), "records.json")
    assert found in str(caught.value)
    assert falling
    assert folder.exists()


def test_a_sliced_tree_is_a_problem_of_its_own(folder: Path, falling: list[float]) -> None:
    cotengra = pytest.importorskip("cotengra")
    arrays = [np.ones(shape) for shape in ((60, 70), (70, 80), (80, 90))]
    tree = cotengra.einsum_tree("ij,jk,kl->il", *(one.shape for one in arrays))
    teir.plan("ij,jk,kl->il", *arrays, threads=1, tune=True, optimize=tree)
    sliced = teir.plan("ij,jk,kl->il", *arrays, threads=1, optimize=tree.remove_ind("k"))
    assert sliced.chosen is not None
    assert sliced.chosen.found.record is None
    assert falling
    assert folder.exists()


def test_results_that_numpy_computes_have_nothing_to_tune(folder: Path) -> None:
    whole = np.arange(6).reshape(2, 3)
    assert (
        teir.einsum("ij,jk->ik", whole, whole.T, tune=True).tolist() == (whole @ whole.T).tolist()
    )
    assert not folder.exists()


def test_tuning_stays_within_the_memory_limit(folder: Path, falling: list[float]) -> None:
    a, b = operands()
    free = teir.plan(EXPRESSION, a, b, threads=1)
    limit = free.memory_bytes + free.problem.result_bytes
    tuned = teir.plan(EXPRESSION, a, b, threads=1, memory_limit=limit, tune=True)
    assert tuned.memory_bytes + tuned.problem.result_bytes <= limit
    assert falling
    assert record_file(folder).exists()


def test_tuning_keeps_to_slices(folder: Path, falling: list[float]) -> None:
    a, b = operands()
    free = teir.plan(EXPRESSION, a, b, threads=1)
    limit = free.memory_bytes // 2 + free.problem.result_bytes
    tuned = teir.plan(EXPRESSION, a, b, threads=1, memory_limit=limit, tune=True)
    assert tuned.memory_bytes + tuned.problem.result_bytes <= limit
    assert falling
    assert record_file(folder).exists()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "shapes"),
    [("dab,cbd->bac", ((100, 48, 5), (3, 5, 100))), ("ba,bc->ca", ((257, 16), (257, 257)))],
)
def test_candidates_of_complex_numbers_have_the_bits_of_the_default(
    monkeypatch: pytest.MonkeyPatch, text: str, shapes: Any
) -> None:
    def seconds_of(program: Program, addresses: Any, threads: int) -> float:
        timing.run_once(program, addresses, threads)
        ran.append(program)
        return 1.0 / len(ran)

    ran: list[Program] = []
    monkeypatch.setattr(tuning, "seconds_of", seconds_of)
    draw = np.random.default_rng(0)
    arrays = [(draw.random(s) + 1j * draw.random(s)).astype(np.complex64) for s in shapes]
    plan = teir.plan(text, *arrays, threads=1)
    wanted = plan(*arrays).tobytes()
    assert plan.decidable is not None
    told: list[Measured] = []
    tuning.tune(tunable_of(plan.decidable), told.append)
    assert told
    for one in told:
        out = np.empty_like(plan(*arrays))
        places = [array.ctypes.data for array in (*arrays, out)]
        timing.run_once(one.candidate.tree.program, places, 1)
        assert out.tobytes() == wanted


@pytest.mark.usefixtures("folder", "falling")
def test_a_program_of_other_bits_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds_of(_: Program, addresses: Any, __: int) -> float:
        seconds.append(1.0 / (1 + len(seconds)))
        if len(seconds) > 1:
            ctypes.memset(addresses[-1], len(seconds), 1)
        return seconds[-1]

    seconds: list[float] = []
    monkeypatch.setattr(tuning, "seconds_of", seconds_of)
    a, b = operands()
    plan = teir.plan(EXPRESSION, a, b, threads=1)
    assert plan.decidable is not None
    told: list[Measured] = []
    record = tuning.tune(tunable_of(plan.decidable), told.append)
    assert len(seconds) > 1
    assert len(told) == record.measured == 1


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "shapes", "limit"),
    [
        ("ab,bc,cd->ad", ((31, 130), (130, 130), (130, 48)), 22016),
        ("ab,bc,cd->ad", ((100, 200), (200, 300), (300, 100)), 100000),
        ("abc,cd,bde->ae", ((100, 31, 31), (31, 257), (31, 257, 31)), 60035),
    ],
)
def test_every_candidate_has_the_slices_of_the_default(
    falling: list[float], text: str, shapes: Any, limit: int
) -> None:
    draw = np.random.default_rng(0)
    arrays = [draw.standard_normal(shape).astype(np.float32) for shape in shapes]
    plan = teir.plan(text, *arrays, threads=1, memory_limit=limit)
    assert plan.decidable is not None
    default = plan.decidable.make(())
    given = default_choices(default)
    assert default.slices
    assert plan.decidable.make(given).program == default.program
    for tried in one_away(given, default.matrix_steps):
        try:
            tree = plan.decidable.make(tried)
        except teir.TeirError:
            continue
        assert tree.slices == default.slices
        assert plan.decidable.scratch(tree) <= limit
    tuned = teir.plan(text, *arrays, threads=1, memory_limit=limit, tune=True)
    assert falling
    assert tuned(*arrays).tobytes() == plan(*arrays).tobytes()


def test_a_whole_tree_is_tuned(folder: Path, falling: list[float]) -> None:
    draw = np.random.default_rng(5)
    arrays = [draw.standard_normal(shape) for shape in ((60, 70), (70, 80), (80, 90))]
    wanted = teir.einsum("ij,jk,kl->il", *arrays, threads=1)
    tuned = teir.einsum("ij,jk,kl->il", *arrays, threads=1, tune=True)
    assert tuned.tobytes() == wanted.tobytes()
    record = read_record(record_file(folder).read_bytes())
    assert len(record.choices) == 2
    assert falling


def test_real_times_are_taken_of_the_programs_themselves(folder: Path) -> None:
    a, b = operands()
    teir.plan(EXPRESSION, a, b, threads=1, tune=True)
    record = read_record(record_file(folder).read_bytes())
    assert 1e-6 < record.seconds <= record.default_seconds < 1.0


def test_speeds_are_assumed_until_somebody_asks(folder: Path) -> None:
    assert not known_speeds().is_measured
    assert not folder.exists()
    measured = measured_speeds()
    assert measured.is_measured
    assert known_speeds() == measured
    new_process()
    assert known_speeds() == measured
    (file,) = folder.glob("machine-*.json")
    file.write_text(file.read_text().replace("1e11", "-1e11").replace("100000000000.0", "-1.0"))
    new_process()
    assert not known_speeds().is_measured


def test_explaining_measures_on_request_only(folder: Path) -> None:
    a, b = operands()
    plan = teir.plan(EXPRESSION, a, b, threads=1)
    text = plan.explain()
    assert "predicted:" in text
    assert "measured:" not in text
    assert "bytes moved" in text
    assert "nothing has been measured" in text
    assert "product 1: packed_a" in text
    assert "speeds assumed" in text
    assert not folder.exists()
    text = plan.explain(measure=True)
    assert "measured:" in text
    assert "% of the peak" in text


def test_drawn_operands_have_the_strides_of_the_problem() -> None:
    a = np.ones((4, 5, 6))[::-1, :, ::2]
    plan = teir.plan("ijk->kji", a)
    drawn = timing.draw_operands(plan.problem)
    low, high = plan.problem.tensor_types()[0].span_bytes
    assert drawn.buffers[0].nbytes == high - low
    assert drawn.addresses[0] == drawn.buffers[0].ctypes.data - low
    assert drawn.buffers[0].min() >= 1


def test_complex_operands_are_drawn_with_imaginary_parts() -> None:
    plan = teir.plan("ij,jk", np.ones((4, 5), np.complex64), np.ones((5, 6), np.complex64))
    for buffer in timing.draw_operands(plan.problem).buffers:
        assert buffer.real.min() >= 1
        assert buffer.imag.min() >= 1
