"""How a two-input step is seen as a matrix product: which axes are M, N, K and C.

Kinds follow from strides alone (Table 10.6.1): an axis the output does not move along is K, one
that moves both inputs is C, one that moves the first input is M, the second N.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from teir.ir.nodes import Tensor
from teir.passes.cache_blocks import reduction_depth
from teir.search.step import Span, Step, is_adjacent

PIECE_BYTES = 64
"""Bytes of what lies together in A that a block of reductions holds at least."""
_FROM_MEMORY_BYTES = 16 << 20
"""A matrix from which on it is read as it lies, on every machine: sums are taken in that order."""
FEWEST_ROW_BYTES = 32
"""Of rows of a matrix from memory that are read as they lie."""
FEWEST_RUNS = 8
"""Runs of a matrix, fewer of which prefetchers follow side by side as well as one."""
_RUN_BYTES = 640
"""Bytes of B that lie together below which reading it in place is slow."""
_NEAR_BYTES = 512 << 10
_FEW_RESULTS = 4
_MIDDLE_BYTES, _LONG_SUM = 4 << 20, 40
"""An output so small stays in the second cache, and one of so few elements beside B, or no larger
and of so long sums, is cheap to write: its columns may lie far apart. Measured on Zen 4, B larger:
0.2 to 0.9 of the time; long sums on Golden Cove, 0.74 to 0.99."""
_MANY_TOGETHER, _FEW_TOGETHER, _MOST_APART = 12, 6, 24
"""Columns that keep the units busy; and that do while short sums wait for results that leave the
second cache, whose lines and pages are met again for columns far apart; and those of the axis that
is farther apart, at most: more are cut into blocks (`teir.search.shared_lines`). Measured on Zen 4,
drawn ones of 2 to 45 MB: 0.10 to 1.25 of the time, 0.48 (FP64) and 0.85 (FP32) in the mean."""


class ProductShape(msgspec.Struct, frozen=True, gc=False):
    """A product step: A carries the lanes, B is broadcast; every list outermost first.

    ``m`` is the axis of the lanes (the smallest stride on the output), ``n`` the axis of the
    columns if there is one. ``is_kept`` as in `Step`; ``stands``: A is one of its standing inputs.
    """

    a: Tensor
    b: Tensor
    out: Tensor
    c: tuple[Span, ...]
    m: Span | None
    m_outer: tuple[Span, ...]
    n: Span | None
    n_outer: tuple[Span, ...]
    k: tuple[Span, ...]
    is_kept: bool = False
    stands: bool = False

    @property
    def rows(self) -> int:
        total = 1 if self.m is None else self.m.extent
        for axis in self.m_outer:
            total *= axis.extent
        return total

    @property
    def columns(self) -> int:
        total = 1 if self.n is None else self.n.extent
        for axis in self.n_outer:
            total *= axis.extent
        return total

    @property
    def has_adjacent_rows(self) -> bool:
        """True for rows of one type that are adjacent in A and in the result."""
        if self.m is None or self.a.data_type is not self.out.data_type:
            return False
        width = self.a.data_type.width
        return self.m.stride(self.a.name) == self.m.stride(self.out.name) == width


def product_shape(step: Step) -> ProductShape | None:
    """The shape of a two-input step; None when the lanes belong to a C axis."""
    a, b = step.inputs
    out = step.output
    free: list[Span] = []
    batch: list[Span] = []
    m_axes: list[Span] = []
    n_axes: list[Span] = []
    reductions: list[Span] = []
    lanes, nearest = None, (0, 0)
    for axis in step.axes:
        strides = axis.strides
        in_out = strides.get(out.name)
        if not in_out:
            reductions.append(axis)
            continue
        free.append(axis)
        place = in_out, -axis.extent
        if lanes is None or place < nearest:
            lanes, nearest = axis, place
        if not strides.get(b.name):
            m_axes.append(axis)
        elif strides.get(a.name):
            batch.append(axis)
        else:
            n_axes.append(axis)
    if lanes in batch:
        return None
    if lanes in n_axes:
        a, b, m_axes, n_axes = b, a, n_axes, m_axes
    # No two elements of an output lie at one place, so no other row is as near.
    m = lanes
    n = n_axes[0] if n_axes else None
    if len(n_axes) > 1:
        in_b = extent_of([*n_axes, *batch, *reductions])
        n = _best_columns(n_axes, b, out, in_b, extent_of(free), extent_of(reductions))
    if m is not None:
        m_axes.remove(m)
    if n is not None:
        n_axes.remove(n)
    k = tuple(reductions)
    if len(k) > 1:
        is_in_rows = n is None and m is not None and _has_rows(m, a)
        is_matrix = is_in_rows and comes_from_memory(a, step.axes)
        if is_matrix and not _is_few_runs(k, free, a):
            k = outermost_first(k, a)
        else:
            k = _in_lines(_reduction_order(k, a, b), a, out)
    return ProductShape(
        a=a,
        b=b,
        out=out,
        c=outermost_first(batch, out),
        m=m,
        m_outer=outermost_first(m_axes, out),
        n=n,
        n_outer=outermost_first(n_axes, out),
        k=k,
        is_kept=step.is_kept,
        stands=a.name in step.standing,
    )


def _best_columns(
    axes: Sequence[Span], b: Tensor, out: Tensor, in_b: int, results: int, summed: int
) -> Span:
    """The axis of the columns of a tile; ``in_b``: elements of B, ``summed``: products of a sum."""
    is_short = summed < _LONG_SUM
    is_small = results * out.data_type.width <= (_NEAR_BYTES if is_short else _MIDDLE_BYTES)
    is_near = is_small or in_b >= _FEW_RESULTS * results
    usual = max(axes, key=lambda axis: _column_worth(axis, b, out, is_near, _MANY_TOGETHER))
    if not is_short or is_near or usual.extent > _MOST_APART:
        return usual
    return max(axes, key=lambda axis: _column_worth(axis, b, out, is_near, _FEW_TOGETHER))


def _column_worth(
    axis: Span, b: Tensor, out: Tensor, is_near: bool, enough: int
) -> tuple[int, bool, int]:
    """So many columns as are ``enough``, and of those the ones adjacent in B where the output
    ``is_near`` or small, else the ones close in it."""
    is_unit = axis.strides.get(b.name) == b.data_type.width
    return min(axis.extent, enough), is_near and is_unit, -axis.strides[out.name]


def comes_from_memory(matrix: Tensor, axes: Sequence[Span]) -> bool:
    """True for so large a tensor, on the axes of those that move it."""
    elements = extent_of([axis for axis in axes if axis.stride(matrix.name)])
    return elements * matrix.data_type.width >= _FROM_MEMORY_BYTES


def outermost_first(axes: Sequence[Span], tensor: Tensor) -> tuple[Span, ...]:
    """The axes in the order of their strides on ``tensor``, the largest first."""
    if len(axes) < 2:
        return tuple(axes)
    name = tensor.name
    return tuple(sorted(axes, key=lambda axis: axis.strides.get(name, 0), reverse=True))


def _reduction_order(axes: Sequence[Span], a: Tensor, b: Tensor) -> tuple[Span, ...]:
    """Innermost the axis adjacent in B, then adjacent in A, then the shortest strides."""

    def far(axis: Span) -> tuple[bool, bool, int]:
        in_a, in_b = axis.strides.get(a.name, 0), axis.strides.get(b.name, 0)
        return (in_b != b.data_type.width, in_a != a.data_type.width, in_a + in_b)

    return tuple(sorted(axes, key=far, reverse=True))


def _has_rows(m: Span, a: Tensor) -> bool:
    """True for lanes that are adjacent in A, and enough."""
    return is_adjacent(m, a) and m.extent * a.data_type.width >= FEWEST_ROW_BYTES


def _is_few_runs(k: Sequence[Span], free: Sequence[Span], a: Tensor) -> bool:
    """True where sums that lie outside all others in A are short: A is then a few long runs."""
    farthest = max((axis.stride(a.name) for axis in free), default=0)
    outside = [axis for axis in k if axis.stride(a.name) > farthest]
    return bool(outside) and extent_of(outside) < FEWEST_RUNS


def _in_lines(k: tuple[Span, ...], a: Tensor, out: Tensor) -> tuple[Span, ...]:
    """Cut the innermost sum where a block of it would hold short pieces of the lines of A.

    A is adjacent along another axis: a block of both reads whole lines of A and runs of B.
    """
    width = a.data_type.width
    if k[-1].stride(a.name) == width or k[-2].stride(a.name) != width:
        return k
    depth = reduction_depth(out.data_type.accumulator)
    for pieces in (PIECE_BYTES // width, PIECE_BYTES // width // 2):
        pieces = min(k[-2].extent, pieces)
        if 2 * pieces * k[-1].extent <= 3 * depth:
            return k
        run = max(run for run in range(1, depth // pieces + 1) if k[-1].extent % run == 0)
        if run * width >= _RUN_BYTES:
            outer, inside = k[-1].split(run)
            return (outer, *k[:-1], inside)
    return k


def extent_of(axes: Sequence[Span]) -> int:
    """The number of points of the axes together."""
    total = 1
    for axis in axes:
        total *= axis.extent
    return total


def dense(axes: Sequence[Span], width: int) -> dict[int, int]:
    """Strides without gaps by the identity of the axis; ``axes`` outermost first."""
    strides: dict[int, int] = {}
    for axis in reversed(axes):
        strides[id(axis)] = width
        width *= axis.extent
    return strides


def some(axis: Span | None) -> tuple[Span, ...]:
    """The axis if there is one."""
    return () if axis is None else (axis,)
