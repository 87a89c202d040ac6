"""Batches of matrices times vectors, in the order in which the matrices lie.

    out[b, c, a] = sum of A[b, c, a, k] * v[k, c]:
    loops over c, b; leaf M=[a] K=[k]  =>  loops over b, c; leaf M=[a] K=[k]

Batches are the outermost loops of a product, for what one needs is met again and again; of a matrix
times a vector nothing is, and what counts is how the matrix is read from memory. Measured on Zen 4,
drawn ones in FP32 and FP64: 0.33 to 1.15 of the time, 0.8 in the mean.
"""

from __future__ import annotations

from msgspec.structs import replace

from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of, outermost_first
from teir.target import LINE_BYTES

_FEWEST_PRODUCTS = 256
"""Products of a leaf from which another loop between it and the next rows costs little: fewer took
up to 2.5 times as long."""
_FEWEST_BESIDE = 16
"""The same where batches share the lines of the matrix, each of which would be read once for each:
0.2 to 0.9 of the time."""


def as_matrix_lies(shape: ProductShape, machine: Machine) -> ProductShape:
    """The shape, which has no columns, with the loops over rows that lie outside of its batches in
    A outside of them; the same object where there are no such rows, or the second cache holds A."""
    if shape.m is None or not shape.c or not shape.m_outer:
        return shape
    matrix = shape.a
    nearest = min(axis.stride(matrix.name) for axis in shape.c)
    outside = tuple(axis for axis in shape.m_outer if axis.stride(matrix.name) > nearest)
    products = shape.m.extent * extent_of(shape.k)
    fewest = _FEWEST_BESIDE if nearest < LINE_BYTES else _FEWEST_PRODUCTS
    if not outside or products < fewest:
        return shape
    elements = products * extent_of((*shape.c, *shape.m_outer))
    if elements * matrix.data_type.width <= machine.l2_bytes:
        return shape
    return replace(
        shape,
        c=outermost_first((*shape.c, *outside), matrix),
        m_outer=tuple(axis for axis in shape.m_outer if axis not in outside),
    )
