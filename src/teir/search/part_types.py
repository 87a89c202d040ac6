"""The types of intermediates: narrow numbers are summed in FP32 and rounded once.

    out = sum_d B[f, d] * A[b, f, e]      ->      part[f] = sum_d B[f, d], in FP32; out = part A

An intermediate of BF16 or FP16 factors is kept in FP32, so that neither its rounding nor the narrow
range of FP16 is seen in the result. One exception: a product whose result is a factor of a product
of BF16 matrices that are not small is rounded to BF16, whose range is that of FP32; in FP32 that
product would take twice as long where an instruction multiplies BF16, and sixteen times with tile
registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from teir.dtypes import DataType
from teir.search.arrange import Arranged
from teir.search.contraction import Contraction
from teir.search.meetings import Given

_SMALL = 32
"""Rows, columns and terms of a sum below which a product of matrices is a small one."""


def part_types(nodes: Iterable[Arranged], contraction: Contraction) -> dict[int, DataType]:
    """The type of every node's result, by the node's identity; ``nodes``: the root first, each
    before its parts."""
    compute, types = contraction.compute, dict[int, DataType]()
    for node in nodes:
        own = types.setdefault(id(node), compute)
        for part in node.parts:
            if not isinstance(part, Given):
                types[id(part)] = _part_type(part, node, own, contraction)
    return types


def _part_type(part: Arranged, node: Arranged, own: DataType, contraction: Contraction) -> DataType:
    """The type of a part of ``node``, whose result is of type ``own``."""
    compute = contraction.compute
    if not compute.is_narrow or isinstance(_source(part), Given):
        return compute
    if _is_copy(node):
        return own
    sources = map(_source, node.parts)
    is_rounded = (
        compute is DataType.BF16
        and _multiplies_matrices(node, contraction.extents)
        and not any(isinstance(one, Arranged) and len(one.parts) == 1 for one in sources)
    )
    return compute if is_rounded else compute.accumulator


def _source(part: Given | Arranged) -> Given | Arranged:
    """What the part holds, before it was copied into another order or type."""
    while isinstance(part, Arranged) and _is_copy(part):
        part = part.parts[0]
    return part


def _is_copy(node: Arranged) -> bool:
    return len(node.parts) == 1 and set(node.parts[0].order).issubset(node.order)


def _multiplies_matrices(node: Arranged, extents: Mapping[str, int]) -> bool:
    """True for products of matrices that are not small, one or a batch of them."""
    if len(node.parts) != 2:
        return False
    one, two = (set(part.order) for part in node.parts)
    kept = set(node.order)
    sides = ((one - two) & kept, (two - one) & kept, (one & two) - kept)
    return all(prod(map(extents.__getitem__, side)) >= _SMALL for side in sides)
