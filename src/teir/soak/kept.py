"""Results of items on disk: a soak that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A file with a line for every item that went well: its key, result, and seconds.

    The key of an item holds all that decides its result, so that no figure mixes results of
    different code.
    """

    path: Path
    key: Callable[[int], str]

    def results(self) -> dict[str, tuple[dict[str, Any], float]]:
        """Result and seconds by key. A line that was cut off when the soak was stopped is none."""
        if not self.path.exists():
            return {}
        found = {}
        for line in self.path.read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                record = json.loads(line)
                found[record["key"]] = record["result"], record["seconds"]
        return found

    def add(self, key: str, result: Mapping[str, Any], seconds: float) -> None:
        """Keep the result of an item, which took ``seconds``, unless something is wrong in it."""
        if result.get("wrong"):
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        record = {"key": key, "seconds": round(seconds, 3), "result": result}
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" + json.dumps(record))
