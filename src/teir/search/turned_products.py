"""Products whose lanes run along the other operand: a large A is read in place, results turned.

    T[rows of A, columns of B] = product with the lanes of B;  out = T permuted

Lanes that lie far apart in A mean packing all of A, which is read once more than the product needs.
Where the results are few beside A, it is cheaper to pack B instead, let its indices carry the
lanes, and move the results once more. The sum over K is one chain per result either way.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.passes.cache_blocks import MOST_TOGETHER
from teir.search.asked_blocks import asked_blocks_choice
from teir.search.copies import emit_copy
from teir.search.default_choice import reduction_blocks
from teir.search.emission import Body, Emission
from teir.search.in_parts import Moved, in_parts
from teir.search.machine import BEYOND_L2, Machine
from teir.search.packed_operands import is_asked_for, wants_packed_a, wants_packed_b
from teir.search.relaid import is_relaid
from teir.search.shape import ProductShape, extent_of, outermost_first, product_shape, some
from teir.search.step import Span, Step, elements_of, normalise
from teir.target import rows_apart

_FEWEST_DENSE = 6
"""Columns that make one stream along the sum from which register blocks are as good."""
_GAIN = 2
"""Elements whose copies are spared, by those that are copied instead, from which turning pays.

The copy of the results waits for the product; those of operands overlap it a little.
"""
_WIDE_GAIN = 3
"""The same where more columns than a register block has make the stream of A, so that blocks of
them share its lines, and B is read in place as well. Where the third cache is far, a stream costs
nothing and a copy its time. Measured on Golden Cove, 8 to 440 columns: 0.78 to 1.0 of the time;
with less gain 1.01 to 1.05."""
_MOST_COPIES = 2
"""Times that B may be copied: packed, and relaid before that."""
_ROUNDED = 2
"""Copies of results that are rounded on their way."""
_FEWEST_VECTORS = 4
"""Vectors of lanes of B from which register blocks are as good as those of A."""
_FILLED = 0.9
"""The share of lanes that must be filled."""
_NEAR = 4
"""Sizes of the second cache up to which half a vector of columns does not pay for what is spared,
where a whole one is multiplied as quickly. Measured on Zen 5, 4 to 8 columns in FP32, 4 in FP64,
sums of 20 to 100 products: lanes along A took 0.6 to 1.0 of the time; beyond, 0.4 to 1.4."""
_LONG_SUM = 4
"""Products of a sum for every row from which moving the results costs little."""
_NARROW_GAIN = 4
_NARROW_FILLED = 0.8
"""The same where the columns are a few vectors: the factors of A are each read for those alone."""

_PLAIN = (DataType.FP32, DataType.FP64)


class TurnedProduct(msgspec.Struct, frozen=True, gc=False):
    """The product into scratch, its shape, and the copy of the results to where they belong."""

    product: Step
    shape: ProductShape
    scratch: Tensor
    copy: Step


def turned_product(
    emission: Emission, step: Step, shape: ProductShape, machine: Machine
) -> TurnedProduct | None:
    """The step with the lanes along B; None where A carries them as well."""
    out = shape.out
    if shape.c or shape.n is None or shape.m is None:
        return None
    asked = _asked_once_turned(emission, step, shape, machine)
    if asked is not None:
        return asked
    columns, in_a = shape.columns, elements_of(shape.a, step)
    results, most = shape.rows * columns, in_a + _MOST_COPIES * elements_of(shape.b, step)
    if most < _GAIN * results:
        return None
    lanes = machine.lanes(out.data_type.accumulator.width)
    if not _fills_lanes(columns, lanes):
        return None
    is_half = 2 * columns <= lanes
    size = in_a * shape.a.data_type.width
    if is_half and machine.multiplies_whole and size <= _NEAR * machine.l2_bytes:
        return None
    if out.data_type.is_narrow:
        results *= _ROUNDED
    is_narrow = columns < _FEWEST_VECTORS * lanes
    least = (_NARROW_GAIN if is_narrow else _GAIN) * results
    if not _may_be_read_along(shape, machine):
        # All of A would be packed as well.
        least = max(least, _GAIN * (results + in_a))
    if most < least:
        return None
    k = reduction_blocks(shape, machine).block
    if not wants_packed_a(shape, k, machine):
        return None
    before = in_a + _copied_b(step, shape, k, machine)
    if before < least:
        return None
    turned = _turned(emission, step, shape, machine)
    k = reduction_blocks(turned.shape, machine).block
    if not _is_read_along(turned.shape, k, machine):
        return None
    after = results + _copied_b(turned.product, turned.shape, k, machine)
    if wants_packed_a(turned.shape, k, machine):
        after += elements_of(turned.shape.a, turned.product)
    gain = _WIDE_GAIN if _are_wide(shape, turned.shape, k, machine) else _GAIN
    return None if before < gain * after else turned


def _asked_once_turned(
    emission: Emission, step: Step, shape: ProductShape, machine: Machine
) -> TurnedProduct | None:
    """The step with lanes along columns that are adjacent in a large B, which is asked for ahead as
    rows in place are; as columns it would be packed or read a part of every line at a time.

    Measured on Zen 4, 300 to 2,500 columns and 40 to 300 rows: 0.62 to 1.07 of the time, 0.84
    (FP32) and 0.91 (FP64) in the mean.
    """
    n, kind = shape.n, shape.b.data_type
    if not machine.keeps_near_requests or kind not in _PLAIN or shape.out.data_type is not kind:
        return None
    if n is None or n.stride(shape.b.name) != kind.width or shape.n_outer or shape.m_outer:
        return None
    is_large = elements_of(shape.b, step) * kind.width >= BEYOND_L2 * machine.l2_bytes
    if not is_large or extent_of(shape.k) < _LONG_SUM * shape.rows or _is_asked_for(shape, machine):
        return None
    turned = _turned(emission, step, shape, machine)
    return turned if _is_asked_for(turned.shape, machine) else None


def _is_asked_for(shape: ProductShape, machine: Machine) -> bool:
    k = reduction_blocks(shape, machine).block
    return is_asked_for(shape, k, machine) or asked_blocks_choice(shape, machine) is not None


def _are_wide(
    shape: ProductShape, turned: ProductShape, k: tuple[Span, ...], machine: Machine
) -> bool:
    """True where several register blocks share the stream of A, and B is a good one as it lies."""
    assert turned.n is not None
    is_read_along = shape.k[-1].stride(shape.b.name) == shape.b.data_type.width
    return is_read_along and turned.n.extent > MOST_TOGETHER and _are_dense(turned, k, machine)


def _fills_lanes(columns: int, lanes: int) -> bool:
    """True where the columns fill some vectors, or most of a few or of half of one."""
    vectors = -(-columns // lanes)
    if vectors >= _FEWEST_VECTORS:
        return columns >= _FILLED * vectors * lanes
    part = lanes // 2 if 2 * columns <= lanes else vectors * lanes
    return columns >= _NARROW_FILLED * part


def emit_turned_copy(emission: Emission, one: TurnedProduct, machine: Machine) -> Body:
    """The copy of the results, and the scratch the product needs on the node around both."""
    body = emit_copy(emission, one.copy, machine)
    return Body(body.nodes, (*body.scratch, one.scratch))


def _may_be_read_along(shape: ProductShape, machine: Machine) -> bool:
    """False where A is adjacent along no sum, so that whichever is innermost it is packed once it
    is broadcast."""
    if machine.has_far_third_cache or not shape.k:
        return True
    nearest = min([axis.strides.get(shape.a.name, 0) for axis in shape.k])
    return nearest <= shape.a.data_type.width


def _is_read_along(shape: ProductShape, k: tuple[Span, ...], machine: Machine) -> bool:
    """True where the broadcast operand is adjacent along the innermost sum, or is packed."""
    near = bool(k) and k[-1].stride(shape.b.name) <= shape.b.data_type.width
    return near or wants_packed_b(shape, k, machine) or _are_dense(shape, k, machine)


def _are_dense(shape: ProductShape, k: tuple[Span, ...], machine: Machine) -> bool:
    """True where the columns of a step of the sum follow those of the step before in B, and a copy
    would cost the way from a third cache that is far."""
    n, kind = shape.n, shape.b.data_type
    if not machine.has_far_third_cache or kind not in _PLAIN or n is None or not k:
        return False
    is_row = n.extent >= _FEWEST_DENSE and n.stride(shape.b.name) == kind.width
    return is_row and k[-1].stride(shape.b.name) == n.extent * kind.width


def _copied_b(step: Step, shape: ProductShape, k: tuple[Span, ...], machine: Machine) -> int:
    """Elements of B that are copied before the product of ``shape``, in blocks of ``k``."""
    copies = wants_packed_b(shape, k, machine) + is_relaid(step, shape, machine)
    return copies * elements_of(shape.b, step) if copies else 0


def _turned(emission: Emission, step: Step, shape: ProductShape, machine: Machine) -> TurnedProduct:
    """Rows of the scratch as A lies, each a run of columns as B lies."""
    out = shape.out
    scratch = Tensor(name=emission.name(f"{out.name}_turned"), data_type=out.data_type)
    strides: dict[int, int] = {}
    stride = scratch.data_type.width
    for axis in reversed(outermost_first((*shape.n_outer, *some(shape.n)), shape.b)):
        strides[id(axis)] = stride
        stride *= axis.extent
    # Rows a line apart at least: page-sized rows would share the sets of a cache.
    stride = rows_apart(stride)
    for axis in reversed(outermost_first((*shape.m_outer, *some(shape.m)), shape.a)):
        strides[id(axis)] = stride
        stride *= axis.extent
    parts = in_parts(step, step.axes, [Moved(out, scratch, strides)])
    (copy,) = parts.after
    product = normalise(parts.product)
    turned = product_shape(product)
    assert turned is not None
    return TurnedProduct(product, _with_dense_columns(turned, machine), scratch, normalise(copy))


def _with_dense_columns(shape: ProductShape, machine: Machine) -> ProductShape:
    """The shape with columns that make one stream along the sum, where some axis of B does."""
    for axis in shape.n_outer:
        dense = replace(shape, n=axis)
        if _are_dense(dense, shape.k, machine):
            others = (*(one for one in shape.n_outer if one is not axis), *some(shape.n))
            return replace(dense, n_outer=outermost_first(others, shape.out))
    return shape
