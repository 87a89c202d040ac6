"""Products of some long rows with some long rows: dots, a piece of all rows at a time.

    [parallel] batches {
        zero
        pieces { rows of one side { Contraction M=[rows of the other side] K=[piece] lanes } } }

Register blocks would leave most of their vectors empty, and one side would have to be turned. A
piece of the rows that are read again and again stays in the first cache. How long it is and how
many chains there are follows from the extents alone.
"""

from __future__ import annotations

from functools import partial

from teir.dtypes import DataType
from teir.ir.nodes import Operation, Tensor
from teir.passes.extents import even_block
from teir.search.dots import ROW_LANES_BYTES, lane_count
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import cut
from teir.search.shape import ProductShape, outermost_first, some
from teir.search.sharing import is_worth_sharing
from teir.search.step import Span

_MOST_DOTS = {DataType.FP32: 56, DataType.FP64: 40}
"""Dots up to which they take less time than turning one side: 0.14 to 0.9 of it on Golden Cove."""
_DEEP, _DEEP_IN_BATCHES = 256, 96
"""Products per result from which the sum over the lanes does not show; in batches every one has a
side to turn. Measured on Golden Cove, drawn batches: 0.57 of the time in the mean (FP32, 0.19 to
0.94) and 0.63 (FP64, 0.3 to 1.13); of 96 to 255 products 0.62 (up to 0.82) and 0.8 (up to 1.05).
"""
_NEAR_BYTES = 1 << 14
_GRANULE = 64
"""Products of a piece: a multiple of these."""
_TOGETHER, _TOGETHER_COST, _ALONE_COST = 4, 5, 4
"""Rows formed at once, and what that costs: as many loads as it needs, two a cycle. One alone waits
for its own sums."""


def are_row_dots(shape: ProductShape) -> bool:
    """True for few rows times few rows, adjacent along the one long sum."""
    a, b, out = shape.a, shape.b, shape.out
    if shape.m is None or shape.n is None or shape.m_outer or shape.n_outer:
        return False
    most = _MOST_DOTS.get(out.data_type, 0)
    if a.data_type is not out.data_type or shape.rows * shape.columns > most or len(shape.k) != 1:
        return False
    (k,) = shape.k
    is_along = k.stride(a.name) == k.stride(b.name) == out.data_type.width
    return is_along and k.extent >= (_DEEP_IN_BATCHES if shape.c else _DEEP)


def emit_row_dots(emission: Emission, shape: ProductShape, machine: Machine) -> Body:
    """The nodes of a step that `are_row_dots` recognised."""
    batches = outermost_first(shape.c, _larger(shape))
    return emission.loops(
        batches, partial(_dots, emission, shape), is_worth_sharing(shape, machine)
    )


def _dots(emission: Emission, shape: ProductShape) -> Body:
    """The dots of one batch."""
    assert shape.m is not None
    assert shape.n is not None
    (k,), out = shape.k, shape.out
    sides = ((shape.m, shape.n), (shape.n, shape.m))
    together, alone = min(sides, key=lambda pair: _cost(*pair))
    zero = emission.leaf(Operation.ZERO, (), out.name, Roles(m=(together,), n=(alone,)))

    def dots(piece: Span | None) -> Body:
        return emission.leaf(
            Operation.CONTRACTION,
            (shape.a.name, shape.b.name),
            out.name,
            Roles(m=(together,), k=some(piece)),
            data_type=shape.a.data_type,
            lanes=lane_count(ROW_LANES_BYTES, out.data_type, k),
        )

    most = _NEAR_BYTES // (together.extent * out.data_type.width)
    body = zero
    for piece in cut(k, even_block(k.extent, most, _GRANULE)):
        leaf = partial(dots, piece.tile)
        body += emission.loops((*piece.loops, alone), leaf, parallel=False)
    return body


def _cost(together: Span, alone: Span) -> int:
    """Cycles for two vectors of every row."""
    blocks, left = divmod(together.extent, _TOGETHER)
    return alone.extent * (blocks * _TOGETHER_COST + left * _ALONE_COST)


def _larger(shape: ProductShape) -> Tensor:
    """The operand whose order the batches are walked in."""
    return shape.a if shape.rows >= shape.columns else shape.b
