"""Products of which one side has very few rows: dots of every row of the large side with all those.

    [copy the few rows, so that they are adjacent along k]
    [parallel] rows of the large side { zero; Contraction M=[few rows] K=[k] lanes }

Register blocks would leave most of every vector empty. The large side is read once; the few rows
stay in the first cache, and a copy of them begins with a line.
"""

from __future__ import annotations

from teir.dtypes import DataType
from teir.ir.nodes import Operation, Tensor
from teir.search.dots import ROW_LANES_BYTES, lane_count
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of
from teir.target import LINE_BYTES

_FEW = {DataType.BF16: 4, DataType.FP32: 4, DataType.FP64: 2}
"""Rows up to which dots take less time than register blocks."""
_FEWEST = 64
"""Rows of a large side."""
_DEEP = 256
"""Products per result from which the sum over the lanes does not show."""
_NEAR_BYTES = 2**14
"""The few rows that stay in the first cache. Those of BF16 may be longer: converting takes more
time than reading them from the second."""


def is_few_dots(shape: ProductShape) -> bool:
    """True for few long rows of A times many rows of B that are adjacent along the one sum."""
    if shape.c or shape.m is None or shape.n is None or shape.m_outer or shape.n_outer:
        return False
    if len(shape.k) != 1 or shape.m.extent > _FEW.get(shape.a.data_type, 0):
        return False
    (k,) = shape.k
    width = shape.b.data_type.width
    is_long = k.extent >= _DEEP and k.stride(shape.b.name) == width
    is_near = shape.m.extent * k.extent * width <= _NEAR_BYTES or width == DataType.BF16.width
    return is_long and is_near and shape.n.extent >= _FEWEST


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
        row_bytes = -(-k.extent * width // LINE_BYTES) * LINE_BYTES + LINE_BYTES
        across = shape.m.only(a).on(near.name, row_bytes)
        roles = Roles(m=(across,), n=(k.only(a).on(near.name, width),))
        copy = emission.leaf(Operation.COPY, (a,), near.name, roles)
        body = Body(copy.nodes, (*copy.scratch, near))
    keeps = (near.name,) if near is shape.a else ()
    along = k.only(b, *keeps).on(near.name, shape.a.data_type.width)
    few = shape.m.only(out, *keeps).on(near.name, row_bytes)

    def leaf() -> Body:
        zero = emission.leaf(Operation.ZERO, (), out, Roles(m=(few,)))
        return zero + emission.leaf(
            Operation.CONTRACTION,
            (b, near.name),
            out,
            Roles(m=(few,), k=(along,)),
            data_type=shape.b.data_type,
            lanes=lane_count(ROW_LANES_BYTES, shape.out.data_type, k),
        )

    work = extent_of((shape.m, shape.n, k))
    is_shared = machine.threads > 1 and work >= machine.threaded_work
    return body + emission.loops((shape.n,), leaf, parallel=is_shared)
