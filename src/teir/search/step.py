"""One step of a contraction: at most two tensors in, one out, strided axes, no names of letters.

Normalising a step keeps its meaning: axes of extent 1 go, neighbouring axes fuse (rule of section
5.5.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from teir.ir.nodes import Tensor


class Span(msgspec.Struct, frozen=True, gc=False):
    """An axis while a program is made: extent, and bytes per tensor (absent = 0).

    ``label`` is the name the program's axes grow from.
    """

    label: str
    extent: int
    strides: Mapping[str, int]
    offsets: Mapping[str, int]

    def stride(self, tensor: str) -> int:
        return self.strides.get(tensor, 0)

    def split(self, block: int) -> tuple[Span, Span]:
        """The walk over whole blocks, and the walk inside one.

        Where nothing moves both are the same walk when they are equally long: the label of the one
        over blocks says which it is, as programs share axes of one label and walk.
        """
        is_still = not any(self.strides.values())
        outer = Span(
            f"{self.label}{block}" if is_still else self.label,
            self.extent // block,
            {tensor: stride * block for tensor, stride in self.strides.items()},
            self.offsets,
        )
        return outer, Span(self.label, block, self.strides, {})

    def rest(self, start: int) -> Span:
        """The indices from ``start`` on."""
        offsets = dict(self.offsets)
        for tensor, stride in self.strides.items():
            offsets[tensor] = offsets.get(tensor, 0) + stride * start
        return Span(self.label, self.extent - start, self.strides, offsets)

    def rest_in_loop(self, start: int) -> tuple[Span, Span]:
        """A loop of one turn to where `rest` begins, and the walk from there: one index of it alone
        would be no axis of a step, and where it begins would be lost."""
        rest = self.rest(start)
        place = Span(self.label, 1, {}, rest.offsets)
        return place, Span(self.label, rest.extent, self.strides, {})

    def on(self, tensor: str, stride: int) -> Span:
        """The same axis, moving ``tensor`` too."""
        return Span(self.label, self.extent, {**self.strides, tensor: stride}, self.offsets)

    def only(self, *tensors: str) -> Span:
        """The same axis as it moves these tensors alone."""
        strides = {name: stride for name, stride in self.strides.items() if name in tensors}
        offsets = {name: offset for name, offset in self.offsets.items() if name in tensors}
        return Span(self.label, self.extent, strides, offsets)


class Step(msgspec.Struct, frozen=True, gc=False):
    """out[free axes] = sum over the other axes of the product of one or two inputs.

    With one input whose axes all move the output, a copy (which may convert the type).
    ``is_kept``: the output is scratch, which begins at a line of memory; arrays of users seldom do.
    ``standing``: names of inputs that no iteration of a loop around changes, so that a copy of them
    is made once, before it.
    """

    inputs: tuple[Tensor, ...]
    output: Tensor
    axes: tuple[Span, ...]
    is_kept: bool = False
    standing: frozenset[str] = frozenset()

    @property
    def reductions(self) -> tuple[Span, ...]:
        output = self.output.name
        return tuple([axis for axis in self.axes if not axis.strides.get(output)])


def elements_of(tensor: Tensor, step: Step) -> int:
    """The elements of a tensor that a step meets."""
    elements, name = 1, tensor.name
    for axis in step.axes:
        if axis.strides.get(name):
            elements *= axis.extent
    return elements


def is_adjacent(axis: Span, tensor: Tensor) -> bool:
    """True for the axis along which elements lie next to each other."""
    return axis.stride(tensor.name) == tensor.data_type.width


def normalise(step: Step) -> Step:
    """Drop extents of 1 and fuse neighbours. Strides must not be negative."""
    return Step(step.inputs, step.output, tuple(fuse(step.axes)), step.is_kept, step.standing)


def fuse(axes: Sequence[Span]) -> list[Span]:
    """Merge pairs X, Y with stride(X) = |Y| * stride(Y) on every tensor, until there are none.

    Axes of one index go.
    """
    left: list[Span] = []
    walks: list[Mapping[str, int]] = []
    steps: set[tuple[str, int]] = set()
    for axis in axes:
        if axis.extent > 1:
            left.append(axis)
            walks.append(axis.strides)
            steps.update(axis.strides.items())
    place = 0
    while place < len(left):
        walk, extent = walks[place], left[place].extent
        wanted: dict[str, int] = {}
        # Most axes go on nowhere, which a stride on one tensor tells.
        for tensor, stride in walk.items():
            wanted[tensor] = end = stride * extent
            if (tensor, end) not in steps:
                break
        if len(wanted) < len(walk) or wanted == walk or wanted not in walks:
            place += 1
            continue
        outer = walks.index(wanted)
        # The fused axis walks as its inner one did: no axis before it finds a new outer one.
        left[place] = _fused(left[outer], left[place])
        del left[outer], walks[outer]
        place -= outer < place
    return left


def _fused(outer: Span, inner: Span) -> Span:
    offsets = dict(outer.offsets)
    for tensor, offset in inner.offsets.items():
        offsets[tensor] = offsets.get(tensor, 0) + offset
    return Span(f"{outer.label}{inner.label}", outer.extent * inner.extent, inner.strides, offsets)
