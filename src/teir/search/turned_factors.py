"""Small operands laid as what they meet lies, before the product.

    out[x] = sum of A[x, y, k] * B[k, y]:  B'[y, k] = B;  long sums
    out[x] = sum of A[y, k, x] * B[k, y]:  B'[y, k] = B;  long rows, or rows of a few elements
    out[x, y, z] = A[z, y] * b[x]:  A'[y, z] = A;  long rows

Measured on Zen 4: `acb,bc->a` took 0.02 to 0.25 of the time, outer products like `cab,d->dabc` 0.04
to 0.6, and those whose rows lie in A in pieces of less than a line, `acb,d->dcab`, 0.13 to 0.9;
`cda,dc->a`, whose rows are then swept as they follow each other, 0.40 to 1.05; rows of two to four
elements, like `dacb,cd->dab` and `mde,ed->me`, 0.11 to 1.1, 0.45 in the mean.
"""

from __future__ import annotations

from teir.ir.nodes import Tensor
from teir.search.emission import Emission
from teir.search.in_parts import (
    InParts,
    axes_of,
    in_parts,
    moved_to,
    nearest_of,
    run_bytes,
    run_of,
    starts_where_it_moves,
)
from teir.search.joined_dots import FEW, FEWEST_SHORT_ROWS, are_joined
from teir.search.machine import Machine
from teir.search.packing import all_follow
from teir.search.shape import extent_of, outermost_first
from teir.search.spread_factors import spread_factor
from teir.search.step import Span, Step, elements_of, is_adjacent
from teir.search.sweeps import SHORTEST_ROW_BYTES
from teir.target import LINE_BYTES

_FEWEST_READS = 4
"""Uses of an element of a factor from which moving it costs little beside them. Of a dot, whose
blocks are turned where they are fewer."""
_WIDE_ROW_BYTES, _MOST_OF_WIDE_ROWS = 32, 2**13
"""Bytes of rows that fill half a vector, and of their factors at most: of more, read again for
every row of results, blocks of rows took as little as 0.7 of the time."""
_FEWEST_LANES = 3
"""Elements in a row of an outer product that are made side by side."""


def turned_factor(emission: Emission, step: Step, machine: Machine) -> InParts | None:
    """The step with a small operand as what it meets lies, along which lanes run; else None."""
    if len(step.inputs) != 2 or not step.axes or not starts_where_it_moves(step):
        return None
    if not step.reductions:
        return _turned_factors(emission, step) or spread_factor(emission, step)
    small, large = sorted(step.inputs, key=lambda one: elements_of(one, step))
    free = axes_of(step.output, step)
    if not all(axis.stride(large.name) for axis in free):
        return None
    if not free and elements_of(large, step) < _FEWEST_READS * elements_of(small, step):
        return None
    if _are_swept_across(step, large, small):
        order = outermost_first(step.reductions, large)
        return in_parts(step, step.axes, [moved_to(emission, small, "turned", order)])
    adjacent = next((axis for axis in step.reductions if is_adjacent(axis, large)), None)
    if adjacent is None:
        is_across = _go_on_behind_short_rows(step, large, small, machine)
    else:
        is_long = run_bytes(adjacent, step.reductions, large) >= LINE_BYTES
        is_across = is_long and adjacent.stride(small.name) > small.data_type.width
    if not is_across:
        return None
    axes = axes_of(small, step)
    shared = [axis for axis in axes if axis.stride(large.name)]
    # What the large operand repeats on stays out of its runs.
    others = [axis for axis in axes if not axis.stride(large.name)]
    order = (*outermost_first(others, small), *outermost_first(shared, large))
    return in_parts(step, step.axes, [moved_to(emission, small, "turned", order)])


def _go_on_behind_short_rows(step: Step, large: Tensor, small: Tensor, machine: Machine) -> bool:
    """True for long sums that go on where a row of a few elements of the large operand ends, and
    not so in the other one, which is much smaller."""
    row = next((axis for axis in axes_of(step.output, step) if is_adjacent(axis, large)), None)
    if row is None or row.extent > FEW:
        return False
    width = large.data_type.width
    elements, factors = elements_of(large, step), elements_of(small, step)
    if row.extent * width >= _WIDE_ROW_BYTES and factors * width > _MOST_OF_WIDE_ROWS:
        return False
    fewest = 2 if elements * width <= machine.l2_bytes else _FEWEST_READS
    if elements < fewest * factors:
        return False
    behind = run_of(row, step.reductions, large)[:-1]
    if extent_of(behind) < FEWEST_SHORT_ROWS or not all(one.stride(small.name) for one in behind):
        return False
    return len(behind) > 1 or not are_joined(row, behind[0], small)


def _are_swept_across(step: Step, large: Tensor, small: Tensor) -> bool:
    """True for a vector times a matrix of long rows that follow each other along several sums, and
    not as the factors of the vector do."""
    sums = outermost_first(step.reductions, large)
    if len(sums) < 2 or any(axis.stride(small.name) for axis in axes_of(step.output, step)):
        return False
    if not all(one.stride(small.name) for one in sums):
        return False
    rows = axes_of(step.output, step)
    adjacent = next((axis for axis in rows if is_adjacent(axis, large)), None)
    if adjacent is None or not all_follow(sums, large.name):
        return False
    return run_bytes(adjacent, rows, large) >= SHORTEST_ROW_BYTES


def _turned_factors(emission: Emission, step: Step) -> InParts | None:
    """The factors of an outer product that carry its lanes as the output lies."""
    out = step.output
    nearest, results = nearest_of(step.axes, out), extent_of(step.axes)
    moved = []
    for tensor in step.inputs:
        axes = axes_of(tensor, step)
        run = run_bytes(nearest, axes, out)
        if not nearest.stride(tensor.name):
            continue
        if is_adjacent(nearest, tensor) and not _is_cut(nearest, run, out):
            continue
        is_long = nearest.extent >= _FEWEST_LANES or run >= LINE_BYTES
        if is_long and _FEWEST_READS * extent_of(axes) <= results:
            moved.append(moved_to(emission, tensor, "turned", outermost_first(axes, out)))
    return in_parts(step, step.axes, moved) if moved else None


def _is_cut(nearest: Span, run: int, out: Tensor) -> bool:
    """True for a run of results whose factors lie in pieces of less than a line."""
    return nearest.extent * out.data_type.width < LINE_BYTES <= run
