"""The day a Hopper GPU is at hand: probes, correctness, speed, in the order of importance.

    python benchmarks/hopper.py                  all of it, at most 28 minutes
    python benchmarks/hopper.py --dry-run        plans and compiles everything, needs no GPU
    python benchmarks/hopper.py --only gemm --only tccg

Needs PyTorch with CUDA beside teir[cuda]; runs from a checkout. Items run in a child process, each
with a timeout: one that hangs or breaks the context ends with its child, and a new one goes on
with the next. ``results/hopper.json`` is written after every item; what failed, what was not
reached and which bars were met is said there.

    facts        the device, the driver, what the driver's encoder accepts
    probes       bytes a load counts out of bounds, rounding of TF32, zero and descending strides
    families     small programs of every kernel family, against torch
    cases        tests/cases on the GPU, bit for bit
    permutations speed beside a device copy           (bars: 95 % and, turned, 80 %)
    gemm         BF16 4096 and 8192 beside torch      (bars: 85 %, 70 % without clusters)
    tccg         the TCCG contractions beside torch.einsum (bar: 1.5 times, geometric mean)
    sanitizer    compute-sanitizer over the families, where it is installed
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from hopper_parts import PARTS, Item  # noqa: E402

from teir.backends.cuda.compiled import compile_program  # noqa: E402
from teir.backends.cuda.compiler import compile_source  # noqa: E402
from teir.backends.cuda.driver import find_driver  # noqa: E402
from teir.errors import TeirError  # noqa: E402

RESULT = HERE / "results" / "hopper.json"
START_S, ITEM_S = 90.0, 20.0
"""A child may take so long until its first item is done, and for every further one."""
LONG_ITEM_S = {"sanitizer": 170.0}
"""Parts whose items take longer, each under its own limit."""
MINUTES = 28.0
Facts = dict[str, Any]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--only", action="append", choices=list(PARTS))
    options.add_argument("--result", type=Path, help="a JSON file; a dry run has none by default")
    options.add_argument("--minutes", type=float, default=MINUTES)
    options.add_argument("--dry-run", action="store_true")
    options.add_argument("--child", choices=list(PARTS), help=argparse.SUPPRESS)
    options.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.child:
        run_items(PARTS[chosen.child]()[chosen.first :], chosen.dry_run)
        return
    if not chosen.dry_run:
        try:
            find_driver()
        except TeirError as error:
            sys.exit(str(error))
    result: Path | None = chosen.result or (None if chosen.dry_run else RESULT)
    deadline = time.monotonic() + chosen.minutes * 60
    found: Facts = json.loads(result.read_text()) if result and result.exists() else {}
    found["dry run"] = chosen.dry_run
    for part in chosen.only or PARTS:
        found[part] = {}
        names = [item.name for item in PARTS[part]()]
        command = [sys.executable, __file__, "--child", part]
        command += ["--dry-run"] if chosen.dry_run else []
        limits = (max(START_S, LONG_ITEM_S.get(part, 0.0)), LONG_ITEM_S.get(part, ITEM_S))
        for name, facts in collect(names, partial(beginning_with, command), deadline, *limits):
            found[part][name] = facts
            print(part, name, json.dumps(facts), flush=True)
            write(found, result)
    found["bars"] = bars(found)
    print("bars", json.dumps(found["bars"], indent=1))
    write(found, result)


def beginning_with(command: Sequence[str], first: int) -> list[str]:
    return [*command, "--first", str(first)]


def write(found: Facts, path: Path | None) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def run_items(items: Sequence[Item], dry_run: bool) -> None:
    """A child: one line of JSON per item; it ends after one that fails, for its context may too."""
    for item in items:
        try:
            facts = prepared(item) if dry_run else item.measure()
        except Exception as error:
            print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:1500]}), flush=True)
            return
        print(json.dumps(facts), flush=True)


def prepared(item: Item) -> Facts:
    """The kernels of an item, compiled."""
    compiled = [compile_program(program) for program in item.programs()]
    probes = [compile_source(source, "probe") for source in item.sources()]
    code = [*(one for each in compiled for one in each.code), *probes]
    names = [one.family.value for each in compiled for one in each.planned.kernels]
    return {
        "kernels": names + ["probe"] * len(probes),
        "cubin_bytes": [len(one.cubin) for one in code],
        "spilled_bytes": max((one.spilled_bytes for one in code), default=0),
    }


def collect(
    names: Sequence[str],
    command: Callable[[int], Sequence[str]],
    deadline: float,
    start_s: float = START_S,
    item_s: float = ITEM_S,
) -> Iterator[tuple[str, Facts]]:
    """What children find of the items ``names``; ``command(at)`` begins with item ``at``.

    A child that is late is killed, one that fails or ends is replaced; both cost one item.
    """
    at = 0
    while at < len(names):
        with Child(command(at)) as child:
            limit = start_s
            while at < len(names):
                left = deadline - time.monotonic()
                if left <= 0:
                    yield from ((name, {"not measured": "no time left"}) for name in names[at:])
                    return
                facts = child.answer(min(limit, left))
                yield names[at], facts
                at, limit = at + 1, item_s
                if "failed" in facts:
                    break


class Child:
    """A process that prints one line of JSON per item."""

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process and what it started: a sanitizer runs the items in one of its own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()

    def answer(self, limit_s: float) -> Facts:
        """The next item's facts, or why there are none."""
        try:
            line = self._lines.get(timeout=limit_s)
        except queue.Empty:
            return {"failed": f"no end after {limit_s:.0f} s"}
        if line is None:
            code = self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().strip()[-1500:]
            return {"failed": f"the process ended with {code}: {said}"}
        try:
            facts: Facts = json.loads(line)
        except ValueError:
            return {"failed": f"no JSON: {line[:200]!r}"}
        return facts


def bars(found: Mapping[str, Any]) -> Facts:
    """Every bar: its figure where it was measured, and whether it is met."""

    def values(part: str, key: str, *words: str) -> list[float]:
        items = found.get(part, {}).items()
        return [
            facts[key]
            for name, facts in items
            if facts.get(key) is not None and all(word in name for word in words)
        ]

    gemm = {name: facts for name, facts in found.get("gemm", {}).items() if "ratio" in facts}
    alone = {name: facts for name, facts in gemm.items() if "cluster" not in name}

    def best_of_each(items: Mapping[str, Any]) -> list[float]:
        """The best way found of every expression and size, the first two words of a name."""
        starts = sorted({" ".join(name.split()[:2]) for name in items})
        return [
            max(facts["ratio"] for name, facts in items.items() if name.startswith(start))
            for start in starts
        ]

    figures = {
        "adjacent permutations, of a copy": (values("permutations", "of_copy", "adjacent"), 0.95),
        "turned permutations, of a copy": (values("permutations", "of_copy", "turned"), 0.80),
        "gemm without clusters, of torch": (best_of_each(alone), 0.70),
        "gemm, of torch": (best_of_each(gemm), 0.85),
    }
    answer: Facts = {
        name: {"bar": bar, "least": min(seen), "met": min(seen) >= bar}
        for name, (seen, bar) in figures.items()
        if seen
    }
    for kind in ("FP32", "TF32", "BF16"):
        seen = values("tccg", "ratio", kind)
        if seen:
            mean = statistics.geometric_mean(seen)
            answer[f"tccg {kind}, times torch.einsum"] = {
                "bar": 1.5,
                "geometric mean": mean,
                "met": mean >= 1.5,
            }
    wrong = [
        f"{part}: {name}"
        for part in PARTS
        for name, facts in found.get(part, {}).items()
        if facts.get("right") is False or "failed" in facts
    ]
    return answer | {"wrong or failed": wrong}


if __name__ == "__main__":
    main()
