"""Products whose result lies across what it is made of: made in another order, then moved.

    few columns    out[x, y] = sum of A[k, y, x] * v[k]:  T[y, x] = sum along x;  out = T
    rows apart     out[x, n, y] = sum of A[k, y, x] * B[k, n], x a few:
                   T[n, y, x] = product with rows of y and x;  out = T
    long runs      out[x, y] = sum of A[y, x, k] * v[k]:  T[y, x] = sums row by row;  out = T
    short runs     out[x, y, z] = sum of A[k, y, x, z] * v[k], z a few:
                   T[y, x, z] = sum along y, x and z;  out = T
    columns last   out[n, x, y] = sum of A[y, x, k] * B[k, n], y a few:
                   T[y, x, n] = product with rows of n;  out = T
    joined rows    out[x, n, y] = sum of A[x, k, y] * B[k, n], y a few:
                   A'[k, x, y] = A;  T[n, x, y] = product with rows of x and y;  out = T

Lanes along another axis of a matrix than it is adjacent on mean packing all of it, where the result
is a fraction of it. Measured on Zen 4: matrix-vector products took 0.02 to 0.9 of the time.
"""

from __future__ import annotations

from typing import NamedTuple

from teir.ir.nodes import Tensor
from teir.search.emission import Emission
from teir.search.in_parts import (
    InParts,
    axes_of,
    in_both,
    in_parts,
    is_batch,
    moved_to,
    nearest_of,
    run_bytes,
    run_of,
    starts_where_it_moves,
)
from teir.search.machine import Machine
from teir.search.shape import ProductShape, extent_of, outermost_first
from teir.search.step import Span, Step, elements_of, is_adjacent
from teir.target import LINE_BYTES

_FEWEST_ELEMENTS = 2
"""Elements of a matrix by results from which moving those costs little beside reading it."""
_FEW_COLUMNS = 8
"""Columns that do not pay for packing a matrix; where its rows lie apart, for each element that
follows another in it."""
_FEW_VECTORS = 2
"""Vectors of lanes along the smaller operand that do not pay for reading the larger one across."""
_FEW_DOTS = 4
"""Columns of dots up to which a matrix is read as fast however often."""
_LONG_SUM, _LONGER_SUM = 16, 48
"""Products of a result that pay for moving it where sums are adjacent; and where short rows are
joined, or made in another order."""
_SOME_BYTES, _SUM_OF_SOME = 32, 4
"""Of rows of some elements, which leave half of a vector empty, and products for each of them."""
LONG_RUN_BYTES = 4096
"""Rows of a matrix that take more are read as fast from run to run."""
_FEW_IN_A_ROW = 8
"""Adjacent products of a sum that no dot is made of, so that lanes run along the next axis of the
matrix, however long its rows: 0.04 to 0.8 of the time on Zen 4."""
_SHORT_LINES = 4
"""Lines of a run that rows are gathered from, in the second cache."""
_LARGE_BYTES = 4 << 20
"""Of an operand that is dear to lay otherwise."""
_FEWEST_MET = 64
_FEWEST_OF_PAIRS, _SUM_OF_PAIRS = 6, 20
"""Columns that short rows meet from which joining them pays, counted once for each row that a
vector has room for beside them: on Golden Cove rows of 2 and 4 that meet 50 and 36 columns took
0.35 and 0.7 of the time, those that meet 16 2.3. Then columns that pairs of elements meet, and the
products of their sums: on Zen 4 0.3 to 1.2 of the time; three and four elements that few meet 0.4
to 3."""


def may_be_turned(shape: ProductShape, machine: Machine) -> bool:
    """True where `turned_result` or `teir.search.alternating` may have something: few rows or
    columns, short rows, or rows that are not adjacent where others are."""
    lanes = machine.lanes(shape.out.data_type.accumulator.width)
    row_bytes = 1 if shape.m is None else shape.m.extent * shape.out.data_type.width
    is_few = shape.columns <= _FEW_COLUMNS or shape.rows <= _FEW_VECTORS * lanes
    if is_few or row_bytes < LINE_BYTES:
        return True
    return any(is_adjacent(axis, shape.a) for axis in shape.m_outer)


def turned_result(emission: Emission, step: Step, machine: Machine) -> InParts | None:
    """The step with its result as the larger operand lies; None where lanes are well there, or
    what is to be moved is not small."""
    out = step.output
    free = axes_of(out, step)
    if len(step.inputs) != 2 or len(free) < 2 or len(free) == len(step.axes):
        return None
    if not starts_where_it_moves(step):
        return None
    nearest = nearest_of(free, out)
    small, large = sorted(step.inputs, key=lambda one: elements_of(one, step))
    for matrix in (large,) if nearest.stride(large.name) else (large, small):
        if _is_across(step, nearest, matrix, machine):
            columns = [axis for axis in free if not axis.stride(matrix.name)]
            rows = [axis for axis in free if axis.stride(matrix.name)]
            order = (*outermost_first(columns, out), *outermost_first(rows, matrix))
            return in_parts(step, step.axes, [moved_to(emission, out, "turned", order)])
    sides = _sides(step, nearest)
    if sides is None:
        return None
    last = _columns_last(step, nearest, sides, machine)
    if last is not None:
        return in_parts(step, step.axes, [moved_to(emission, out, "turned", last)])
    return _joined_rows(emission, step, nearest, sides, machine)


def turned_runs(emission: Emission, step: Step) -> InParts | None:
    """A matrix times a vector with its result as the rows of the matrix follow each other; None
    where those that do in the result as well are many."""
    out = step.output
    if len(step.inputs) != 2 or not step.reductions or not starts_where_it_moves(step):
        return None
    free = axes_of(out, step)
    matrix = max(step.inputs, key=lambda one: elements_of(one, step))
    along = outermost_first(free, matrix)
    if len(free) < 2 or not all(axis.stride(matrix.name) for axis in free):
        return None
    if along == outermost_first(free, out):
        return None
    adjacent = next((axis for axis in step.reductions if is_adjacent(axis, matrix)), None)
    if adjacent is None:
        return None
    if not _runs_across_lanes(step, nearest_of(free, out), adjacent, matrix):
        block_bytes = along[-1].extent * along[-1].stride(matrix.name)
        is_long = block_bytes > LONG_RUN_BYTES and adjacent.extent > _FEW_IN_A_ROW
        if is_long or extent_of(step.reductions) < _LONG_SUM:
            return None
    return in_parts(step, step.axes, [moved_to(emission, out, "turned", along)])


def _runs_across_lanes(step: Step, nearest: Span, adjacent: Span, matrix: Tensor) -> bool:
    """True where lanes would run along a batch for which all of the matrix is packed, and no dot
    of both inputs' rows is as good. Measured on Zen 4, sums of 2 to 15 products: 0.02 to 0.9 of the
    time, a few of 2 us 1.4."""
    has_dots = all(
        is_adjacent(adjacent, one) or not adjacent.stride(one.name) for one in step.inputs
    )
    return is_batch(nearest, step) and not is_adjacent(nearest, matrix) and not has_dots


def _is_across(step: Step, nearest: Span, matrix: Tensor, machine: Machine) -> bool:
    """True where moving the result lets lanes, or sums, run along what lies in the matrix."""
    out = step.output
    free = axes_of(out, step)
    adjacent = next((axis for axis in step.axes if is_adjacent(axis, matrix)), None)
    if adjacent is None:
        return False
    if adjacent is nearest:
        return _has_short_runs(step, matrix)
    columns = extent_of([axis for axis in free if not axis.stride(matrix.name)])
    elements, results = elements_of(matrix, step), extent_of(free)
    is_cheap = elements >= _FEWEST_ELEMENTS * results
    if columns == 1:
        return is_cheap and adjacent.stride(out.name) > 0
    if not adjacent.stride(out.name):
        return _has_turned_rows(step, nearest, matrix) and elements >= _LONG_SUM * results
    if is_batch(adjacent, step):
        return False
    run = run_bytes(adjacent, [a for a in free if a.stride(matrix.name)], matrix)
    row = nearest.extent * out.data_type.width
    if run < LINE_BYTES and run < 2 * row:
        return False
    if not nearest.stride(matrix.name):
        lanes = machine.lanes(out.data_type.accumulator.width)
        return is_cheap and columns <= _FEW_VECTORS * lanes
    if is_cheap and columns <= _most_columns(step, adjacent, matrix, machine):
        return True
    if nearest.extent * out.data_type.width >= LINE_BYTES or is_batch(nearest, step):
        return False
    return extent_of(step.reductions) >= _least_sum(step, nearest, matrix, machine)


def _least_sum(step: Step, nearest: Span, matrix: Tensor, machine: Machine) -> int:
    """Products of a result from which vectors with few rows in them cost more than moving it.

    Fewer for rows of some elements that none of the matrix follow. Measured on Golden Cove: FP32
    0.47 of the time in the mean (0.13 to 1.03), FP64 0.70 (0.36 to 1.23); rows of 40 bytes and more
    in FP64 0.7 to 1.2.
    """
    rows = [axis for axis in axes_of(matrix, step) if axis.stride(step.output.name)]
    run = run_bytes(nearest, rows, step.output)
    if not machine.has_far_third_cache or run > _SOME_BYTES:
        return _LONGER_SUM
    return min(_LONGER_SUM, _SUM_OF_SOME * nearest.extent)


def _has_short_runs(step: Step, matrix: Tensor) -> bool:
    """True for a matrix times a vector whose result goes on as the matrix does in short runs alone.

    Rows of the matrix as it lies are swept as a whole; with batches inside them only where the sum
    lies outside. Measured on Golden Cove, runs of 16 bytes to 1.2 KB: 0.3 to 0.9 of the time; of
    256 bytes and sums of 8 products 1.3, batches inside rows that the sum cuts 10.
    """
    free = axes_of(step.output, step)
    if not all(axis.stride(matrix.name) for axis in free):
        return False
    along = outermost_first(free, matrix)
    longest = along[0].stride(matrix.name)
    is_cut = any(axis.stride(matrix.name) < longest for axis in step.reductions)
    if is_cut and any(is_batch(axis, step) for axis in along[1:]):
        return False
    results = extent_of(free)
    if elements_of(matrix, step) < _FEWEST_ELEMENTS * results:
        return False
    width = step.output.data_type.width
    run, total = width * in_both(along, step.output), width * results
    is_long_sum = extent_of(step.reductions) >= _LONG_SUM
    return run < total and run <= (LONG_RUN_BYTES if is_long_sum else 2 * LINE_BYTES)


def _most_columns(step: Step, adjacent: Span, matrix: Tensor, machine: Machine) -> int:
    """Columns up to which rows that lie across the result are read where they are.

    More where packing them would read every line of the matrix again and again: where the few
    elements adjacent there are far apart in the result. Measured on Zen 4, 12 to 160 columns: 0.3
    to 0.9 of the time; of longer runs 0.4 to 0.7 where the second cache holds the matrix, 0.8 to
    1.6 where it does not.
    """
    width = matrix.data_type.width
    is_near = elements_of(matrix, step) * width <= machine.l2_bytes
    if adjacent.extent * width >= (_SHORT_LINES if is_near else 1) * LINE_BYTES:
        return _FEW_COLUMNS
    rows = [axis for axis in axes_of(matrix, step) if axis.stride(step.output.name)]
    alone = [axis for axis in rows if not is_batch(axis, step)]
    return _FEW_COLUMNS * (run_bytes(adjacent, alone, matrix) // width)


def _has_turned_rows(step: Step, nearest: Span, matrix: Tensor) -> bool:
    """True for a few columns of dots whose rows the result holds in another order, no batches."""
    free = axes_of(step.output, step)
    rows = [axis for axis in free if axis.stride(matrix.name)]
    columns = extent_of([axis for axis in free if not axis.stride(matrix.name)])
    if columns > _FEW_DOTS or not nearest.stride(matrix.name):
        return False
    if any(is_batch(axis, step) for axis in rows):
        return False
    return outermost_first(rows, matrix) != outermost_first(rows, step.output)


class _Sides(NamedTuple):
    """The operand whose rows lie nearest in the result, and the other one; the axes of the result,
    outermost first: those both have, the rows' own, and the other's own."""

    rows: Tensor
    other: Tensor
    batch: tuple[Span, ...]
    along: tuple[Span, ...]
    columns: tuple[Span, ...]


def _sides(step: Step, nearest: Span) -> _Sides | None:
    """None where both operands have the nearest axis, or neither has."""
    first, second = step.inputs
    if bool(nearest.stride(first.name)) == bool(nearest.stride(second.name)):
        return None
    rows, other = (first, second) if nearest.stride(first.name) else (second, first)
    free = outermost_first(axes_of(step.output, step), step.output)
    return _Sides(
        rows,
        other,
        tuple(axis for axis in free if is_batch(axis, step)),
        tuple(axis for axis in free if not axis.stride(other.name)),
        tuple(axis for axis in free if not axis.stride(rows.name)),
    )


def _columns_last(
    step: Step, nearest: Span, sides: _Sides, machine: Machine
) -> tuple[Span, ...] | None:
    """The axes of the result with the columns innermost; None where its short rows are as good.

    Rows that lie along the sum are read in place where lanes run along the columns of the other
    operand. Measured on Golden Cove, rows of 2 to 6 and 14 to 160 columns: 0.2 to 1.0 of the time;
    of 5 to 14 in an operand of 5 to 14 MB, 30 to 160 columns, 0.47 to 1.02.
    """
    out, (rows, other, batch, along, columns) = step.output, sides
    is_large = elements_of(rows, step) * rows.data_type.width >= _LARGE_BYTES
    row_bytes = nearest.extent * out.data_type.width
    is_short = row_bytes < (LINE_BYTES if is_large else LINE_BYTES // 2)
    is_along_sum = any(is_adjacent(axis, rows) for axis in step.reductions)
    last = next((axis for axis in columns if is_adjacent(axis, other)), None)
    if last is None or not is_short or not is_along_sum:
        return None
    together = run_of(last, columns, other)
    fills_lanes = 2 * extent_of(together) >= machine.lanes(out.data_type.accumulator.width)
    if not fills_lanes or elements_of(rows, step) < elements_of(out, step):
        return None
    others = [axis for axis in columns if axis not in together]
    return (*batch, *outermost_first(others, other), *outermost_first(along, rows), *together)


def _joined_rows(
    emission: Emission, step: Step, nearest: Span, sides: _Sides, machine: Machine
) -> InParts | None:
    """The step with short rows next to each other, in the operand that has them and the result."""
    out, (rows, other, batch, along, columns) = step.output, sides
    if len(along) < 2:
        return None
    # Rows that follow each other in the result are packed as one without this.
    if along[-2].stride(out.name) == nearest.extent * nearest.stride(out.name):
        return None
    if not _pays_joining(step, nearest, sides, machine):
        return None
    sums = outermost_first(step.reductions, other)
    return in_parts(
        step,
        step.axes,
        [
            moved_to(emission, rows, "joined", (*batch, *sums, *along)),
            moved_to(emission, out, "joined", (*batch, *columns, *along)),
        ],
    )


def _pays_joining(step: Step, nearest: Span, sides: _Sides, machine: Machine) -> bool:
    """True for short rows that many columns meet, the fewer the more lanes a row leaves empty; or
    pairs of a small operand, or in batches, that some do."""
    rows, _, batch, _, columns = sides
    met, summed = extent_of(columns), extent_of(step.reductions)
    if nearest.extent * step.output.data_type.width >= LINE_BYTES:
        return False
    is_small = elements_of(rows, step) < extent_of((*batch, *step.reductions, *columns))
    is_pair = nearest.extent == 2 and (is_small or batch)
    if is_pair and met >= _FEWEST_OF_PAIRS and summed >= _SUM_OF_PAIRS:
        return True
    lanes = machine.lanes(step.output.data_type.accumulator.width)
    lost = met * max(1, lanes // nearest.extent - 1)
    return lost >= _FEWEST_MET and summed >= _LONGER_SUM and not batch
