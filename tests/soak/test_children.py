"""Crashes, hangs and exceptions in children are results."""

from __future__ import annotations

import os
import signal
import time
from itertools import groupby
from typing import Any

from teir.soak.children import Died, Done, Failed, Hung, in_children


def _work(item: int) -> dict[str, Any]:
    match item:
        case 3:
            os.kill(os.getpid(), signal.SIGSEGV)
        case 5:
            time.sleep(60)
        case 6:
            raise ValueError("six")
        case 8:
            os._exit(0)
    return {"square": item * item}


def test_every_item_has_one_outcome() -> None:
    outcomes = {o.item: o for o in in_children(_work, range(10), jobs=2, seconds=1.0)}
    assert sorted(outcomes) == list(range(10))
    assert outcomes.pop(3) == Died(item=3, signal_number=signal.SIGSEGV)
    assert outcomes.pop(5) == Hung(item=5, seconds=1.0)
    failed = outcomes.pop(6)
    assert isinstance(failed, Failed)
    assert "ValueError: six" in failed.error
    assert outcomes.pop(8) == Died(item=8, signal_number=None)
    assert all(outcomes[item] == Done(item=item, result={"square": item**2}) for item in outcomes)


def test_no_items_no_children() -> None:
    assert list(in_children(_work, [], jobs=3, seconds=1.0)) == []


def _slow_first(item: int) -> dict[str, Any]:
    if item == 0:
        time.sleep(0.5)
    return {"process": os.getpid()}


def test_neighbours_are_done_by_one_child_and_the_last_ones_by_whoever_is_free() -> None:
    outcomes = list(in_children(_slow_first, range(40), jobs=2, seconds=10.0))
    done = sorted((o.item, o.result["process"]) for o in outcomes if isinstance(o, Done))
    assert [item for item, _ in done] == list(range(40))
    changes = [process for process, _ in groupby(process for _, process in done)]
    assert len(changes) == 2
    assert sum(process == done[0][1] for _, process in done) < 20
