"""Every round begins with another contender, and each is timed after calls of its own."""

from __future__ import annotations

import pytest

from teir.cli.peers import rounds
from teir.cli.peers.case import Case
from teir.cli.peers.rounds import measure
from teir.dtypes import DataType

CASE = Case(name="sums", family="", einsum="ik,k->i", shapes=((2, 3), (3,)))
_CALL_SECONDS = 1e-4


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who was called, in order, by a clock that only calls move; peaks take no time."""
    called: list[str] = []

    def copy() -> float:
        called.append("copy")
        return 1.0

    monkeypatch.setattr(rounds, "measure_peak", lambda *_: 1.0)
    monkeypatch.setattr(rounds, "make_copier", lambda *_: copy)
    monkeypatch.setattr("time.perf_counter", lambda: len(called) * _CALL_SECONDS)
    return called


def runs(called: list[str]) -> list[tuple[str, int]]:
    """Neighbours of one name joined, with their number."""
    joined: list[tuple[str, int]] = []
    for name in called:
        count = joined.pop()[1] if joined and joined[-1][0] == name else 0
        joined.append((name, count + 1))
    return joined


def measured(called: list[str], names: str, count: int) -> list[tuple[str, int]]:
    """The runs of all rounds, without those that choose the number of calls."""
    calls = {name: lambda name=name: called.append(name) for name in names}
    measure(CASE, DataType.FP64, calls, count, 1, 16)
    found = runs(called)
    return found[1 + len(names) :]


def test_every_round_begins_with_another_contender(timed: list[str]) -> None:
    order = "".join(name if name != "copy" else " " for name, _ in measured(timed, "abc", 4))
    assert order.split() == ["abc", "bca", "cab", "abc"]


def test_a_contender_is_timed_after_calls_of_its_own(timed: list[str]) -> None:
    calls_per_block, blocks, warm_calls = 16, 3, 60
    for name, count in measured(timed, "ab", 2):
        assert name == "copy" or abs(count - blocks * calls_per_block - warm_calls) <= 1


def test_every_contender_has_a_time_in_every_round(timed: list[str]) -> None:
    calls = {name: lambda name=name: timed.append(name) for name in "ab"}
    found = measure(CASE, DataType.FP64, calls, 3, 1, 16)
    for times in found.seconds.values():
        assert times == pytest.approx([_CALL_SECONDS] * 3)


@pytest.mark.usefixtures("timed")
def test_where_nobody_is_right_the_peaks_alone_are_measured() -> None:
    found = measure(CASE, DataType.FP32, {}, 3, 1, 0)
    assert found.seconds == {}
    assert len(found.flops_peaks) == 3
