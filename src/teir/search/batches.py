"""Batches of small products, the batch outside: one leaf with all of them (role C).

[parallel pieces of the batch]
  [copy the first inputs of the piece, turned]
  zero; Contraction C=[batch] M=[m] N=[n] K=[k]

The rows of the first input are turned where they lie adjacent along k: those of many products at
once, some at a time.
"""

from __future__ import annotations

from functools import partial

from msgspec import structs

from teir.ir.nodes import Operation, Tensor
from teir.passes.extents import even_block
from teir.passes.parallelise import CHUNKS
from teir.search.emission import Body, Emission, Roles
from teir.search.machine import Machine
from teir.search.packing import cut
from teir.search.shape import ProductShape, extent_of, some
from teir.search.step import Span
from teir.target import LINE_BYTES, in_lines

_MOST_PRODUCTS = 4096
"""Multiply-adds of one product that is small."""
_LONGEST_SIDE = 32
_FEWEST = 8
"""Products that make a batch."""
_TURNED_BYTES = 2**12
"""Turned rows that wait: in the first cache, beside all that is read and written meanwhile."""
_SHORTEST_TURNED = 3


def is_small_batch(shape: ProductShape) -> bool:
    """True for many small products of at most one K axis each, with adjacent lanes or k."""
    if not shape.c or shape.m is None or shape.m_outer or shape.n_outer or len(shape.k) != 1:
        return False
    sides = (shape.m, *some(shape.n), *shape.k)
    return (
        (_is_adjacent(shape.m, shape.a) or _can_be_turned(shape))
        and _is_adjacent(shape.m, shape.out)
        and max(axis.extent for axis in sides) <= _LONGEST_SIDE
        and extent_of(sides) <= _MOST_PRODUCTS
        and max(axis.extent for axis in shape.c) >= _FEWEST
    )


def emit_small_batch(emission: Emission, shape: ProductShape, machine: Machine) -> Body:
    """Loops over all batch axes but the longest, which is in the leaf."""
    assert shape.m is not None
    batch = max(shape.c, key=lambda axis: axis.extent)
    outer = tuple(axis for axis in shape.c if axis is not batch)
    work = extent_of((*shape.c, shape.m, *some(shape.n), *shape.k))
    is_shared = machine.threads > 1 and work >= machine.threaded_work
    piece = batch.extent
    if is_shared:
        piece = even_block(batch.extent, max(1, batch.extent // (CHUNKS * machine.threads)))
    is_turned = not _is_adjacent(shape.m, shape.a)
    if is_turned:
        piece = min(piece, _TURNED_BYTES // (shape.k[0].extent * _pitch_bytes(shape)))
    leaf_of = _turned_leaf if is_turned else _leaf

    def pieces() -> Body:
        body = Body()
        for one in cut(batch, piece):
            assert one.tile is not None
            leaf = partial(leaf_of, emission, shape, one.tile)
            body += emission.loops(one.loops, leaf, parallel=is_shared)
        return body

    return emission.loops(outer, pieces, parallel=is_shared)


def _can_be_turned(shape: ProductShape) -> bool:
    """True where k is adjacent on the first input, and a row is not too short for a vector."""
    assert shape.m is not None
    (k,) = shape.k
    is_wide = shape.m.extent >= _SHORTEST_TURNED and _is_adjacent(k, shape.a)
    return is_wide and _FEWEST * k.extent * _pitch_bytes(shape) <= _TURNED_BYTES


def _is_adjacent(axis: Span, tensor: Tensor) -> bool:
    return axis.stride(tensor.name) == tensor.data_type.width


def _pitch_bytes(shape: ProductShape) -> int:
    """From row to row of what is turned: whole lines where a row is most of one."""
    assert shape.m is not None
    row_bytes = shape.m.extent * shape.a.data_type.width
    return row_bytes if row_bytes <= LINE_BYTES // 2 else in_lines(row_bytes)


def _turned_leaf(emission: Emission, shape: ProductShape, batch: Span) -> Body:
    """Copy the first inputs of these products, the lanes adjacent, and multiply."""
    assert shape.m is not None
    (k,) = shape.k
    a, pitch_bytes = shape.a, _pitch_bytes(shape)
    turned = Tensor(name=emission.name(f"{a.name}_turned"), data_type=a.data_type)
    strides = (
        (batch, pitch_bytes * k.extent),
        (shape.m, a.data_type.width),
        (k, pitch_bytes),
    )
    walk = [axis.only(a.name).on(turned.name, stride) for axis, stride in strides]
    roles = Roles(m=tuple(walk[:2]), n=tuple(walk[2:]))
    copy = emission.leaf(Operation.COPY, (a.name,), turned.name, roles)
    kept = (shape.b.name, shape.out.name)
    batch, m, k = (axis.only(*kept).on(turned.name, stride) for axis, stride in strides)
    product = _leaf(emission, structs.replace(shape, a=turned, m=m, k=(k,)), batch)
    return Body((*copy.nodes, *product.nodes), (*copy.scratch, *product.scratch, turned))


def _leaf(emission: Emission, shape: ProductShape, batch: Span) -> Body:
    m, n = some(shape.m), some(shape.n)
    zero = emission.leaf(Operation.ZERO, (), shape.out.name, Roles(m=(batch, *n, *m)))
    return zero + emission.leaf(
        Operation.CONTRACTION,
        (shape.a.name, shape.b.name),
        shape.out.name,
        Roles(c=(batch,), m=m, n=n, k=shape.k),
        data_type=shape.a.data_type,
    )
