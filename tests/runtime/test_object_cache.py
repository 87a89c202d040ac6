"""The cache on disk gives back what was stored or nothing, whatever happens to its files."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from teir.runtime.object_cache import ObjectCache, object_cache

KEY = b"generator 1\nmachine\nkernel"
DATA = bytes(range(256)) * 40


def only_file(folder: Path) -> Path:
    files = list(folder.iterdir())
    assert len(files) == 1
    return files[0]


def test_what_was_stored_comes_back(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "a" / "b")
    assert cache.load(KEY) is None
    assert cache.store(KEY, DATA)
    assert cache.load(KEY) == DATA
    assert cache.load(KEY + b"2") is None
    assert cache.store(KEY, b"")
    assert cache.load(KEY) == b""


def test_directory_and_file_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    ObjectCache(folder).store(KEY, DATA)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(folder).stat().st_mode) == 0o600


@pytest.mark.parametrize("keep", [0, 5, 14, 40, 60, 100, 1000, 10_300])
def test_a_cut_file_is_no_entry(tmp_path: Path, keep: int) -> None:
    cache = ObjectCache(tmp_path / "c")
    cache.store(KEY, DATA)
    file = only_file(tmp_path / "c")
    assert keep < file.stat().st_size
    os.truncate(file, keep)
    assert cache.load(KEY) is None
    assert cache.store(KEY, DATA)
    assert cache.load(KEY) == DATA


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "c")
    cache.store(KEY, b"some code")
    file = only_file(tmp_path / "c")
    entry = file.read_bytes()
    for place in range(len(entry)):
        file.write_bytes(entry[:place] + bytes([entry[place] ^ 1]) + entry[place + 1 :])
        assert cache.load(KEY) is None
    file.write_bytes(entry + b"x")
    assert cache.load(KEY) is None


def test_the_whole_key_is_compared(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "c")
    cache.store(KEY, DATA)
    first = only_file(tmp_path / "c")
    other = ObjectCache(tmp_path / "d")
    other.store(b"another key", DATA)
    first.write_bytes(only_file(tmp_path / "d").read_bytes())
    assert cache.load(KEY) is None


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_directory_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "c"
    cache = ObjectCache(folder)
    cache.store(KEY, DATA)
    folder.chmod(mode)
    assert cache.load(KEY) is None
    assert not cache.store(KEY, DATA)


def test_a_file_others_can_write_is_refused(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "c")
    cache.store(KEY, DATA)
    only_file(tmp_path / "c").chmod(0o620)
    assert cache.load(KEY) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_directory_or_file_of_another_user_is_refused(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "c")
    cache.store(KEY, DATA)
    os.chown(only_file(tmp_path / "c"), 12345, 12345)
    assert cache.load(KEY) is None
    os.chown(tmp_path / "c", 12345, 12345)
    assert not cache.store(KEY, DATA)


def test_links_are_not_followed(tmp_path: Path) -> None:
    real = tmp_path / "real"
    cache = ObjectCache(real)
    cache.store(KEY, DATA)
    (tmp_path / "link").symlink_to(real)
    assert ObjectCache(tmp_path / "link").load(KEY) is None
    assert not ObjectCache(tmp_path / "link").store(KEY, DATA)
    file = only_file(real)
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert cache.load(KEY) is None
    assert cache.store(KEY, DATA)
    assert elsewhere.exists()
    assert not file.is_symlink()


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_what_is_no_plain_file_is_no_entry(tmp_path: Path, kind: str) -> None:
    cache = ObjectCache(tmp_path / "c")
    cache.store(KEY, DATA)
    file = only_file(tmp_path / "c")
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file, 0o600)
    else:
        file.mkdir(0o700)
    assert cache.load(KEY) is None


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    """A file size limit in a child stands for the full disk: the write fails half-way."""
    folder = tmp_path / "c"
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from teir.runtime.object_cache import ObjectCache\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        f"sys.exit(ObjectCache(Path({str(folder)!r})).store(b'key', bytes(20000)))\n"
    )
    assert resource.RLIMIT_FSIZE is not None
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert list(folder.iterdir()) == []


def test_no_directory_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ObjectCache(tmp_path / "file" / "cache")
    assert not cache.store(KEY, DATA)
    assert cache.load(KEY) is None


def test_fifty_writers_and_readers_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    children = []
    for number in range(50):
        child = os.fork()
        if child == 0:
            cache = ObjectCache(folder)
            key = KEY + str(number % 3).encode()
            content = str(number % 3).encode() * 50_000
            good = all(cache.store(key, content) and cache.load(key) == content for _ in range(5))
            os._exit(0 if good else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 50
    assert len(list(folder.iterdir())) == 3


def test_the_environment_chooses(tmp_path: Path) -> None:
    assert object_cache({"TEIR_CACHE": "off"}).directory is None
    assert object_cache({"TEIR_CACHE": "OFF", "TEIR_CACHE_DIR": "/x"}).directory is None
    assert object_cache({"TEIR_CACHE_DIR": str(tmp_path)}).directory == tmp_path
    default = object_cache({}).directory
    assert default is not None
    assert default.name == "objects"
    assert not ObjectCache(None).store(KEY, DATA)
    assert ObjectCache(None).load(KEY) is None


def test_the_entries_used_longest_ago_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teir.runtime.object_cache.MOST_ENTRIES", 8)
    cache = ObjectCache(tmp_path / "cache")
    keys = [f"key {number}".encode() for number in range(8)]
    for age, key in enumerate(keys):
        assert cache.store(key, b"data")
        (newest,) = set(cache_files(tmp_path)) - {path for path, _ in aged(tmp_path)}
        os.utime(newest, (1000 + age, 1000 + age))
    assert cache.load(keys[0]) == b"data", "using an entry makes it the newest"
    assert cache.store(b"one more", b"data")
    gone = [key for key in keys if cache.load(key) is None]
    assert gone == keys[1:3]
    assert cache.load(b"one more") == b"data"


def cache_files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache").iterdir())


def aged(tmp_path: Path) -> list[tuple[Path, float]]:
    times = [(path, path.stat().st_mtime) for path in cache_files(tmp_path)]
    return [(path, time) for path, time in times if time < 1e6]
