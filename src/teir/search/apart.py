"""Products whose tensors lie across each other: some of them are moved, before or after.

    narrow batch    out[m, n, f] = sum of A[f, m, k] * B[f, k, n], f a few:
                    T[f, m, n] = product for every f;  out = T
    turned result   out[x, y] = sum of A[k, y, x] * v[k]:  T[y, x] = sum along x;  out = T
    joined rows     out[x, n, y] = sum of A[x, k, y] * B[k, n], y a few:
                    A'[k, x, y] = A;  T[n, x, y] = product with rows of x and y;  out = T
    turned factor   out[x] = sum of A[x, y, k] * B[k, y]:  B'[y, k] = B;  long sums
                    out[x, y, z] = A[z, y] * b[x]:  A'[y, z] = A;  long rows

Lanes along a batch of a few elements are mostly empty, and packing for them writes whole lines for
each. Lanes along another axis of a matrix than it is adjacent on mean packing all of it, where the
result is a fraction of it. What is moved is always small beside what it meets. Measured on Zen 4:
random contractions and products of this kind took 0.02 to 0.9 of the time without.
"""

from __future__ import annotations

from collections.abc import Sequence

from teir.ir.nodes import Tensor
from teir.search.emission import Emission
from teir.search.in_parts import InParts, Moved, dense, in_parts
from teir.search.lanes import LaneStep
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of, outermost_first
from teir.search.step import Span, Step
from teir.target import LINE_BYTES

_MOST_TILE = 4096
"""Products of one lane up to which lanes hold small matrices, which stay in the first cache."""
_PACKED = 2
"""Elements packed for wide lanes, by results, from which moving those instead pays."""
_FILLED, _FILLED_LONG = 0.5, 0.75
"""Shares of the lanes up to which it pays anyway; and where operands of long sums are packed."""
_FEWEST_ELEMENTS = 2
"""Elements of a matrix by results from which moving those costs little beside reading it."""
_FEW_COLUMNS = 8
"""Columns that do not pay for packing a matrix."""
_FEW_VECTORS = 2
"""Vectors of lanes along the smaller operand that do not pay for reading the larger one across."""
_LONG_SUM = 16
"""Products of a result that pay for moving it where its rows would be parts of lines."""
_FEWEST_MET = 8
"""Rows or columns that an operand meets for each lane from which moving it before pays."""
_FEWEST_READS = 4
"""Uses of an element of an operand from which moving it costs little beside them."""


def narrow_batch(emission: Emission, step: LaneStep, machine: Machine) -> InParts | None:
    """The step with its narrow lanes outermost; None where lanes along them are as good."""
    if not _is_narrow(step, machine) or not _starts_where_it_moves(step.step):
        return None
    whole, lanes = step.step, step.lanes
    near = [one for one in whole.inputs if lanes.stride(one.name) < LINE_BYTES]
    moved = []
    for tensor in (*near, whole.output):
        rest = [axis for axis in _axes_of(tensor, whole) if axis is not lanes]
        order = (lanes, *outermost_first(rest, tensor))
        moved.append(_moved(emission, tensor, "apart", order))
    return in_parts(whole, whole.axes, moved)


def may_be_turned(shape: ProductShape, machine: Machine) -> bool:
    """True where `turned_result` may have something: few rows or columns, or short rows."""
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    row_bytes = 1 if shape.m is None else shape.m.extent * shape.out.data_type.width
    is_few = shape.columns <= _FEW_COLUMNS or shape.rows <= _FEW_VECTORS * lanes
    return is_few or row_bytes < LINE_BYTES


def turned_result(emission: Emission, step: Step, machine: Machine) -> InParts | None:
    """The step with its result as the larger operand lies; None where lanes are well there, or
    what is to be moved is not small."""
    out = step.output
    free = _axes_of(out, step)
    if len(step.inputs) != 2 or len(free) < 2 or len(free) == len(step.axes):
        return None
    if not _starts_where_it_moves(step):
        return None
    nearest = _nearest(free, out)
    small, large = sorted(step.inputs, key=lambda one: extent_of(_axes_of(one, step)))
    for matrix in (large,) if nearest.stride(large.name) else (large, small):
        if _is_across(step, nearest, matrix, machine):
            columns = [axis for axis in free if not axis.stride(matrix.name)]
            rows = [axis for axis in free if axis.stride(matrix.name)]
            order = (*outermost_first(columns, out), *outermost_first(rows, matrix))
            return in_parts(step, step.axes, [_moved(emission, out, "turned", order)])
    return _joined_rows(emission, step, nearest)


def _is_across(step: Step, nearest: Span, matrix: Tensor, machine: Machine) -> bool:
    """True where moving the result lets lanes, or sums, run along what lies in the matrix."""
    out = step.output
    free = _axes_of(out, step)
    adjacent = next((axis for axis in step.axes if _is_adjacent(axis, matrix)), None)
    if adjacent is None or adjacent is nearest:
        return False
    columns = extent_of([axis for axis in free if not axis.stride(matrix.name)])
    elements, results = extent_of(_axes_of(matrix, step)), extent_of(free)
    if not adjacent.stride(out.name):
        rows = [axis for axis in free if axis.stride(matrix.name)]
        is_turned = outermost_first(rows, matrix) != outermost_first(rows, out)
        return is_turned and columns <= _FEW_COLUMNS and elements >= _LONG_SUM * results
    if not nearest.stride(matrix.name):
        lanes = machine.lanes(out.data_type.accumulator.width)
        return columns <= _FEW_VECTORS * lanes and elements >= _FEWEST_ELEMENTS * results
    if columns <= _FEW_COLUMNS and elements >= _FEWEST_ELEMENTS * results:
        return True
    is_short = nearest.extent * out.data_type.width < LINE_BYTES
    is_longer = adjacent.extent > nearest.extent
    return is_short and is_longer and extent_of(step.reductions) >= _LONG_SUM


def _joined_rows(emission: Emission, step: Step, nearest: Span) -> InParts | None:
    """The step with short rows next to each other, in the operand that has them and the result."""
    out = step.output
    first, second = step.inputs
    if bool(nearest.stride(first.name)) == bool(nearest.stride(second.name)):
        return None
    rows, other = (first, second) if nearest.stride(first.name) else (second, first)
    free = _axes_of(out, step)
    along = outermost_first([axis for axis in free if axis.stride(rows.name)], out)
    columns = [axis for axis in free if not axis.stride(rows.name)]
    if len(along) < 2 or any(axis.stride(other.name) for axis in along):
        return None
    # Rows that follow each other in the result are packed as one without this.
    if along[-2].stride(out.name) == nearest.extent * nearest.stride(out.name):
        return None
    is_short = nearest.extent * out.data_type.width < LINE_BYTES
    is_met = extent_of(columns) >= _FEWEST_MET and extent_of(step.reductions) >= _LONG_SUM
    if not is_short or not is_met:
        return None
    sums = outermost_first(step.reductions, other)
    return in_parts(
        step,
        step.axes,
        [
            _moved(emission, rows, "joined", (*sums, *along)),
            _moved(emission, out, "joined", (*outermost_first(columns, out), *along)),
        ],
    )


def turned_factor(emission: Emission, step: Step) -> InParts | None:
    """The step with a small operand as what it meets lies, along which lanes run; else None."""
    if len(step.inputs) != 2 or not step.axes or not _starts_where_it_moves(step):
        return None
    if not step.reductions:
        return _turned_factors(emission, step)
    small, large = sorted(step.inputs, key=lambda one: extent_of(_axes_of(one, step)))
    elements, reads = extent_of(_axes_of(small, step)), extent_of(_axes_of(large, step))
    has_all = all(axis.stride(large.name) for axis in _axes_of(step.output, step))
    if not has_all or reads < _FEWEST_READS * elements:
        return None
    adjacent = next((axis for axis in step.reductions if _is_adjacent(axis, large)), None)
    if adjacent is None or adjacent.stride(small.name) <= small.data_type.width:
        return None
    if _run_bytes(adjacent, step.reductions, large) < LINE_BYTES:
        return None
    order = outermost_first(_axes_of(small, step), large)
    return in_parts(step, step.axes, [_moved(emission, small, "turned", order)])


def _turned_factors(emission: Emission, step: Step) -> InParts | None:
    """The factors of an outer product that carry its lanes as the output lies."""
    out = step.output
    nearest, results = _nearest(step.axes, out), extent_of(step.axes)
    moved = []
    for tensor in step.inputs:
        axes = _axes_of(tensor, step)
        if nearest.stride(tensor.name) <= tensor.data_type.width:
            continue
        if _FEWEST_READS * extent_of(axes) <= results:
            moved.append(_moved(emission, tensor, "turned", outermost_first(axes, out)))
    return in_parts(step, step.axes, moved) if moved else None


def _run_bytes(adjacent: Span, reductions: Sequence[Span], tensor: Tensor) -> int:
    """Bytes of a tensor that are next to each other along its adjacent reduction and others."""
    run = adjacent.extent * tensor.data_type.width
    for axis in reversed(outermost_first(reductions, tensor)):
        if axis.stride(tensor.name) == run:
            run *= axis.extent
    return run


def _is_narrow(step: LaneStep, machine: Machine) -> bool:
    """Measured on Zen 4, FP32 and FP64, 2 to 48 lanes."""
    results = extent_of((*step.m, *step.n))
    if not (step.m and step.n) or results * extent_of(step.k) <= _MOST_TILE:
        return False
    first, second = step.step.inputs
    sides = ((first, (*step.m, *step.k)), (second, (*step.n, *step.k)))
    packed = sum(extent_of(axes) for one, axes in sides if not _is_adjacent(step.lanes, one))
    meets = ((first, step.n), (second, step.m))
    near = [axes for one, axes in meets if step.lanes.stride(one.name) < LINE_BYTES]
    if any(extent_of(axes) < _FEWEST_MET for axes in near):
        return False
    if packed > _PACKED * results:
        return True
    lanes = machine.lanes(step.step.output.data_type.accumulator.width)
    vectors = -(-step.lanes.extent // lanes)
    has_more = packed and extent_of(step.k) >= _LONG_SUM
    return step.lanes.extent <= (_FILLED_LONG if has_more else _FILLED) * vectors * lanes


def _starts_where_it_moves(step: Step) -> bool:
    """True where every offset belongs to a walk on its tensor, which a copy keeps."""
    return all(axis.strides.get(name) for axis in step.axes for name in axis.offsets)


def _moved(emission: Emission, tensor: Tensor, how: str, order: Sequence[Span]) -> Moved:
    """The tensor in scratch, dense, its axes in this order, the outermost first."""
    scratch = Tensor(name=emission.name(f"{tensor.name}_{how}"), data_type=tensor.data_type)
    return Moved(tensor, scratch, dense(order, tensor.data_type.width))


def _axes_of(tensor: Tensor, step: Step) -> list[Span]:
    return [axis for axis in step.axes if axis.strides.get(tensor.name)]


def _nearest(axes: Sequence[Span], out: Tensor) -> Span:
    """The axis that results lie next to each other along."""
    return min(axes, key=lambda axis: (axis.stride(out.name), -axis.extent))


def _is_adjacent(axis: Span, tensor: Tensor) -> bool:
    return axis.stride(tensor.name) == tensor.data_type.width
