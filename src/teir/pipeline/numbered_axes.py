"""tensordot and transpose: the functions on arrays that name axes by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teir.arrays.adapters import view_array
from teir.arrays.integers import as_integer
from teir.errors import Rule, TeirError, at_argument, refuse
from teir.expr.parsing import symbol_of
from teir.pipeline.einsum import einsum

AXES = Rule(
    code="TEIR615",
    sentence="axes name distinct axes of the array, as numpy.tensordot and numpy.transpose take "
    "them.",
    source="numpy",
)

EXTENTS = Rule(
    code="TEIR626",
    sentence="Axes that are summed together have equal extents.",
    source="numpy.tensordot",
)


def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    out: Any = None,
    threads: int | None = None,
    overlap: str = "refuse",
) -> Any:
    """As `numpy.tensordot`: ``axes`` is a count, or a pair of axes or of axis lists."""
    shape_a, shape_b = _shape("operand 0", a), _shape("operand 1", b)
    rank_a, rank_b = len(shape_a), len(shape_b)
    left, right = _summed_axes(axes, rank_a, rank_b)
    _require_equal_extents([shape_a[place] for place in left], [shape_b[place] for place in right])
    names_a = [symbol_of(place) for place in range(rank_a)]
    names_b = [symbol_of(rank_a + place) for place in range(rank_b)]
    for place, other in zip(left, right, strict=True):
        names_b[other] = names_a[place]
    kept = [name for place, name in enumerate(names_a) if place not in left]
    kept += [name for place, name in enumerate(names_b) if place not in right]
    text = f"{''.join(names_a)},{''.join(names_b)}->{''.join(kept)}"
    return einsum(text, a, b, out=out, threads=threads, overlap=overlap)


def transpose(
    a: Any,
    axes: Sequence[int] | None = None,
    *,
    out: Any = None,
    threads: int | None = None,
    overlap: str = "refuse",
) -> Any:
    """The array with its axes permuted, as a new C-contiguous array (not a view) or in ``out``.

    ``axes`` as in `numpy.transpose`; None reverses them.
    """
    rank = len(_shape("operand 0", a))
    order = list(range(rank))[::-1] if axes is None else _axes(axes, rank)
    if sorted(order) != list(range(rank)):
        raise _axes_refusal(f"a permutation of {rank} axes", repr(axes))
    names = [symbol_of(place) for place in range(rank)]
    text = f"{''.join(names)}->{''.join(names[place] for place in order)}"
    return einsum(text, a, out=out, threads=threads, overlap=overlap)


def _shape(name: str, array: Any) -> Sequence[int]:
    try:
        shape = getattr(array, "shape", None)
    except RuntimeError:  # nested tensors of PyTorch have none, and are refused
        shape = None
    return shape if isinstance(shape, tuple) else view_array(name, array).shape


def _require_equal_extents(left: Sequence[int], right: Sequence[int]) -> None:
    """An einsum repeats extents of 1; tensordot does not."""
    if list(left) != list(right):
        expected = f"the extents {tuple(left)} of the axes of operand 0"
        found = f"{tuple(right)} in operand 1"
        refuse(EXTENTS, "axes", expected, found)


def _summed_axes(axes: Any, rank_a: int, rank_b: int) -> tuple[list[int], list[int]]:
    count = as_integer(axes)
    if count is not None:
        if not 0 <= count <= min(rank_a, rank_b):
            raise _axes_refusal(f"0 to {min(rank_a, rank_b)} axes", repr(axes))
        return list(range(rank_a - count, rank_a)), list(range(count))
    try:
        first, second = axes
    except (TypeError, ValueError):
        raise _axes_refusal("a count or a pair of axis lists", repr(axes)) from None
    left, right = _axes(first, rank_a), _axes(second, rank_b)
    if len(left) != len(right) or len(set(left)) < len(left) or len(set(right)) < len(right):
        raise _axes_refusal("two lists of as many distinct axes", repr(axes))
    return left, right


def _axes(axes: Any, rank: int) -> list[int]:
    try:
        places = list(axes)
    except TypeError:
        places = [axes]
    return [_axis(place, rank) for place in places]


def _axis(place: object, rank: int) -> int:
    number = as_integer(place)
    if number is None or not -rank <= number < rank:
        raise _axes_refusal(f"axes from {-rank} to {rank - 1}", repr(place))
    return number % rank


def _axes_refusal(expected: str, found: str) -> TeirError:
    return TeirError((at_argument(AXES, "axes", expected, found),))
