"""What commands print where outputs are not UTF-8, are closed, or cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command_line import PRODUCT, Teir

SIZES = ("--sizes", "a=2,b=3,c=4")


def _command(
    words: str, *arguments: str | Path, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """The command as a shell starts it, with redirections in ``words``."""
    line = ["sh", "-c", f'exec "$@" {words}', "sh", sys.executable, "-m", "teir", *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(line, capture_output=True, check=False, env=environment)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_that_the_output_lacks_are_escaped(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "arrow.teir"
    file.write_text(PRODUCT.replace('"product"', '"x→😀"'), encoding="utf-8")
    shown = _command("", "show", file, PYTHONIOENCODING=encoding)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b'teir 1 "x\\u2192\\U0001f600"' in shown.stdout
    records = _command("", "show", file, "--json", PYTHONIOENCODING=encoding)
    assert json.loads(records.stdout)["name"] == "x→😀"


def test_signs_that_ascii_lacks_end_no_command() -> None:
    done = _command("", "einsum", "ab,bc->ac", *SIZES, "--compare", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_file_name_that_is_not_utf_8_is_printed(product: Path, tmp_path: Path) -> None:
    out = os.fsencode(tmp_path) + b"/\xff.npy"
    done = _command("", "run", product, "--random", "--out", os.fsdecode(out))
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\udcff.npy" in done.stdout
    assert os.path.exists(out)


def test_complaints_never_go_to_the_output() -> None:
    done = _command("2>&-", "check", "missing.teir")
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_complaints_that_cannot_be_written_leave_the_exit_code() -> None:
    assert _command("2>/dev/full", "check", "missing.teir").returncode == 2


def test_an_output_that_is_only_read_is_told(product: Path) -> None:
    done = _command("1</dev/null", "check", product)
    assert done.returncode == 2
    assert b"the output cannot be written" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["2>&-", "1>&-"])
@pytest.mark.parametrize(
    "arguments", [("tune", "ab,bc->ac", *SIZES), ("soak", "--programs", "1", "--jobs", "1")]
)
def test_outputs_may_be_closed(arguments: tuple[str, ...], closed: str) -> None:
    assert _command(closed, *arguments, TEIR_CACHE="off").returncode == 0


def test_records_are_one_document_beside_a_figure(
    teir: Teir, product: Path, tmp_path: Path
) -> None:
    drawing = tmp_path / "product.svg"
    done = teir("show", "--json", "--svg", drawing, product)
    assert done.json()["teir"] == 1
    assert drawing.exists()
