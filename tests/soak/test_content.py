"""The key of a case follows what is run, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import teir
from teir.lower.kernels import Kernel
from teir.soak import content
from teir.soak.content import audit_key, press_key
from teir.soak.kernel_corpus import audit_items
from teir.soak.kernel_pages import pressed_cases
from teir.target import Isa


def test_keys_tell_cases_efforts_and_purposes_apart() -> None:
    pressed = [press_key(item, 2) for item in range(0, len(pressed_cases()), 113)]
    audited = [audit_key(item, 2) for item in range(0, audit_items(), 397)]
    more = [press_key(item, 3) for item in range(0, len(pressed_cases()), 113)]
    keys = [*pressed, *audited, *more]
    assert len(set(keys)) == len(keys)
    assert pressed[1] == press_key(113, 2)


def test_keys_follow_the_texts_of_kernels_and_the_sources_that_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = press_key(0, 2), audit_key(0, 2)
    with monkeypatch.context() as patch:
        patch.setattr(content, "kernel_digest", _other_digest)
        assert press_key(0, 2) != before[0]
        assert audit_key(0, 2) != before[1]
    monkeypatch.setattr(content, "_sources", lambda: "others")
    assert press_key(0, 2) != before[0]
    assert audit_key(0, 2) != before[1]


def _other_digest(kernel: Kernel, isa: Isa) -> str:
    return f"{kernel} {isa} changed"


def test_every_source_named_exists() -> None:
    """A source that was renamed would no longer be told apart."""
    package = Path(str(teir.__file__)).parent
    names = [path.relative_to(package).as_posix() for path in package.rglob("*.py")]
    for prefix in (*content._RUNNING, *content._IN_TEXTS):
        assert any(name.startswith(prefix) for name in names), prefix
