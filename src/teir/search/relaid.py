"""Products whose operands lie across each other: each is adjacent along another reduction.

    A[s, y, x] B[n, x, y]:  B'[n, y, x] = B;  out[n, s] = sum of A[s, y, x] * B'[n, y, x]

A has to be turned block by block, as its rows carry the lanes. A block of reductions that suits B
would take short pieces of every row of A. So the smaller B is laid as A lies, once. So is it where
the rows of a large A follow one another from step to step of the sum, which then is one stream:

    A[c, y, x, s] B[x, n, y]:  B'[n, y, x] = B;  out[c, n, s] = sum of A[c, yx, s] * B'[n, yx]
"""

from __future__ import annotations

import msgspec

from teir.ir.nodes import Tensor
from teir.search.elementwise import emit_copy
from teir.search.emission import Body, Emission
from teir.search.in_parts import Moved, in_parts
from teir.search.machine import Machine
from teir.search.packing import all_follow
from teir.search.shape import ProductShape, extent_of, outermost_first, some
from teir.search.step import Step, elements_of, normalise
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


class Relaid(msgspec.Struct, frozen=True, gc=False):
    """The copy of B, the scratch it fills, and the product of A and the copy."""

    copy: Step
    scratch: Tensor
    product: Step


def is_relaid(step: Step, shape: ProductShape, machine: Machine) -> bool:
    """True where the operands lie across each other, and moving B pays."""
    if len(shape.k) < 2:
        return False
    elements_a, elements_b = elements_of(shape.a, step), elements_of(shape.b, step)
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
    # An axis on which B repeats gets no place in the copy, which would leave it unwritten.
    across = [axis for axis in outermost_first(step.reductions, shape.a) if axis.stride(b.name)]
    free = [axis for axis in (*shape.c, *shape.n_outer, *some(shape.n)) if axis.stride(b.name)]
    target = Tensor(name=emission.name(f"{b.name}_relaid"), data_type=b.data_type)
    strides: dict[int, int] = {}
    stride = target.data_type.width
    for axis in reversed(across):
        strides[id(axis)] = stride
        stride *= axis.extent
    # Columns a line apart at least: page-sized columns would share the sets of a cache.
    stride = rows_apart(stride)
    for axis in reversed(free):
        strides[id(axis)] = stride
        stride *= axis.extent
    parts = in_parts(step, step.axes, [Moved(b, target, strides)])
    (copy,) = parts.before
    return Relaid(normalise(copy), target, normalise(parts.product))


def emit_relaid_copy(emission: Emission, one: Relaid, machine: Machine) -> Body:
    """The copy, and the scratch it needs on the node around it."""
    body = emit_copy(emission, one.copy, machine)
    return Body(body.nodes, (*body.scratch, one.scratch))


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
