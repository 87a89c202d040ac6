"""The layer over the driver, on a driver that writes down what it is asked (``fake_driver.c``)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from backends.cuda.disassembly import need_compiler
from teir.backends.cuda.spin import SPIN_NS

HERE = Path(__file__).parent
STREAM, PRODUCER = 0x5000, 0x6000
Call = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The JSON the process printed, one value after the other, and its driver's calls in order."""

    answers: Sequence[Any]
    calls: Sequence[Call]

    def named(self, *names: str) -> list[Call]:
        return [call for call in self.calls if call["call"] in names]


Run = Callable[..., Ran]


def documents(text: str) -> Iterator[Any]:
    while text := text.lstrip():
        value, end = json.JSONDecoder().raw_decode(text)
        yield value
        text = text[end:]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the fake driver")
    need_compiler()
    path = tmp_path_factory.mktemp("driver") / "libfake.so"
    source = str(HERE / "fake_driver.c")
    subprocess.run((compiler, "-shared", "-fPIC", source, "-o", str(path)), check=True)
    return path


@pytest.fixture
def ran(library: Path, tmp_path: Path) -> Run:
    def run(name: str, capability: int = 9) -> Ran:
        log = tmp_path / "calls"
        log.touch()
        environment = os.environ | {
            "PYTHONPATH": str(HERE.parents[1]),
            "TEIR_FAKE_LOG": str(log),
            "TEIR_FAKE_CAPABILITY": str(capability),
        }
        script = str(HERE / "fake_driver_runs.py")
        command = (sys.executable, script, name, str(tmp_path), str(library))
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return Ran(
            answers=list(documents(done.stdout)),
            calls=[json.loads(line) for line in log.read_text().splitlines()],
        )

    return run


def test_a_product_is_launched(ran: Run) -> None:
    """Maps and grid as planned, on the caller's stream; producers are told of it."""
    found = ran("run_product")
    (answer,) = found.answers
    assert answer["told"] == [[STREAM, 1]] * 3
    assert answer["released"] == [2] * 3
    maps = found.named("map")
    assert [one["at"] for one in maps] == [0x100000, 0x200000, 0x300000] * 2
    assert [one["sizes"] for one in maps[:3]] == [[256, 512], [256, 512], [512, 512]]
    assert [one["strides"] for one in maps[:3]] == [[512], [512], [1024]]
    assert [one["box"] for one in maps[:3]] == [[64, 128], [64, 64], [64, 128]]
    assert all(one["element_strides"] == [1, 1] for one in maps)
    assert all((one["type"], one["modes"]) == (9, [0, 3, 3, 0]) for one in maps)
    launches = found.named("launch")
    assert [one["stream"] for one in launches] == [STREAM, 0]
    for at, launch in enumerate(launches):
        assert launch["parameters"] == [f"map {at * 3 + number}" for number in (1, 2, 3)]
        assert (launch["grid"], launch["block"]) == ([16, 1, 1], [384, 1, 1])
        assert launch["cluster"] == [2, 1, 1]
        assert launch["shared"] == answer["shared_bytes"]
    (allowed,) = found.named("shared")
    assert allowed["bytes"] == answer["shared_bytes"]
    assert [one["call"] for one in found.named("push", "pop")] == ["push", "pop"] * 2
    assert len(found.named("retain")) == 1


def test_work_under_way_is_waited_for(ran: Run) -> None:
    """The array interface names the stream of the last work: an event orders ours behind it."""
    found = ran("run_copies")
    assert found.answers[0]["families"] == ["turn-tiles"]
    first, second = found.named("launch")
    until = found.calls.index(first)
    ordered = [one for one in found.calls[:until] if one["call"] in ("event", "record", "wait")]
    assert ordered == [
        {"call": "event", "number": 1, "flags": 2},
        {"call": "record", "event": 1, "stream": PRODUCER},
        {"call": "wait", "stream": STREAM, "event": 1},
    ]
    assert found.named("destroy") == [{"call": "destroy", "event": 1}]
    assert first["parameters"] == ["map 1", 0x90000]
    assert (second["parameters"], second["stream"]) == ([0x80004, 0x90000], STREAM)
    assert second["cluster"] == []


def test_a_map_begins_where_its_operand_does(ran: Run) -> None:
    found = ran("run_offset")
    (described,), (launched,) = found.named("map"), found.named("launch")
    assert described["at"] == 0x80000 + 64
    assert launched["parameters"] == ["map 1", 0x90000]


def test_scratch_lives_on_the_stream(ran: Run) -> None:
    found = ran("run_scratch")
    (allocated,), (freed,) = found.named("allocate"), found.named("free")
    assert allocated["bytes"] == found.answers[0]["arena_bytes"] > 0
    assert (freed["at"], freed["stream"], allocated["stream"]) == (allocated["at"], STREAM, STREAM)
    order = [one["call"] for one in found.named("allocate", "launch", "free")]
    assert order == ["allocate", "launch", "launch", "free"]
    inside = range(allocated["at"], allocated["at"] + allocated["bytes"])
    assert [one["at"] in inside for one in found.named("map")] == [False, False, True, False]


def test_what_the_driver_refuses_is_said(ran: Run) -> None:
    (said,) = ran("refusals").answers
    assert said["devices"].startswith("TEIR726")
    assert said["no context"] == "TEIR727 error 201: no context"


def test_tuning_from_file_to_folder(ran: Run) -> None:
    """Three rounds to warm up, eleven that count, interleaved; here the last tried is quickest."""
    found = ran("tune")
    tuned, answer = found.answers
    trials = tuned["trials"]
    assert len(trials) >= 2
    measured = [one["call"] for one in found.named("record", "launch")]
    assert measured == ["launch", "record", "launch", "record"] * (14 * len(trials))
    spins, launches = (found.named("launch")[first::2] for first in (0, 1))
    assert {(one["name"], *one["parameters"]) for one in spins} == {("spin", SPIN_NS)}
    assert [one["function"] for one in launches] == list(range(2, len(trials) + 2)) * 14
    times = [trial["milliseconds"] for trial in trials]
    assert times == sorted(times, reverse=True)
    assert len(found.named("event")) == len(found.named("destroy")) == 2 * len(launches)
    assert len(found.named("copy in")) == len(found.named("allocate")) == 3
    assert len(found.named("free")) == 3
    assert {"program.teir", "kernel0.cubin", "kernel0.ptx", "kernels.json"} <= set(answer["files"])


def test_another_generation_is_refused(ran: Run) -> None:
    (answer,) = ran("none", capability=8).answers
    assert answer["said"] == "TEIR721 8.0, 8.0"
