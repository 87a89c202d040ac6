"""``teir tune``: what it prints, keeps, exports and imports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Teir
from teir.ir.check import check
from teir.ir.load import load
from teir.pipeline import program_tuning, sparse_tuning, tuning
from teir.runtime.runtime import current


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TEIR_CACHE_DIR", str(tmp_path / "cache"))
    names = ("tuning records", "speeds", "einsum plans", "sparse tuning records")
    kept = current()._kept
    before = {name: kept.pop(name) for name in names if name in kept}
    yield tmp_path / "cache" / "tuning"
    for name in names:
        kept.pop(name, None)
    kept.update(before)


@pytest.fixture
def falling(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    times: list[float] = []

    def seconds_of(*_: Any) -> float:
        times.append(1.0 / (1 + len(times)))
        return times[-1]

    monkeypatch.setattr(tuning, "seconds_of", seconds_of)
    monkeypatch.setattr(program_tuning, "seconds_of", seconds_of)
    monkeypatch.setattr(sparse_tuning, "seconds_per_call", seconds_of)
    return times


SIZES = ("--sizes", "i=60,j=70,k=80", "--threads", "1")


def test_an_expression_is_measured_and_remembered(
    teir: Teir, folder: Path, falling: list[float]
) -> None:
    done = teir("tune", "ij,jk->ik", *SIZES)
    assert done.code == 0, done.err
    assert f"{len(falling):.2f} times as fast as the default" in done.out
    assert done.out.splitlines()[0].split() == ["measured", "predicted", "decisions"]
    assert len(list(folder.glob("record-*.json"))) == 1
    again = teir("tune", "ij,jk->ik", *SIZES, "--json")
    assert again.json()["default_seconds"] > again.json()["seconds"]
    assert len(again.json()["measured"]) >= 2


def test_records_travel_by_file(
    teir: Teir, folder: Path, tmp_path: Path, falling: list[float]
) -> None:
    file = tmp_path / "records.json"
    assert teir("tune", "ij,jk->ik", *SIZES, "--export", file).code == 0
    assert len(json.loads(file.read_text())["teir_tuning_records"]) == 1
    for record in folder.glob("record-*"):
        record.unlink()
    done = teir("tune", "--import", file)
    assert (done.code, "1 record read, 1 kept" in done.out) == (0, True)
    assert len(list(folder.glob("record-*.json"))) == 1
    assert falling


def test_json_is_one_document(
    teir: Teir, folder: Path, tmp_path: Path, falling: list[float]
) -> None:
    file = tmp_path / "records.json"
    done = teir("tune", "ij,jk->ik", *SIZES, "--export", file, "--json").json()
    assert done["exported"] == {"file": str(file), "records": 1}
    assert "default" in [one["decisions"] for one in done["measured"]]
    assert len(done["measured"]) == len(falling)
    done = teir("tune", "--import", file, "--json").json()
    assert done == {"imported": {"file": str(file), "records": 1, "kept": 0}}
    assert folder.exists()


def test_a_file_that_holds_no_records_exits_2(teir: Teir, tmp_path: Path, folder: Path) -> None:
    file = tmp_path / "records.json"
    file.write_text('{"teir_tuning_records": [{"choices": []}]}')
    done = teir("tune", "--import", file)
    assert done.code == 2
    assert "TEIR645" in done.err
    assert not folder.exists()
    assert teir("tune", "--import", tmp_path / "nowhere").code == 2


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("teir_tuning", 2, "record 1: expected format 1, found format 2"),
        ("default_seconds", -1.0, "record 1: expected default_seconds above 0 and below 1e+09"),
        ("panel", 0, "record 1, choice 0: expected panel from 1 to"),
    ],
)
def test_the_damaged_record_of_a_file_is_named(
    teir: Teir,
    folder: Path,
    tmp_path: Path,
    falling: list[float],
    field: str,
    value: float,
    said: str,
) -> None:
    file = tmp_path / "records.json"
    assert teir("tune", "ij,jk->ik", *SIZES, "--export", file).code == 0
    (sound,) = json.loads(file.read_text())["teir_tuning_records"]
    damaged = json.loads(json.dumps(sound))
    (damaged if field in damaged else damaged["choices"][0])[field] = value
    file.write_text(json.dumps({"teir_tuning_records": [sound, damaged]}))
    done = teir("tune", "--import", file)
    assert done.code == 2
    assert said in done.err
    assert falling
    assert folder.exists()


def test_nothing_to_do_exits_2(teir: Teir) -> None:
    done = teir("tune")
    assert done.code == 2
    assert "TEIR814" in done.err


def test_an_interruption_keeps_what_was_measured(
    teir: Teir, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [1.0, 0.5]

    def seconds_of(*_: Any) -> float:
        if not times:
            raise KeyboardInterrupt
        return times.pop(0)

    monkeypatch.setattr(tuning, "seconds_of", seconds_of)
    done = teir("tune", "ij,jk->ik", *SIZES)
    assert done.code == 130
    assert "the best of 2 programs is kept" in done.err
    (file,) = folder.glob("record-*.json")
    assert json.loads(file.read_text())["seconds"] == 0.5


def test_a_program_is_tuned_by_the_passes(
    teir: Teir, product: Path, tmp_path: Path, falling: list[float]
) -> None:
    output = tmp_path / "best.teir"
    done = teir("tune", product, "--threads", "1", "--output", output)
    assert done.code == 0, done.err
    assert "as it is written" in done.out
    assert not check(load(output)).findings
    assert falling
    done = teir("tune", product, "--json")
    assert done.json()["measured"][0]["seconds"] > 0


def test_explain_measures_on_request(teir: Teir, product: Path) -> None:
    assert "measured:" not in teir("explain", product).out
    assert "measured:" in teir("explain", product, "--measure", "--threads", "1").out
    done = teir("explain", "ij,jk->ik", *SIZES, "--measure")
    assert "predicted:" in done.out
    assert "measured:" in done.out


SPARSE_SIZES = ("--sizes", "i=40,j=50,jpos=4,k=24,l=16", "--threads", "1")


@pytest.mark.parametrize(
    ("expression", "name"),
    [("A[i,l] = B[i,j] * C[j,k] * D[k,l]", "B"), ("ij,jk,kl->il", "in0")],
)
def test_a_sparse_product_is_measured_remembered_and_exported(
    teir: Teir, folder: Path, falling: list[float], tmp_path: Path, expression: str, name: str
) -> None:
    options = ("--format", f"{name}:ds", *SPARSE_SIZES)
    done = teir("tune", expression, *options)
    assert done.code == 0, done.err
    assert done.out.splitlines()[0].split() == ["measured", "predicted", "schedule"]
    assert f"{len(falling):.2f} times as fast as the default" in done.out
    (file,) = folder.glob("sparse-*.json")
    record = json.loads(file.read_text(encoding="utf-8"))
    explained = teir("explain", expression, *options)
    assert f"schedule: {record['schedule']}" in explained.out
    assert "tuned on" in explained.out
    exported = tmp_path / "all.json"
    assert teir("tune", "--export", str(exported)).out.endswith("1 record written\n")
    assert "1 record read, 0 kept" in teir("tune", "--import", str(exported)).out
    file.unlink()
    assert "1 record read, 1 kept" in teir("tune", "--import", str(exported)).out
    assert json.loads(file.read_text(encoding="utf-8")) == record


def test_a_sparse_product_is_measured_anew_from_a_file(
    teir: Teir, falling: list[float], tmp_path: Path
) -> None:
    file = tmp_path / "b.tns"
    lines = [f"{row} {1 + row * 7 % 30} {row}.5" for row in range(1, 31)]
    file.write_text("\n".join(lines), encoding="utf-8")
    options = ("--operand", f"in0={file}", "--sizes", "k=24,l=16", "--threads", "1", "--json")
    first = teir("tune", "ij,jk,kl->il", *options).json()
    (product,) = first["products"]
    assert first["expression"] == "out[i,l] = in0[i,j] * in1[j,k] * in2[k,l]"
    assert product["default_seconds"] == product["measured"][0]["seconds"]
    assert product["schedule"] == product["measured"][-1]["schedule"]
    count = len(falling)
    (again,) = teir("tune", "ij,jk,kl->il", *options).json()["products"]
    assert len(falling) > count
    default = product["measured"][0]["schedule"]
    (same,) = (one for one in again["measured"] if one["schedule"] == default)
    assert again["default_seconds"] == same["seconds"]


def test_a_sparse_product_interrupted_keeps_what_was_measured(
    teir: Teir, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [1.0, 0.5, None, 0.1]

    def seconds_per_call(_: Any) -> float:
        time = times.pop(0)
        if time is None:
            raise KeyboardInterrupt
        return time

    monkeypatch.setattr(sparse_tuning, "seconds_per_call", seconds_per_call)
    done = teir("tune", "ij,jk,kl->il", "--format", "in0:ds", *SPARSE_SIZES)
    assert "the best of 2 schedules is kept" in done.err
    (file,) = folder.glob("sparse-*.json")
    assert json.loads(file.read_text(encoding="utf-8"))["seconds"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("ij->i", "--format", "in0:ds", "--sizes", "i=40,j=50,jpos=4"), "TEIR814", "schedule"),
        (("i...->i", "--format", "in0:ds"), "TEIR817", "ellipses"),
        (("ij,jk->ik", "--format", "B:ds", "--sizes", "i=4,j=4,k=4"), "TEIR818", "in0"),
        (("ij,jk->ik", "--format", "in0:ds", "--output", "x.teir"), "TEIR814", "--output"),
    ],
)
def test_what_no_sparse_tuning_can_be_is_refused(
    teir: Teir, arguments: tuple[str, ...], code: str, words: str
) -> None:
    done = teir("tune", *arguments)
    assert done.code != 0
    assert code in done.err
    assert words in done.err


def test_a_wrong_sparse_record_is_refused_whole(teir: Teir, tmp_path: Path) -> None:
    assert teir("tune", "ij,jk,kl->il", "--format", "in0:ds", *SPARSE_SIZES).code == 0
    file = tmp_path / "all.json"
    assert teir("tune", "--export", str(file)).code == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    for key, wrong in (("seconds", -1.0), ("teir_sparse_tuning", 9), ("schedule", 4)):
        (record,) = document["teir_sparse_tuning_records"]
        changed = {**document, "teir_sparse_tuning_records": [{**record, key: wrong}]}
        file.write_text(json.dumps(changed), encoding="utf-8")
        assert "TEIR645" in teir("tune", "--import", str(file)).err


def test_what_is_not_kept_is_not_said_to_be(teir: Teir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEIR_CACHE", "off")
    dense = teir("tune", "ab,bc->ac", "--sizes", "a=8,b=5,c=4")
    product = ("A[i,l] = B[i,j] * C[j,l]", "--format", "B:ds")
    sparse = teir("tune", *product, "--sizes", "i=400,j=300,jpos=4,l=8")
    for done in (dense, sparse):
        assert done.code == 0
        assert "not remembered: TEIR_CACHE" in done.out


@pytest.mark.usefixtures("falling")
def test_records_that_cannot_be_written_are_told_with_the_reason(
    teir: Teir, tmp_path: Path, folder: Path
) -> None:
    file = str(tmp_path / "tuned.json")
    assert teir("tune", "ij,jk->ik", *SIZES, "--export", file).code == 0
    (record,) = folder.glob("record-*.json")
    record.unlink()
    folder.chmod(0o777)
    done = teir("tune", "--import", file)
    assert "1 record read, 0 kept" in done.out
    assert f"1 record could not be written: {folder}: is writable by others" in done.err
    folder.chmod(0o700)
    record.mkdir()
    done = teir("tune", "--import", file)
    assert "1 record could not be written: what lies under their names" in done.err
    record.rmdir()
    done = teir("tune", "--import", file)
    assert "1 record read, 1 kept" in done.out
    assert not done.err


@pytest.mark.usefixtures("falling")
def test_a_record_under_whose_name_a_directory_lies_is_not_said_to_be_remembered(
    teir: Teir, folder: Path
) -> None:
    assert "; remembered" in teir("tune", "ij,jk->ik", *SIZES).out
    (record,) = folder.glob("record-*.json")
    record.unlink()
    record.mkdir()
    assert "; not remembered" in teir("tune", "ij,jk->ik", *SIZES).out
