"""Documents on disk: whole or not there, and this user's alone."""

from __future__ import annotations

import os
from pathlib import Path

from teir.runtime.private_files import cache_folder
from teir.runtime.record_folder import MOST_BYTES, RecordFolder


def test_what_is_stored_is_read_and_listed(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path / "records")
    assert folder.names() == frozenset()
    assert folder.load("one") is None
    assert folder.store("one", b"{}")
    assert folder.store("one", b"[]")
    assert folder.load("one") == b"[]"
    assert folder.names() == {"one"}
    assert sorted(os.listdir(tmp_path / "records")) == ["one.json"]


def test_links_and_large_files_are_not_read(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path / "records")
    assert folder.store("large", b" " * (MOST_BYTES + 1))
    assert folder.load("large") is None
    (tmp_path / "elsewhere.json").write_bytes(b"{}")
    (tmp_path / "records" / "link.json").symlink_to(tmp_path / "elsewhere.json")
    assert folder.load("link") is None


def test_a_folder_others_may_write_is_left_alone(tmp_path: Path) -> None:
    folder = RecordFolder(tmp_path / "records")
    assert folder.store("one", b"{}")
    os.chmod(tmp_path / "records", 0o770)
    assert folder.load("one") is None
    assert not folder.store("two", b"{}")


def test_why_nothing_can_be_kept_is_told(tmp_path: Path) -> None:
    assert RecordFolder(tmp_path / "records").refusal() is None
    assert os.listdir(tmp_path / "records") == []
    os.chmod(tmp_path / "records", 0o777)
    refusal = RecordFolder(tmp_path / "records").refusal()
    assert refusal == f"{tmp_path / 'records'}: is writable by others"
    (tmp_path / "file").write_bytes(b"")
    assert str(tmp_path / "file") in str(RecordFolder(tmp_path / "file" / "records").refusal())
    assert RecordFolder(None).refusal() == "there is no directory"


def test_without_a_folder_nothing_is_kept() -> None:
    folder = RecordFolder(None)
    assert not folder.store("one", b"{}")
    assert folder.load("one") is None
    assert folder.names() == frozenset()


def test_kinds_of_files_lie_apart(tmp_path: Path) -> None:
    named = {"TEIR_CACHE_DIR": str(tmp_path)}
    assert cache_folder(named, "objects") == tmp_path
    assert cache_folder(named, "tuning") == tmp_path / "tuning"
    assert cache_folder({"TEIR_CACHE": "off"}, "tuning") is None
    objects, tuning = cache_folder({}, "objects"), cache_folder({}, "tuning")
    assert objects is not None
    assert tuning is not None
    assert objects.parent == tuning.parent
