"""Decisions as metadata: which kernel a primitive gets, and how it is cut.

    primitive gemm = Contraction ... with {"cuda": {"kernel": "warpgroup", "tile": [128, 256, 64],
                                                    "stages": 4, "cluster": 1,
                                                    "stores": "tiles"}}

`plan` writes the entry where there is none and follows it where there is one; `teir show` prints
it. ``tile`` is rows, columns and depth of one stage, ``stores`` how sums reach memory: "tiles" or
"registers".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from teir.backends.cuda.kernel import Family
from teir.backends.cuda.rules import DECISION, blame
from teir.backends.cuda.tile_stores import Stores
from teir.errors import Part
from teir.ir.nodes import Primitive, Program

CUDA = "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The entry as a value.

    ``tile``, ``stages`` and ``stores`` may be empty, 0 and None: the kernel's own.
    """

    kernel: Family
    tile: tuple[int, ...] = ()
    stages: int = 0
    cluster: int = 1
    stores: Stores | None = None

    def text(self) -> str:
        """The entry's JSON text."""
        entry: dict[str, Any] = {"kernel": self.kernel.value}
        if self.tile:
            entry["tile"] = list(self.tile)
        if self.stages:
            entry["stages"] = self.stages
        if self.cluster != 1:
            entry["cluster"] = self.cluster
        if self.stores is not None:
            entry["stores"] = self.stores.value
        return json.dumps(entry)


def decision_of(primitive: Primitive) -> Decision | None:
    """The decision a primitive carries, None where it has none. Raises TeirError (TEIR728)."""
    text = dict(primitive.metadata).get(CUDA)
    if text is None:
        return None
    entry = json.loads(text)
    known = {"kernel", "tile", "stages", "cluster", "stores"}
    try:
        if not isinstance(entry, dict) or set(entry) - known:
            raise ValueError(text)
        return Decision(
            kernel=Family(entry["kernel"]),
            tile=tuple(map(_positive, entry.get("tile", ()))),
            stages=_positive(entry["stages"]) if "stages" in entry else 0,
            cluster=_positive(entry.get("cluster", 1)),
            stores=Stores(entry["stores"]) if "stores" in entry else None,
        )
    except (KeyError, TypeError, ValueError):
        names = ", ".join(family.value for family in Family)
        return blame(DECISION, Part.PRIMITIVE, primitive.name, f"a kernel of {names}", text)


def with_decision(program: Program, primitive: str, decision: Decision) -> Program:
    """``program`` with the decision in the metadata of one primitive."""
    primitives = []
    for one in program.primitives:
        if one.name == primitive:
            entries = dict(one.metadata) | {CUDA: decision.text()}
            one = replace(one, metadata=tuple(sorted(entries.items())))
        primitives.append(one)
    return replace(program, primitives=tuple(primitives))


def _positive(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(value)
    return value
