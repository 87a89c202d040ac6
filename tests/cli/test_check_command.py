"""``teir check`` and the exit codes every command that reads a program shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_line import PRODUCT, Teir


def test_a_safe_program(teir: Teir, product: Path) -> None:
    done = teir("check", product)
    assert done.code == 0
    assert done.out.startswith("product: well formed and safe to run\n")
    assert [line.split() for line in done.out.splitlines()[-3:]] == [
        ["out", "FP32", "0", "60"],
        ["in0", "FP32", "0", "140"],
        ["in1", "FP32", "0", "84"],
    ]
    assert done.err == ""


def test_json(teir: Teir, product: Path) -> None:
    answer = teir("check", "--json", product).json()
    assert answer["ok"] is True
    assert answer["needs"]["in0"] == {"before_bytes": 0, "after_bytes": 140}


def test_findings_name_rule_line_and_witness(teir: Teir, tmp_path: Path) -> None:
    path = tmp_path / "race.teir"
    path.write_text(
        PRODUCT.replace("K=[k])\nz: zero\ng: gemm\n", "K=[])\nparallel k over k\n  g: gemm\n")
    )
    done = teir("check", path)
    assert done.code == 1
    assert "parallel k over k" in done.out
    assert "rule: " in done.out
    assert done.out.endswith("1 finding\n")
    answer = teir("check", "--json", path)
    assert answer.code == 1
    [finding] = answer.json()["findings"]
    assert finding["line"] == 10
    assert finding["place"] == "node k"


def test_all_findings_of_a_record_at_once(teir: Teir, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"teir": 1, "name": "x", "tensors": 3, "axes": null}')
    done = teir("check", "--json", path)
    assert done.code == 1
    paths = {finding["path"] for finding in done.json()["findings"]}
    assert {"$.tensors", "$.axes"} <= paths


@pytest.mark.parametrize("command", ["check", "show", "run", "explain", "bench"])
@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"\x89PNG\r\n\x1a\n\x00",
        b"root:x:0:0:root:/root:/bin/sh\n",
        b"[1, 2",
        b"\xff\xfe",
    ],
)
def test_what_is_no_program_exits_2(
    teir: Teir, tmp_path: Path, command: str, content: bytes | None
) -> None:
    path = tmp_path / "thing"
    if content is not None:
        path.write_bytes(content)
    done = teir(command, path)
    assert done.code == 2
    assert done.out == ""
    assert "TEIR10" in done.err
    assert "Traceback" not in done.err


def test_a_directory_exits_2(teir: Teir, tmp_path: Path) -> None:
    done = teir("check", tmp_path)
    assert done.code == 2
    assert str(tmp_path) in done.err


@pytest.mark.parametrize(
    "arguments",
    [(), ("frobnicate",), ("check",), ("check", "--frobnicate", "x"), ("check", "a", "b")],
)
def test_bad_options_exit_2(teir: Teir, arguments: tuple[str, ...]) -> None:
    done = teir(*arguments)
    assert done.code == 2
    assert "Usage: teir" in done.err + done.out


@pytest.mark.parametrize("command", ["check", "show", "run", "einsum", "bench", "explain", "soak"])
def test_help(teir: Teir, command: str) -> None:
    done = teir(command, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: teir {command} ")


def test_version(teir: Teir) -> None:
    import teir as package

    assert teir("--version").out == f"teir {package.__version__}\n"
