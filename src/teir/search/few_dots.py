"""Products of BF16 of which one side has very few rows: dots, one sweep of the large side for each.

    [copy the few rows, so that they are adjacent along k]
    rows of the small side
      [parallel] pieces of the large side { zero; Contraction M=[rows] K=[k] lanes }

Register blocks would leave most of every vector empty.
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
from teir.search.shape import ProductShape, extent_of, some
from teir.search.step import Span

_FEW = 4
"""Rows up to which a sweep over the large side for each takes less time than register blocks."""
_FEWEST = 64
"""Rows of a large side."""
_DEEP = 256
"""Products per result from which the sum over the lanes does not show."""
_LINE_BYTES = 64
_CHUNKS = 4
"""Pieces per thread, so that an uneven machine still shares evenly."""


def is_few_dots(shape: ProductShape) -> bool:
    """True for few long rows of A times many rows of B that are adjacent along the one sum."""
    if shape.c or shape.m is None or shape.n is None or shape.m_outer or shape.n_outer:
        return False
    if len(shape.k) != 1 or {shape.a.data_type, shape.b.data_type} != {DataType.BF16}:
        return False
    (k,) = shape.k
    is_long = k.extent >= _DEEP and k.stride(shape.b.name) == shape.b.data_type.width
    return is_long and shape.m.extent <= _FEW and shape.n.extent >= _FEWEST


def emit_few_dots(emission: Emission, shape: ProductShape, machine: Machine) -> Body:
    """The nodes of a step that `is_few_dots` recognised."""
    assert shape.m is not None
    assert shape.n is not None
    a, b, out = shape.a.name, shape.b.name, shape.out.name
    (k,) = shape.k
    body, near, row_bytes = Body(), shape.a, shape.m.stride(a)
    if k.stride(a) != shape.a.data_type.width:
        width = shape.a.data_type.width
        near = Tensor(name=emission.name(f"{a}_turned"), data_type=shape.a.data_type)
        row_bytes = -(-k.extent * width // _LINE_BYTES) * _LINE_BYTES + _LINE_BYTES
        across = shape.m.only(a).on(near.name, row_bytes)
        roles = Roles(m=(across,), n=(k.only(a).on(near.name, width),))
        copy = emission.leaf(Operation.COPY, (a,), near.name, roles)
        body = Body(copy.nodes, (*copy.scratch, near))
    keeps = (near.name,) if near is shape.a else ()
    along = k.only(b, *keeps).on(near.name, shape.a.data_type.width)
    row = shape.m.only(out, *keeps).on(near.name, row_bytes)
    lanes = lane_count(ROW_LANES_BYTES, shape.out.data_type, k)

    def leaf(rows: Span | None) -> Body:
        zero = emission.leaf(Operation.ZERO, (), out, Roles(m=some(rows)))
        return zero + emission.leaf(
            Operation.CONTRACTION,
            (b, near.name),
            out,
            Roles(m=some(rows), k=(along,)),
            data_type=shape.b.data_type,
            lanes=lanes,
        )

    work = extent_of((shape.m, shape.n, k))
    is_shared = machine.threads > 1 and work >= machine.threaded_work
    piece = shape.n.extent
    if is_shared:
        piece = even_block(piece, max(_FEW, piece // (_CHUNKS * machine.threads)), _FEW)
    for one in cut(shape.n, piece):
        body += emission.loops((row, *one.loops), partial(leaf, one.tile), parallel=is_shared)
    return body
