"""The eight kernels of the paper with their published counts and constraints."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from teir.arrays.levels import Format, Level
from teir.expr.index_notation_parsing import parse_index_notation
from teir.search.sparse.statement import Statement, statement_of

_FILE = Path(__file__).parent / "golden.json"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A row of the table: schedules after every stage, constraints of stage 3."""

    name: str
    statement: Statement
    counts: tuple[int, int, int, int]
    classes: int
    constraints: tuple[str, ...]


def load_kernels() -> dict[str, Kernel]:
    records = json.loads(_FILE.read_text(encoding="utf-8"))["kernels"]
    kernels = {}
    for name, record in records.items():
        assignment = parse_index_notation(record["expr"])
        accesses = {"A": assignment.output, **assignment.inputs}
        formats = {}
        for tensor, sparse in record["sparse"].items():
            indices = accesses[tensor].indices
            levels = tuple(
                Level.COMPRESSED if place and index in sparse else Level.DENSE
                for place, index in enumerate(indices)
            )
            formats[tensor] = Format(levels=levels, mode_order=tuple(range(len(indices))))
        kernels[name] = Kernel(
            name=name,
            statement=statement_of(assignment, formats),
            counts=tuple(record["fixed"]),
            classes=record["classes_stage3"],
            constraints=tuple(record["constraints"]),
        )
    return kernels


KERNELS = load_kernels()
