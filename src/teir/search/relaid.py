"""Products whose operands lie across each other: each is adjacent along another reduction.

    A[s, y, x] B[n, x, y]:  B'[n, y, x] = B;  out[n, s] = sum of A[s, y, x] * B'[n, y, x]

A has to be turned block by block, as its rows carry the lanes. A block of reductions that suits B
would take short pieces of every row of A. So the smaller B is laid as A lies, once. So is it where
the rows of a large A follow one another from step to step of the sum, which then is one stream:

    A[c, y, x, s] B[x, n, y]:  B'[n, y, x] = B;  out[c, n, s] = sum of A[c, yx, s] * B'[n, yx]

Columns that are one axis of the output and several of B would be a loop around few columns each,
and every turn of it would read A again. So B is laid as the output lies:

    A[x, s] B[p, x, n]:  B'[n, p, x] = B;  out[n, p, s] = sum of A[x, s] * B'[np, x]
"""

from __future__ import annotations

import msgspec

from teir.ir.nodes import Tensor
from teir.search.copies import emit_copy
from teir.search.emission import Body, Emission
from teir.search.in_parts import Moved, in_parts
from teir.search.machine import Machine
from teir.search.packing import all_follow
from teir.search.shape import ProductShape, extent_of, outermost_first, some
from teir.search.step import Span, Step, elements_of, fuse, normalise
from teir.target import rows_apart

_FEWEST_ROWS = 2048
_MANY_TIMES, _LONG_SUM = 4, 64
"""Rows that read every element of B: fewer pay for moving it only where A is many times as large,
and sums are long. Measured on Zen 4: 0.04 to 1.2 of the time."""
_FAR_BYTES = 4 << 20
"""Bytes of A from which one stream of it repays laying B as it lies, where the third cache is far:
else rows of steps in any order are asked for as well. Measured on Golden Cove, sums
of 400 to 4600 products, 1 to 147 rows that follow one another: 0.69 to 1.02 of the time, of two
columns 1.04 and 1.08."""

_JOINED_TIMES, _FEW_COLUMNS, _MOST_COLUMNS = 6, 16, 32
"""Times as many elements in A as in B, and columns of one turn, and of all turns of short sums, up
to which joining them pays. Measured on Golden Cove, 2 to 40 times 2 to 40 columns, one thread: 0.16
to 1.35 of the time, 0.8 in the mean; with batches met by few rows 0.28 to 2.2, 0.89 in the mean;
more columns of short sums, whose result is most of the work, up to 3."""


class Relaid(msgspec.Struct, frozen=True, gc=False):
    """The copy of B, the scratch it fills, and the product of A and the copy."""

    copy: Step
    scratch: Tensor
    product: Step


def is_relaid(step: Step, shape: ProductShape, machine: Machine) -> bool:
    """True where the operands lie across each other or columns are joined, and moving B pays."""
    joins = _joins_columns(shape)
    if not joins and len(shape.k) < 2:
        return False
    elements_a, elements_b = elements_of(shape.a, step), elements_of(shape.b, step)
    if joins and elements_a >= _JOINED_TIMES * elements_b:
        return True
    if len(shape.k) < 2:
        return False
    is_long = extent_of(shape.k) >= _LONG_SUM
    is_far = machine.has_far_third_cache and elements_a * shape.a.data_type.width >= _FAR_BYTES
    if is_far and _breaks_stream(shape):
        return is_long and elements_a >= _MANY_TIMES * elements_b
    if not _lie_across(shape):
        return False
    if shape.rows >= _FEWEST_ROWS:
        return elements_a >= elements_b
    return elements_a >= _MANY_TIMES * elements_b and is_long


def relaid(emission: Emission, step: Step, shape: ProductShape, machine: Machine) -> Relaid | None:
    """The step in two; None where B is as good as it lies."""
    if not is_relaid(step, shape, machine):
        return None
    b = shape.b
    target = Tensor(name=emission.name(f"{b.name}_relaid"), data_type=b.data_type)
    outer, inner = _order(step, shape, machine)
    strides: dict[int, int] = {}
    stride = target.data_type.width
    for axis in reversed(inner):
        strides[id(axis)] = stride
        stride *= axis.extent
    # Columns a line apart at least: page-sized columns would share the sets of a cache.
    stride = rows_apart(stride)
    for axis in reversed(outer):
        strides[id(axis)] = stride
        stride *= axis.extent
    parts = in_parts(step, step.axes, [Moved(b, target, strides)])
    (copy,) = parts.before
    return Relaid(normalise(copy), target, normalise(parts.product))


def _order(step: Step, shape: ProductShape, machine: Machine) -> tuple[list[Span], list[Span]]:
    """The axes of the copy, outermost first: those outside of what lies together, and those inside.

    Columns lie as the output does, and inside the sum where joined ones are met by fewer rows than
    a vector has lanes, as lanes run along the columns then.
    """
    # An axis on which B repeats gets no place in the copy, which would leave it unwritten.
    name = shape.b.name
    across = [axis for axis in outermost_first(step.reductions, shape.a) if axis.stride(name)]
    columns = outermost_first((*shape.n_outer, *some(shape.n)), shape.out)
    free = [axis for axis in shape.c if axis.stride(name)]
    lanes = machine.lanes(shape.b.data_type.width)
    if _joins_columns(shape) and extent_of(some(shape.m)) < lanes:
        return free, [*across, *columns]
    return [*free, *columns], across


def emit_relaid_copy(emission: Emission, one: Relaid, machine: Machine) -> Body:
    """The copy, and the scratch it needs on the node around it."""
    body = emit_copy(emission, one.copy, machine)
    return Body(body.nodes, (*body.scratch, one.scratch))


def _joins_columns(shape: ProductShape) -> bool:
    """True where few columns of rows that are read in place follow others in the output alone."""
    a, b, m, n = shape.a, shape.b, shape.m, shape.n
    if m is None or n is None or not shape.n_outer or n.extent > _FEW_COLUMNS:
        return False
    if m.stride(a.name) != a.data_type.width:
        return False
    if shape.columns > _MOST_COLUMNS and extent_of(shape.k) < _LONG_SUM:
        return False
    columns = (*shape.n_outer, n)
    in_out = fuse([axis.only(shape.out.name) for axis in columns])
    return len(in_out) < len(fuse([axis.only(shape.out.name, b.name) for axis in columns]))


def _breaks_stream(shape: ProductShape) -> bool:
    """True where all steps of the sum follow one another in A, row by row, and not in B."""
    a, b, m = shape.a, shape.b, shape.m
    if m is None or m.stride(a.name) != a.data_type.width:
        return False
    steps = outermost_first(shape.k, a)
    repeats = any(not axis.stride(b.name) for axis in steps)
    return all_follow(steps, a.name) and not repeats and not all_follow(steps, b.name)


def _lie_across(shape: ProductShape) -> bool:
    """True where A is adjacent along one reduction and B along another."""
    width = shape.a.data_type.width
    if shape.m is None or shape.m.stride(shape.a.name) == width:
        return False
    along_a = [axis for axis in shape.k if axis.stride(shape.a.name) == width]
    along_b = [axis for axis in shape.k if axis.stride(shape.b.name) == width]
    return bool(along_a) and bool(along_b) and along_a[0] is not along_b[0]
