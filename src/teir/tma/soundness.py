"""Random transfers by the thousand: what was inferred, run on bytes, against the schedule itself.

Checked of every transfer with a legal tensor map: the walk of the descriptor equals the walk of the
schedule; strong correctness is what an exhaustive walk finds; predicates leave no data in holes and
lose no valid item.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from teir.tma.check import check
from teir.tma.correctness import (
    StrongCorrectness,
    classify,
    is_protected_throughout,
    predicate_values,
    predicates,
)
from teir.tma.dimensions import tile_elements
from teir.tma.draw import draw_transfer
from teir.tma.emulate import compare_walks, whole_tile
from teir.tma.inference import Inferred
from teir.tma.nodes import Transfer
from teir.tma.walk import Walk, tile_count, walk

MOST_TILES = 64
MOST_ELEMENTS = 2**18


@dataclass(frozen=True, slots=True, kw_only=True)
class Soundness:
    """How many transfers were drawn and compared, and those that disagree, with the reason."""

    drawn: int
    compared: int
    elements: int
    classes: tuple[tuple[StrongCorrectness, int], ...]
    wrong: tuple[tuple[Transfer, str], ...]


def measure_soundness(compared: int, seed: int) -> Soundness:
    """Draw until ``compared`` transfers with a legal tensor map have been looked at."""
    generator = random.Random(seed)
    drawn = done = elements = 0
    classes = dict.fromkeys(StrongCorrectness, 0)
    wrong: list[tuple[Transfer, str]] = []
    while done < compared:
        drawn += 1
        report = check(draw_transfer(generator))
        inferred = report.inferred
        if inferred is None or not report.ok:
            continue
        if tile_count(inferred) * tile_elements(inferred.dimensions) > MOST_ELEMENTS:
            continue
        done += 1
        agreement = compare_walks(inferred, MOST_TILES)
        elements += agreement.elements
        if not agreement.holds:
            wrong.append((report.transfer, str(agreement)))
        classes[classify(inferred)] += 1
        wrong += [(report.transfer, reason) for reason in _wrong_classes(inferred)]
    return Soundness(
        drawn=drawn,
        compared=done,
        elements=elements,
        classes=tuple(classes.items()),
        wrong=tuple(wrong),
    )


def _wrong_classes(inferred: Inferred) -> list[str]:
    """What is said of strong correctness and an exhaustive walk contradicts."""
    walked = walk(inferred, np.arange(tile_count(inferred), dtype=np.int64))
    valid, inside = whole_tile(walked, walked.valid), whole_tile(walked, walked.in_bounds)
    data_holes = inside & ~valid
    straddled = bool((data_holes.any(axis=1) & valid.any(axis=1)).any())
    said = classify(inferred)
    found: list[str] = []
    if (valid & ~inside).any():
        found.append("a valid item is out of bounds: not even weakly correct")
    if said is StrongCorrectness.AUTOMATIC and data_holes.any():
        found.append("called automatic, but holes hold data")
    if is_protected_throughout(inferred) and data_holes.any():
        found.append("called protected, but holes hold data")
    if said is not StrongCorrectness.UNACHIEVABLE and straddled:
        found.append("a tile straddles valid items and holes with data, theorem not applied")
    if said is StrongCorrectness.NEEDS_PREDICATE:
        found += _wrong_predicates(walked)
    return found


def _wrong_predicates(walked: Walk) -> list[str]:
    valid = whole_tile(walked, walked.valid)
    data_holes = whole_tile(walked, walked.in_bounds) & ~valid
    issued = predicate_values(walked, predicates(walked.inferred))
    found: list[str] = []
    if data_holes[issued].any():
        found.append("the predicates leave data in holes")
    if valid[~issued].any():
        found.append("the predicates lose valid items")
    return found
