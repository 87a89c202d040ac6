"""Results of items on disk: a soak that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import teir


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A file with a line for every item that went well: its number, result, and seconds.

    A change of any source of the package begins another file, so that no figure mixes results of
    different code.
    """

    path: Path

    @classmethod
    def of(cls, folder: Path, figure: str) -> Kept:
        """The file of ``figure``, which also names the effort, for the package as it is now."""
        return cls(path=folder / f"{figure}-{_source_digest()}.jsonl")

    def results(self) -> dict[int, tuple[dict[str, Any], float]]:
        """Result and seconds by item. A line that was cut off when the soak was stopped is none."""
        if not self.path.exists():
            return {}
        found = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                record = json.loads(line)
                found[record["item"]] = record["result"], record["seconds"]
        return found

    def add(self, item: int, result: Mapping[str, Any], seconds: float) -> None:
        """Keep the result of ``item``, which took ``seconds``, unless something is wrong in it."""
        if result.get("wrong"):
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        record = {"item": item, "seconds": round(seconds, 3), "result": result}
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(record))


def _source_digest() -> str:
    assert teir.__file__ is not None
    digest = hashlib.sha256()
    for path in sorted(Path(teir.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
