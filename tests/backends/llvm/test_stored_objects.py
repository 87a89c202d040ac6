"""The objects of a library in one entry: whole, in order, and not too many."""

from __future__ import annotations

import pytest

from teir.backends.llvm import stored_objects
from teir.backends.llvm.stored_objects import StoredObject, packed, unpacked, with_latest

OBJECTS = [
    StoredObject(("a", "b"), b"\x00\x01code\n"),
    StoredObject(("c",), b""),
    StoredObject(("d", "e", "f"), bytes(range(256))),
]


@pytest.mark.parametrize("count", range(len(OBJECTS) + 1))
def test_what_is_packed_comes_back(count: int) -> None:
    assert unpacked(packed(OBJECTS[:count])) == OBJECTS[:count]


def test_the_latest_takes_the_place_of_the_same_functions() -> None:
    latest = StoredObject(("a", "b"), b"other")
    assert with_latest(OBJECTS, latest) == [*OBJECTS[1:], latest]


def test_the_oldest_go_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    latest = StoredObject(("g",), bytes(100))
    monkeypatch.setattr(stored_objects, "MOST_BYTES", 360)
    assert with_latest(OBJECTS, latest) == [*OBJECTS[1:], latest]
    monkeypatch.setattr(stored_objects, "MOST_BYTES", 50)
    assert with_latest(OBJECTS, latest) == [latest]
