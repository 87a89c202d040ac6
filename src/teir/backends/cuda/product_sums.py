"""In which order a product walks K: digits of one number, and how many of it are one step.

Lanes read adjacent bytes where a step holds several neighbours along the axis that is contiguous.
Where the two inputs are contiguous along two axes of K, a step holds some of both: 4 x 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from teir.backends.cuda.problem import ContractionProblem, unit_axis
from teir.backends.cuda.text import computed
from teir.dtypes import DataType
from teir.lower.axes import TileAxis

DEPTH = 16
_AS_THEY_ARE = (DataType.FP32, DataType.FP64, DataType.C64, DataType.C128)


def depth_of(problem: ContractionProblem, sums: Sequence[int]) -> int:
    """The places along K of a step: 8 where 16 would be filled up with zeros.

    Tensor cores take 16. Numbers that are converted pass through registers, of which few are left.
    """
    summed = prod(problem.axes[at].extent for at in sums)
    if is_double(problem):
        return DEPTH
    if not all(is_copied(problem, side) for side in (0, 1)):
        return DEPTH // 2
    # A step costs as much as one of its products more: it waits for all threads.
    return min((DEPTH, DEPTH // 2), key=lambda depth: -(-summed // depth) * (depth + 1))


def sum_digits(
    problem: ContractionProblem, sums: Sequence[int], depth: int
) -> tuple[TileAxis, ...]:
    """The axes of K, or parts of them, fastest first; a part has its own stride."""
    axes = problem.axes
    units = [at for side in (0, 1) for at in sums if unit_axis(problem, side) == at]
    first = list(dict.fromkeys(units))
    others = [axes[at] for at in sums if at not in first]
    if len(first) < 2:
        return (*(axes[at] for at in first), *others)
    left, right = (axes[at] for at in first)
    for inner in _squarest(depth):
        if left.extent % inner == 0 and right.extent % (depth // inner) == 0:
            parts = (_parts(left, inner), _parts(right, depth // inner))
            found = [one for pair in zip(*parts, strict=True) for one in pair]
            return (*(one for one in found if one.extent > 1), *others)
    return (left, right, *others)


def is_double(problem: ContractionProblem) -> bool:
    """Is it one for the tensor cores?"""
    return all(one.data_type is DataType.FP64 for one in problem.operands)


def is_copied(problem: ContractionProblem, side: int) -> bool:
    """Does an input lie in shared memory as it does in global memory?"""
    kind, out = problem.operands[side].data_type, problem.operands[2].data_type
    return kind in _AS_THEY_ARE and computed(kind) == computed(out)


def _squarest(depth: int) -> list[int]:
    factors = [one for one in range(2, depth) if depth % one == 0]
    return sorted(factors, key=lambda one: max(one, depth // one))


def _parts(axis: TileAxis, inner: int) -> tuple[TileAxis, TileAxis]:
    """Neighbours, and groups of them."""
    strides = tuple(inner * stride for stride in axis.strides)
    return TileAxis(inner, axis.strides), TileAxis(axis.extent // inner, strides)
