"""Files of the operating system are read, and missing ones are empty."""

from __future__ import annotations

from pathlib import Path

from teir.system_files import read_system_file


def test_what_is_missing_or_no_file_is_empty(tmp_path: Path) -> None:
    assert read_system_file(tmp_path / "none") == ""
    assert read_system_file(tmp_path) == ""


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "size").write_bytes(b"32K\xff\n")
    assert read_system_file(tmp_path / "size") == "32K\ufffd\n"
