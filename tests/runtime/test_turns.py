"""Changes come one after the other, whoever asks for them: the same thread in between, too."""

from __future__ import annotations

import os
import threading

import pytest

from runtime.test_fork import in_child
from teir.runtime.turns import Turns


def test_a_change_asked_for_in_the_middle_of_another_comes_after_it() -> None:
    turns, made = Turns(), []

    def change() -> None:
        made.append("begin")
        turns.make(lambda: made.append("between"))
        made.append("end")

    turns.make(change)
    assert made == ["begin", "end", "between"]


def test_a_thread_leaves_its_change_to_the_one_that_makes_one() -> None:
    turns, made = Turns(), []

    def change() -> None:
        other = threading.Thread(target=lambda: turns.make(lambda: made.append("other")))
        other.start()
        other.join()
        made.append("own")

    turns.make(change)
    assert made == ["own", "other"]


def test_the_turn_is_free_after_a_change_that_failed() -> None:
    turns, made = Turns(), []

    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turns.make(fail)
    turns.make(lambda: made.append(1))
    assert made == [1]


def test_a_change_that_another_thread_was_at_is_known_in_a_child() -> None:
    turns, begun, end = Turns(), threading.Event(), threading.Event()

    def change() -> None:
        begun.set()
        end.wait()

    other = threading.Thread(target=lambda: turns.make(change))
    other.start()
    begun.wait()
    made: list[int] = []

    def goes_on() -> bool:
        was_whole = turns.is_whole_after_fork()
        turns.make(lambda: made.append(1))
        return not was_whole and made == [1]

    try:
        assert in_child(goes_on)
    finally:
        end.set()
        other.join()
    assert turns.is_whole_after_fork()


def test_a_change_in_whose_middle_its_thread_forks_ends_in_the_child_too() -> None:
    turns, made = Turns(), []
    children: list[int] = []

    def change() -> None:
        made.append("begin")
        children.append(os.fork())
        made.append("end")

    turns.make(change)
    if children[0] == 0:
        turns.make(lambda: made.append("after"))
        os._exit(0 if turns.is_whole_after_fork() and made == ["begin", "end", "after"] else 1)
    assert os.waitpid(children[0], 0)[1] == 0
