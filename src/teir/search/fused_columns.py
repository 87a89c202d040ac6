"""Steps that run together for a few columns of the largest of them, whose rows stand packed.

    T0 = A B                      T0 = A B
    T1 = C D                      P = T0, packed
    out = T0 T1            ->     for i, j {
                                      T1 = C D             in i, j
                                      out = P T1           in i, j }

`teir.search.fused_steps` keeps what all blocks read in the caches as it lies, and asks for one
index. Here the rows T0 are many, so they are laid in panels once, and the columns T1 of one
iteration are so few that the second cache holds them beside a panel: every index of the loops is
taken one by one, but the last in blocks. The intermediate T1 never exists as a whole. No sum
changes its order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from teir.search.contraction import Contraction, dense_strides
from teir.search.fused_steps import LARGE, FusedSteps, products_of
from teir.search.machine import Machine
from teir.search.meetings import Given
from teir.search.sequence import Planned, in_turn
from teir.search.standing_rows import SHORTEST_SUM

_FEWEST_COLUMNS = 16
"""Columns below which rows come from the third cache faster than they are used."""
_FEWEST_ROWS = 256
"""Rows from which little is left over beside whole panels."""
_STANDING = 8
"""Sizes of the second cache that the third holds of rows that every iteration reads."""
_PART = 4
"""A block of columns takes this part of the second cache at most, to lie there beside a panel."""
_REST = 1 / 8
"""The share of the products that the other steps inside may form: their kernels run on less."""


def fused_columns(root: Planned, contraction: Contraction, machine: Machine) -> FusedSteps | None:
    """Loops over the outermost indices of the columns, none where some step does not fit them.

    One thread alone: several would share each block. Measured where the third cache is near only.
    """
    if machine.threads > 1 or machine.has_far_third_cache:
        return None
    nodes = in_turn(root)
    largest = max(nodes, key=lambda node: products_of(node, contraction))
    if len(largest.parts) < 2:
        return None
    for rows, columns in (largest.parts, largest.parts[::-1]):
        if isinstance(columns, Given) or columns.size_bytes < LARGE * machine.l2_bytes:
            continue
        if _are_rows(rows, columns, contraction, machine):
            return _blocks(columns, largest, nodes, contraction, machine)
    return None


def _are_rows(
    rows: Given | Planned, columns: Planned, contraction: Contraction, machine: Machine
) -> bool:
    """True for many rows of long sums, no batches, that the third cache holds."""
    extents, width = contraction.extents, contraction.compute.width
    size = dense_strides(rows.order, extents, width)[1]
    summed = prod(extents[index] for index in rows.order if index in columns.order)
    count = prod(extents[index] for index in rows.order) // summed
    is_long = count >= _FEWEST_ROWS and summed >= SHORTEST_SUM
    return is_long and size <= _STANDING * machine.l2_bytes


def _blocks(
    columns: Planned,
    largest: Planned,
    nodes: Sequence[Planned],
    contraction: Contraction,
    machine: Machine,
) -> FusedSteps | None:
    """The indices of the columns, outermost first, until what is left of them is near."""
    extents, most = contraction.extents, machine.l2_bytes // _PART
    size, blocks = columns.size_bytes, []
    left = prod(extents[index] for index in columns.order if index in largest.order)
    for index in contraction.output.order:
        if index not in columns.order or size <= most:
            continue
        block = max(1, most * extents[index] // size)
        size, left = size * block // extents[index], left * block // extents[index]
        blocks.append((index, block))
    fused = FusedSteps(tuple(blocks))
    if size > most or left < _FEWEST_COLUMNS or not fused.blocks:
        return None
    inside = [node for node in nodes if fused.takes(node)]
    rest = sum(products_of(node, contraction) for node in inside if node is not largest)
    is_small = rest <= _REST * products_of(largest, contraction)
    return fused if is_small and all(_fits(fused, node) for node in inside) else None


def _fits(fused: FusedSteps, node: Planned) -> bool:
    """True for a step of every index whose lanes stay whole, and that repeats no products."""
    if not fused.indices.issubset(node.order) or node.order[-1] in fused.indices:
        return False
    first, *others = node.parts
    return not any(one in node.order for part in others for one in part.order if one in first.order)
