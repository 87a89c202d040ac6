"""The order in which the steps of a tree run: the one whose results wait in least memory.

Of two subtrees the one whose working memory is larger runs first, so that the results that wait for
each other are few.
"""

from __future__ import annotations

import msgspec

from teir.dtypes import DataType
from teir.search.arrange import Arranged
from teir.search.contraction import Contraction, dense_strides
from teir.search.meetings import Given
from teir.search.part_types import part_types


class Planned(msgspec.Struct, frozen=True, gc=False):
    """A step, the places of its parts in the order they are computed, and the bytes that takes.

    ``data_type`` is that of the result; ``peak_bytes`` counts the intermediates alive at once, the
    step's own result among them.
    """

    parts: tuple[Given | Planned, ...]
    order: tuple[str, ...]
    data_type: DataType
    sequence: tuple[int, ...]
    size_bytes: int
    peak_bytes: int


def planned(root: Arranged, contraction: Contraction) -> Planned:
    """The parts of every step in the order that needs the least memory."""
    found: list[Arranged] = []
    waiting = [root]
    while waiting:
        found.append(waiting.pop())
        waiting += [part for part in found[-1].parts if isinstance(part, Arranged)]
    types = part_types(found, contraction)
    made: dict[int, Planned] = {}
    for node in reversed(found):
        parts = tuple(part if isinstance(part, Given) else made[id(part)] for part in node.parts)
        made[id(node)] = _sequenced(parts, node.order, types[id(node)], contraction)
    return made[id(root)]


def _sequenced(
    parts: tuple[Given | Planned, ...],
    order: tuple[str, ...],
    data_type: DataType,
    contraction: Contraction,
) -> Planned:
    size = dense_strides(order, contraction.extents, data_type.width)[1]
    sizes = [0 if isinstance(part, Given) else part.size_bytes for part in parts]
    peaks = [0 if isinstance(part, Given) else part.peak_bytes for part in parts]
    if len(parts) == 1:
        return Planned(parts, order, data_type, (0,), size, max(peaks[0], sizes[0] + size))
    below = [max(peaks[0], sizes[0] + peaks[1]), max(peaks[1], sizes[1] + peaks[0])]
    first = below.index(min(below))
    peak = max(min(below), sum(sizes) + size)
    return Planned(parts, order, data_type, (first, 1 - first), size, peak)


def in_turn(root: Planned) -> list[Planned]:
    """Every step after its parts, the parts in their sequence; the root last."""
    found: list[Planned] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        parts = [node.parts[place] for place in node.sequence]
        waiting += [part for part in parts if isinstance(part, Planned)]
    return found[::-1]
