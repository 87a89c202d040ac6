"""A path as a tree of meetings: which tensors meet, and which indices every result keeps.

An index that only one operand of a pair has, and nobody needs later, is summed before the pair
meets: it costs one pass instead of one factor of the product's work. Operands of another type than
the computation's are converted first.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from teir.search.contraction import Contraction, Factor, Path


class Given(msgspec.Struct, frozen=True, gc=False):
    """An operand of the contraction."""

    factor: Factor

    @property
    def order(self) -> tuple[str, ...]:
        return self.factor.order

    @property
    def adjacent(self) -> str | None:
        return self.factor.adjacent


class Meeting(msgspec.Struct, frozen=True, gc=False):
    """One or two tensors and the indices of their product, summed over all others.

    ``order`` is the usual order of the result, outermost first; ``written`` the order an einsum
    tree gave it, if one did.
    """

    parts: tuple[Part, ...]
    order: tuple[str, ...]
    written: tuple[str, ...] | None = None

    @property
    def adjacent(self) -> str | None:
        return self.order[-1] if self.order else None


Part = Given | Meeting


def only_step(contraction: Contraction, path: Path) -> tuple[Factor, Factor] | None:
    """The factors of the one step that does it all; None where the tree has more than one meeting.

    Two operands of the type of the computation, no index of which is summed before they meet.
    """
    if len(path) != 1 or len(path[0]) != 2 or len(contraction.inputs) != 2:
        return None
    one, two = map(contraction.inputs.__getitem__, path[0])
    kept, compute = contraction.output.strides, contraction.compute
    if one.tensor.data_type is not compute or two.tensor.data_type is not compute:
        return None
    for index in one.strides:
        if index not in two.strides and index not in kept:
            return None
    for index in two.strides:
        if index not in one.strides and index not in kept:
            return None
    return one, two


def meetings_below(root: Meeting) -> list[Meeting]:
    """Every meeting of the tree, parts before what they make; a chain may be long."""
    found: list[Meeting] = []
    waiting = [root]
    while waiting:
        meeting = waiting.pop()
        found.append(meeting)
        waiting += [part for part in meeting.parts if isinstance(part, Meeting)]
    return found[::-1]


def meeting_tree(
    contraction: Contraction, path: Path, results: Sequence[Sequence[str]] | None
) -> Meeting:
    """The meetings along ``path``; the root is the one that makes the output.

    ``results`` are the indices of every step's result where a tree wrote them.
    """
    parts: list[Part] = [_converted(factor, contraction) for factor in contraction.inputs]
    for number, places in enumerate(path):
        taken = [parts[place] for place in places]
        parts = [part for place, part in enumerate(parts) if place not in places]
        needed = {index for part in parts for index in part.order}
        needed.update(contraction.output.strides)
        if number == len(path) - 1:
            return _last(taken, needed, contraction)
        written = None if results is None else tuple(results[number])
        parts.append(_written(_meet(taken, needed), written))
    raise ValueError("a path has at least one step")


def _converted(factor: Factor, contraction: Contraction) -> Part:
    given = Given(factor)
    if contraction.is_copy or factor.tensor.data_type is contraction.compute:
        return given
    return Meeting((given,), given.order)


def _last(parts: Sequence[Part], needed: set[str], contraction: Contraction) -> Meeting:
    if len(parts) > 1:
        left = _meet(parts[:-1], needed | set(parts[-1].order)) if len(parts) > 2 else parts[0]
        parts = _summed_alone(left, parts[-1], needed)
    return Meeting(tuple(parts), contraction.output.order)


def _meet(parts: Sequence[Part], needed: set[str]) -> Part:
    """The product of some parts, summed over every index nobody needs any more."""
    left, *others = parts
    if not others:
        return _summed(left, needed)
    for number, right in enumerate(others):
        later = {index for part in others[number + 1 :] for index in part.order}
        one, two = _summed_alone(left, right, needed | later)
        left = Meeting((one, two), _result_order(one, two, needed | later))
    return left


def _summed_alone(one: Part, two: Part, wanted: set[str]) -> tuple[Part, Part]:
    first = set(one.order), set(two.order)
    return (
        _summed(one, wanted | first[1]) if first[1] - first[0] else one,
        _summed(two, wanted | first[0]) if first[0] - first[1] else two,
    )


def _summed(part: Part, needed: set[str]) -> Part:
    if set(part.order) <= needed:
        return part
    return Meeting((part,), tuple(index for index in part.order if index in needed))


def _written(part: Part, written: tuple[str, ...] | None) -> Part:
    """``part`` with the order a tree gave it; a permutation of an operand is a meeting too."""
    if written is None:
        return part
    kept = tuple(index for index in written if index in part.order)
    match part:
        case Meeting(written=None):
            return Meeting(part.parts, part.order, kept)
        case Given() if kept != part.order:
            return Meeting((part,), part.order, kept)
        case _:
            return part


def _result_order(one: Part, two: Part, wanted: set[str]) -> tuple[str, ...]:
    """Indices of an intermediate, outermost first: those of both, of one part, of the other.

    Last come the indices of the part whose adjacent index survives, so that its lanes are
    adjacent in both.
    """
    both = [index for index in one.order if index in two.order and index in wanted]
    free_one = [index for index in one.order if index in wanted and index not in both]
    free_two = [index for index in two.order if index in wanted and index not in both]
    if two.adjacent in free_two or one.adjacent not in free_one:
        return (*both, *free_one, *free_two)
    return (*both, *free_two, *free_one)
