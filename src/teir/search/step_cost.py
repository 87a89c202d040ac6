"""What one step costs in a layout, in core cycles: a model to compare layouts, not a forecast.

    multiply-adds / what the register block keeps busy  +  calls  +  packing  +  bytes

The terms follow the choices of `teir.search.dense`: the same shape, the same packing tests.
"""

from __future__ import annotations

from math import ceil

from teir.dtypes import DataType
from teir.ir.nodes import Tensor
from teir.passes.cache_blocks import reduction_depth
from teir.search.emission import Emission
from teir.search.machine import Machine
from teir.search.packed_operands import column_run_bytes, wants_packed_a, wants_packed_b
from teir.search.shape import ProductShape, extent_of, product_shape
from teir.search.step import Span, Step, normalise
from teir.search.turned_products import TurnedProduct, turned_product
from teir.target import LINE_BYTES, PAGE_BYTES

_UNITS = 2
"""Fused multiply-adds of one vector a core starts in a cycle."""
_CHAINS = 10
"""Independent sums that keep the units busy."""
_CALL = 30.0
"""Cycles to reach a kernel and to leave it."""
_NEAR, _FAR = 32.0, 8.0
"""Bytes a cycle within half of L2, and beyond."""
_SCATTERED = 4.0
"""How many times as long a copy takes that is adjacent on one side only."""
_PAGES = 2.5
"""How many times as long panels of a few lines take to pack from a page for every step of the sum,
where no near cache holds them: 20 ms for 100 MB on Zen 4."""
_BROKEN = 1.5
_LONG_RUN_BYTES = 3 * LINE_BYTES
"""How many times its bytes B costs besides, which no near cache holds, where it is read in place in
runs so short: nobody reads ahead in them. Measured on Zen 4, 625 rows, 15625 columns, 1600 products
each: runs of 160 bytes 2 % more than whole columns; 8000 columns of 400 rows, runs of 200, none."""
_ELEMENT = 1.0
"""Cycles of an element that no vector holds."""


def least_cycles(products: int, compute: DataType, machine: Machine) -> float:
    """What so many multiply-adds take in any layout."""
    return products / (_UNITS * machine.lanes(compute.accumulator.width))


def small_cycles(products: int) -> float:
    """What a step of few products takes in any layout."""
    return _CALL + products


def far_cycles(size_bytes: int) -> float:
    """What so many bytes take that no near cache holds."""
    return size_bytes / _FAR


def step_cycles(step: Step, machine: Machine) -> float:
    """Cycles of one step on one core. Strides must not be negative."""
    step = normalise(step)
    traffic = sum(_traffic(step, tensor, machine) for tensor in (*step.inputs, step.output))
    if len(step.inputs) == 1:
        return traffic * _scatter(step)
    products = extent_of(step.axes)
    lanes = machine.vector_bytes // step.output.data_type.accumulator.width
    shape = product_shape(step) if step.reductions else None
    if shape is None:
        return traffic * _scatter(step) + products / lanes * _lane_cycles(step)
    turned = turned_product(Emission(), step, shape, machine)
    if turned is not None:
        return _turned_cycles(turned, products, lanes, machine)
    return traffic + _product_cycles(shape, products, lanes, machine)


def _turned_cycles(one: TurnedProduct, products: int, lanes: int, machine: Machine) -> float:
    """The product into scratch, and the copy of its results."""
    product = one.product
    traffic = sum(
        _traffic(product, tensor, machine) for tensor in (*product.inputs, product.output)
    )
    cycles = traffic + _product_cycles(one.shape, products, lanes, machine)
    return cycles + step_cycles(one.copy, machine)


def _product_cycles(shape: ProductShape, products: int, lanes: int, machine: Machine) -> float:
    rows = 1 if shape.m is None else shape.m.extent
    columns = 1 if shape.n is None else shape.n.extent
    vectors = ceil(rows / lanes)
    filled = rows / (vectors * lanes)
    busy = min(1.0, min(vectors, 4) * min(columns, 12) / _CHAINS)
    cycles = products / (_UNITS * lanes * filled * busy)
    depth = extent_of(shape.k)
    blocks = max(1, ceil(depth / (2 * reduction_depth(shape.out.data_type))))
    results = shape.rows * shape.columns * extent_of(shape.c)
    cycles += 2 * blocks * results / (lanes * filled)
    tiles = ceil(rows / (4 * lanes)) * ceil(columns / 12)
    calls = extent_of((*shape.c, *shape.m_outer, *shape.n_outer)) * blocks * tiles
    runs = depth // shape.k[-1].extent
    return cycles + _CALL * calls * min(max(1, runs), 64) + _packing(shape, machine, products)


def _packing(shape: ProductShape, machine: Machine, products: int) -> float:
    depth = extent_of(shape.k) * extent_of(shape.c)
    cycles = 0.0
    width = shape.a.data_type.width
    is_adjacent = shape.m is None or shape.m.stride(shape.a.name) == width
    if wants_packed_a(shape, shape.k, machine):
        bytes_a = shape.rows * depth * width
        cycles += (
            2 * bytes_a / _FAR * (_apart(shape, bytes_a, machine) if is_adjacent else _SCATTERED)
        )
    elif not is_adjacent:
        cycles += products * _ELEMENT
    bytes_b = shape.columns * depth * width
    if wants_packed_b(shape, shape.k, machine):
        is_row = shape.n is not None and shape.n.stride(shape.b.name) == width
        cycles += 2 * bytes_b / _FAR * (1.0 if is_row else _SCATTERED)
    elif bytes_b > machine.l2_bytes and width < column_run_bytes(shape, shape.k) < _LONG_RUN_BYTES:
        cycles += _BROKEN * bytes_b / _FAR
    return cycles


def _apart(shape: ProductShape, bytes_a: int, machine: Machine) -> float:
    """How many times as long the copy of adjacent rows takes as that of as many bytes in order."""
    is_far = bytes_a > machine.l2_bytes and shape.k[-1].stride(shape.a.name) >= PAGE_BYTES
    return _PAGES if is_far else 1.0


def _traffic(step: Step, tensor: Tensor, machine: Machine) -> float:
    elements = extent_of([axis for axis in step.axes if axis.stride(tensor.name)])
    size = elements * tensor.data_type.width
    return size / (_NEAR if size <= machine.l2_bytes // 2 else _FAR)


def _scatter(step: Step) -> float:
    """1 where one axis is adjacent in every tensor it moves, else the price of a transposition."""
    along = min(
        (axis for axis in step.axes if axis.stride(step.output.name)),
        key=lambda axis: axis.stride(step.output.name),
        default=None,
    )
    if along is None or (along.extent >= 8 and _is_adjacent(along, step)):
        return 1.0
    return _SCATTERED


def _lane_cycles(step: Step) -> float:
    """Cycles for a vector of products whose lanes run along an axis of all tensors."""
    return 1.0 if _scatter(step) == 1.0 else 16.0


def _is_adjacent(axis: Span, step: Step) -> bool:
    return all(
        axis.stride(tensor.name) in (0, tensor.data_type.width)
        for tensor in (*step.inputs, step.output)
    )
