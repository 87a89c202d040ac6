"""``teir tma``: answers to case files, findings, and drawn schedules."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cli.command_line import Teir

CASES = Path(__file__).parents[1] / "tma" / "cases.json"
CASE: dict[str, Any] = {
    "id": "one",
    "dtype": "f32",
    "shape": [64, 32],
    "schedule": [["split", 0, 16]],
    "parallel": {"1": "Bulk", "2": "Bulk"},
}


def written(folder: Path, *cases: dict[str, Any]) -> Path:
    path = folder / "cases.json"
    path.write_text(json.dumps({"cases": list(cases)}))
    return path


def test_all_cases_are_answered_as_they_expect(teir: Teir) -> None:
    done = teir("tma", CASES, "--json")
    assert done.code == 0
    expected = [
        {"id": case["id"], "expect": case["expect"]}
        for case in json.loads(CASES.read_text())["cases"]
    ]
    assert done.json() == {"cases": expected}


def test_expect_may_be_left_out(teir: Teir, tmp_path: Path) -> None:
    answer = teir("tma", written(tmp_path, CASE), "--json").json()
    (one,) = answer["cases"]
    assert one["expect"]["valid"] is True
    assert one["expect"]["tensor_map"]["boxDim"] == [32, 16]
    assert one["expect"]["simulated"]["tiles"] == 4


def test_another_expectation_is_told(teir: Teir, tmp_path: Path) -> None:
    done = teir("tma", written(tmp_path, {**CASE, "expect": {"valid": False}}))
    assert done.code == 1
    assert "WRONG" in done.out


def test_a_case_that_is_none_spoils_no_other(teir: Teir, tmp_path: Path) -> None:
    broken = {**CASE, "id": "broken", "schedule": [["cut", 0, 3]]}
    done = teir("tma", written(tmp_path, broken, CASE), "--json")
    assert done.code == 0
    first, second = done.json()["cases"]
    assert first["expect"]["valid"] is False
    assert first["expect"]["rejected_at"] == "infer"
    assert first["expect"]["reason"].startswith("$.cases[0].schedule[0]: expected [split")
    assert second["expect"]["valid"] is True


def test_findings_name_iter_domains(teir: Teir, tmp_path: Path) -> None:
    wide = {**CASE, "shape": [512, 32], "schedule": [], "parallel": {"0": "Bulk", "1": "Bulk"}}
    done = teir("tma", written(tmp_path, wide), "--findings")
    assert done.code == 0
    assert "TEIR917 IterDomain I1{512}: boxDim[1]=512 not in 1..256" in done.out


def test_predicates_are_generated(teir: Teir, tmp_path: Path) -> None:
    inner = {
        **CASE,
        "dtype": "f64",
        "shape": [48],
        "schedule": [["split", 0, 4], ["split", 0, 4], ["split", 1, 3]],
        "parallel": {"3": "Bulk"},
    }
    done = teir("tma", written(tmp_path, inner), "--findings")
    assert "loaded if 0 <= i6 * 3 + i7 < 4" in done.out


def test_drawn_schedules(teir: Teir) -> None:
    done = teir("tma", "--draws", "20", "--seed", "5", "--json")
    assert done.code == 0
    assert done.json()["wrong"] == []
    assert teir("tma", "--draws", "5").out.startswith("5 of ")


def test_unusable_input(teir: Teir, tmp_path: Path) -> None:
    assert teir("tma").code == 2
    assert teir("tma", tmp_path / "none.json").code == 2
    path = tmp_path / "list.json"
    path.write_text("[1, 2")
    assert teir("tma", path).code == 2
    path.write_text('{"programs": []}')
    assert teir("tma", path).code == 1


def test_a_file_and_draws_are_one_document(teir: Teir, tmp_path: Path) -> None:
    wrong = {**CASE, "expect": {"valid": False}}
    done = teir("tma", written(tmp_path, wrong), "--draws", "3", "--json")
    assert done.code == 1
    document = done.json()
    assert [case["id"] for case in document["cases"]] == ["one"]
    assert document["wrong"] == []


def test_pipes_and_devices_are_not_waited_for(teir: Teir, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        done = teir("tma", path)
        assert done.code == 2
        assert f"TEIR100 at {path}: expected a regular file" in done.err
