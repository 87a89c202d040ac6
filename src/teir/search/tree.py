"""A whole einsum as one program: one root per step, intermediates in scratch of the run.

The path says which operands meet, in opt_einsum's convention: positions in the current list, the
result appended at its end. An index that only one operand of a pair has, and nobody needs later,
is summed before the pair meets: it costs one pass instead of one factor of the product's work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from teir.dtypes import DataType
from teir.ir.nodes import Program, Tensor
from teir.search.dense import emit_step
from teir.search.emission import Body, Emission
from teir.search.machine import Machine
from teir.search.step import Span, Step

Path = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Factor:
    """A tensor of the contraction and the bytes it moves along each of its indices.

    A stride may be 0 (repetition), never negative: an axis walked backwards has a positive stride
    and an offset. An index of extent 1 must be left out.
    """

    tensor: Tensor
    strides: Mapping[str, int]
    offsets: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contraction:
    """What is to be computed: inputs, the output, and the extent of every index."""

    name: str
    inputs: tuple[Factor, ...]
    output: Factor
    extents: Mapping[str, int]

    @property
    def compute(self) -> DataType:
        """The type of the output, of intermediates and of the operands of every product."""
        return self.output.tensor.data_type

    @property
    def is_copy(self) -> bool:
        """True when one operand is moved and nothing is summed."""
        return len(self.inputs) == 1 and set(self.inputs[0].strides) <= set(self.output.strides)


@dataclass(frozen=True, slots=True)
class StepNote:
    """One step for people: what meets, what comes out, and how many products it forms."""

    text: str
    products: int


@dataclass(frozen=True, slots=True)
class TreeProgram:
    program: Program
    steps: tuple[StepNote, ...]


def contraction_program(contraction: Contraction, path: Path, machine: Machine) -> TreeProgram:
    """The program that runs the steps of ``path`` one after the other."""
    builder = _Tree(contraction, machine, Emission(), [], [])
    for tensor in (*(factor.tensor for factor in contraction.inputs), contraction.output.tensor):
        builder.emission.name(tensor.name)
    factors = list(contraction.inputs)
    if not contraction.is_copy:
        factors = [builder.converted(factor) for factor in factors]
    for number, places in enumerate(path):
        taken = [factors[place] for place in places]
        factors = [factor for place, factor in enumerate(factors) if place not in places]
        needed = {index for factor in factors for index in factor.strides}
        needed.update(contraction.output.strides)
        is_last = number == len(path) - 1
        factors.append(builder.meet(taken, needed, is_last))
    body = Body()
    for step in builder.bodies:
        body += step
    program = Program(
        name=contraction.name,
        tensors=(
            *(factor.tensor for factor in contraction.inputs),
            contraction.output.tensor,
        ),
        axes=tuple(builder.emission.axes.values()),
        primitives=tuple(builder.emission.primitives.values()),
        roots=body.nodes,
        scratch=body.scratch,
    )
    return TreeProgram(program, tuple(builder.notes))


@dataclass(frozen=True, slots=True)
class _Tree:
    contraction: Contraction
    machine: Machine
    emission: Emission
    bodies: list[Body]
    notes: list[StepNote]

    def converted(self, factor: Factor) -> Factor:
        """The factor in the type of the computation."""
        if factor.tensor.data_type is self.contraction.compute:
            return factor
        return self._into_scratch((factor,), _by_stride(factor), self.contraction.compute)

    def meet(self, factors: Sequence[Factor], needed: set[str], is_last: bool) -> Factor:
        """The product of some factors, summed over every index nobody needs any more."""
        if len(factors) == 1:
            (only,) = factors
            if is_last:
                return self._finish((only,))
            return self._summed(only, needed) if set(only.strides) - needed else only
        left, *others = factors
        for number, right in enumerate(others):
            later = {index for factor in others[number + 1 :] for index in factor.strides}
            wanted = needed | later
            one = self._summed_alone(left, right, wanted)
            two = self._summed_alone(right, left, wanted)
            if is_last and number == len(others) - 1:
                return self._finish((one, two))
            order = _result_order(one, two, wanted)
            left = self._into_scratch((one, two), order, self.contraction.compute)
        return left

    def _finish(self, factors: tuple[Factor, ...]) -> Factor:
        """The last step, into the output."""
        self._emit(factors, self.contraction.output)
        return self.contraction.output

    def _summed_alone(self, factor: Factor, other: Factor, wanted: set[str]) -> Factor:
        alone = set(factor.strides) - set(other.strides) - wanted
        if not alone or not set(other.strides) - set(factor.strides):
            return factor
        return self._summed(factor, wanted | set(other.strides))

    def _summed(self, factor: Factor, needed: set[str]) -> Factor:
        order = tuple(index for index in _by_stride(factor) if index in needed)
        return self._into_scratch((factor,), order, self.contraction.compute)

    def _into_scratch(
        self, factors: tuple[Factor, ...], order: Sequence[str], data_type: DataType
    ) -> Factor:
        tensor = Tensor(name=self.emission.name("part"), data_type=data_type)
        strides: dict[str, int] = {}
        stride = data_type.width
        for index in reversed(order):
            strides[index] = stride
            stride *= self.contraction.extents[index]
        result = Factor(tensor, {index: strides[index] for index in order})
        self._emit(factors, result)
        last = self.bodies[-1]
        self.bodies[-1] = replace(last, scratch=(*last.scratch, tensor))
        return result

    def _emit(self, factors: tuple[Factor, ...], output: Factor) -> None:
        step = _step(factors, output, self.contraction.extents)
        self.bodies.append(emit_step(self.emission, step, self.machine))
        self.notes.append(_note(factors, output, self.contraction.extents))


def _step(factors: tuple[Factor, ...], output: Factor, extents: Mapping[str, int]) -> Step:
    indices = dict.fromkeys(output.strides)
    for factor in factors:
        indices.update(dict.fromkeys(factor.strides))
    operands = (*factors, output)
    axes = []
    for index in indices:
        strides = {}
        offsets = {}
        for factor in operands:
            stride = factor.strides.get(index, 0)
            if stride:
                strides[factor.tensor.name] = stride
            if index in factor.offsets:
                offsets[factor.tensor.name] = factor.offsets[index]
        axes.append(Span(index, extents[index], strides, offsets))
    return Step(tuple(factor.tensor for factor in factors), output.tensor, tuple(axes))


def _by_stride(factor: Factor) -> tuple[str, ...]:
    return tuple(sorted(factor.strides, key=lambda index: factor.strides[index], reverse=True))


def _result_order(one: Factor, two: Factor, wanted: set[str]) -> tuple[str, ...]:
    """Indices of an intermediate, outermost first: those of both, of one factor, of the other.

    Last come the indices of the factor whose adjacent index survives, so that its lanes are
    adjacent in both.
    """
    both = [index for index in _by_stride(one) if index in two.strides and index in wanted]
    free_one = [index for index in _by_stride(one) if index in wanted and index not in both]
    free_two = [index for index in _by_stride(two) if index in wanted and index not in both]
    if _is_adjacent(two, free_two) or not _is_adjacent(one, free_one):
        return (*both, *free_one, *free_two)
    return (*both, *free_two, *free_one)


def _is_adjacent(factor: Factor, indices: Sequence[str]) -> bool:
    width = factor.tensor.data_type.width
    return any(factor.strides[index] == width for index in indices)


def _note(factors: tuple[Factor, ...], output: Factor, extents: Mapping[str, int]) -> StepNote:
    products = 1
    for index in {index for factor in (*factors, output) for index in factor.strides}:
        products *= extents[index]
    left = ", ".join(_shown(factor) for factor in factors)
    return StepNote(f"{left} -> {_shown(output)}", products)


def _shown(factor: Factor) -> str:
    return f"{factor.tensor.name}[{' '.join(factor.strides)}]"
