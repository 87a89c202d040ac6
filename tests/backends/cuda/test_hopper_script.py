"""The script for the first day with a GPU: its plans, its children, without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from backends.cuda.disassembly import need_compiler
from teir.backends.cuda.compiler import compile_source
from teir.backends.cuda.plan import plan

FOLDER = Path(__file__).parents[3] / "benchmarks"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="no benchmarks in this checkout")


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder's modules; its ``cases`` bears the name of a package of the tests."""
    ours = sys.modules.pop("cases", None)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    sys.modules.pop("cases", None)
    if ours is not None:
        sys.modules["cases"] = ours


def test_every_item_has_a_plan() -> None:
    from hopper_parts import PARTS

    for part, items in PARTS.items():
        names = [item.name for item in items()]
        assert len(set(names)) == len(names) > 0, part
        for item in items():
            for program in item.programs():
                assert plan(program).kernels, item.name


def test_the_probes_compile() -> None:
    need_compiler()
    from hopper_parts import PARTS

    sources = {source for item in PARTS["probes"]() for source in item.sources()}
    assert len(sources) == 2
    for source in sources:
        assert compile_source(source, "probe").cubin


def test_a_dry_run_needs_no_gpu(tmp_path: Path) -> None:
    result = tmp_path / "made" / "hopper.json"
    command = [sys.executable, str(FOLDER / "hopper.py"), "--dry-run", "--only", "facts"]
    subprocess.run([*command, "--result", str(result)], check=True, capture_output=True)
    found = json.loads(result.read_text())
    assert found["facts"]["device"]["kernels"] == []
    assert found["bars"] == {"wrong or failed": []}


CHILD = """
import json, sys, time
for at in range(int(sys.argv[1]), 4):
    if at == 1: time.sleep(60)
    if at == 2: sys.exit("broken")
    print(json.dumps({"item": at}), flush=True)
"""


def test_a_child_that_hangs_or_breaks_costs_one_item() -> None:
    from hopper import collect

    def command(first: int) -> Sequence[str]:
        return [sys.executable, "-c", CHILD, str(first)]

    later = time.monotonic() + 60
    found = dict(collect(list("abcd"), command, later, start_s=5, item_s=0.2))
    assert found["a"] == {"item": 0}
    assert found["b"] == {"failed": "no end after 0 s"}
    assert found["c"]["failed"].endswith("broken")
    assert found["d"] == {"item": 3}
    assert dict(collect(list("ab"), command, time.monotonic() - 1)) == {
        "a": {"not measured": "no time left"},
        "b": {"not measured": "no time left"},
    }


def test_bars_are_judged() -> None:
    from hopper import bars

    gemm = {
        "mk,nk->mn 4096": {"ratio": 0.72},
        "mk,nk->mn 4096 columns 256 cluster 2": {"ratio": 0.9},
    }
    copies = {"turned a": {"of_copy": 0.7}, "turned b": {"failed": "no end"}}
    found = bars({"gemm": gemm, "permutations": copies})
    assert found["gemm without clusters, of torch"]["met"]
    assert found["gemm, of torch"] == {"bar": 0.85, "least": 0.9, "met": True}
    assert not found["turned permutations, of a copy"]["met"]
    assert found["wrong or failed"] == ["permutations: turned b"]
