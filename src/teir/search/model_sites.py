"""How long small matrices along sites take: a part of `teir.search.model`."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from teir.ir.nodes import Axis, Operation
from teir.ir.subnormals import flushes_subnormals
from teir.passes.sites import PAIR_TYPE, Sites, Walk, sites_of
from teir.search.machine import Machine
from teir.search.sites import has_sites
from teir.search.traffic import Leaf

_PERMUTED = 0.5
"""The share of multiply-adds beside the permutations that make their factors."""


def sites_of_leaf(leaf: Leaf, machine: Machine) -> Sites | None:
    """The sites that a Contraction forms; None where another kernel serves."""
    primitive = leaf.primitive
    types = [leaf.types[name] for name in (*primitive.inputs, primitive.output)]
    is_alike = len(types) == 3 and len(set(types)) == 1 and has_sites(types[0], machine)
    if primitive.operation is not Operation.CONTRACTION or not is_alike:
        return None
    if types[0] is PAIR_TYPE and not flushes_subnormals(primitive):
        return None
    width = types[0].width
    for wide, matrix in (primitive.inputs, primitive.inputs[::-1]):
        free = [axis for axis in leaf.tile if axis.strides[primitive.output]]
        rows = [axis for axis in free if axis.strides[wide]]
        if any(axis.strides[matrix] for axis in rows):
            return None
        columns = [axis for axis in free if not axis.strides[wide]]
        sums = [axis for axis in leaf.tile if not axis.strides[primitive.output]]
        walks = (_walks(axes, wide, primitive.output) for axes in (rows, columns, sums))
        along_rows, along_columns, along_sums = walks
        found = sites_of(along_rows, along_columns, along_sums, width, machine.lanes(width))
        if found is not None:
            return found
    return None


def sites_seconds(leaf: Leaf, sites: Sites, machine: Machine, peak: float) -> float:
    """Seconds of arithmetic at so many operations a second."""
    data_type = leaf.types[leaf.primitive.output]
    products = leaf.trips * prod(axis.extent for axis in leaf.tile)
    filled = sites.count * sites.c_elements / machine.lanes(data_type.width)
    return 2 * products * (4 if data_type.is_complex else 1) / (peak * filled * _PERMUTED)


def _walks(axes: Iterable[Axis], wide: str, out: str) -> list[Walk]:
    return [Walk(axis.extent, axis.strides[wide], axis.strides[out]) for axis in axes]
