"""A whole einsum as one program: one root per step, intermediates in scratch.

    path -> meetings -> layouts -> order of the steps -> program

The path says which operands meet, in opt_einsum's convention: positions in the current list, the
result appended at its end. Of two subtrees the one whose working memory is larger runs first, so
that the results that wait for each other are few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec

from teir.dtypes import DataType
from teir.ir.nodes import Program, Tensor
from teir.search.arrange import Arranged, Arrangement, arrange, as_written
from teir.search.choice import Choice
from teir.search.contraction import Contraction as Contraction
from teir.search.contraction import Factor as Factor
from teir.search.contraction import Path as Path
from teir.search.contraction import dense_strides
from teir.search.default_choice import default_choice
from teir.search.dense import Choose, emit_step
from teir.search.elementwise import emit_product
from teir.search.emission import Body, Emission
from teir.search.machine import Machine
from teir.search.meetings import Given, meeting_tree, only_step
from teir.search.shape import ProductShape
from teir.search.slicing import added, slice_sum, slices_of, zeroed
from teir.search.step import Span, Step, normalise


class StepNote(msgspec.Struct, frozen=True):
    """One step for people: what meets, what comes out, and how many products it forms."""

    parts: tuple[Factor, ...]
    result: Factor
    products: int

    @property
    def text(self) -> str:
        left = ", ".join(_shown(factor) for factor in self.parts)
        return f"{left} -> {_shown(self.result)}"


class MatrixStep(msgspec.Struct, frozen=True):
    """A matrix-like step, or part of one, and the machine as its loops may use it."""

    shape: ProductShape
    machine: Machine


class TreeProgram(msgspec.Struct, frozen=True):
    """A program and what to tell about it: its steps and its slices.

    ``matrix_steps`` are what there is to choose for, in the order they run. ``cycles`` is what the
    model gives the chosen layouts on one core, ``written_cycles`` the layouts that a tree wrote
    or, without one, the usual ones; of one slice, where there are several. None where there was
    nothing to choose.
    """

    program: Program
    steps: tuple[StepNote, ...]
    matrix_steps: tuple[MatrixStep, ...]
    slices: Mapping[str, int]
    cycles: float | None
    written_cycles: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    """How a path becomes a program.

    ``results`` are the indices of every step's result as a tree wrote them; ``rearrange`` is False
    to keep every layout as written; ``slices`` maps indices to blocks. ``choices``
    are taken by the matrix-like steps in the order they run; those beyond take the default.
    """

    results: Sequence[Sequence[str]] | None = None
    rearrange: bool = True
    slices: Mapping[str, int] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()


def contraction_program(
    contraction: Contraction, path: Path, machine: Machine, options: TreeOptions | None = None
) -> TreeProgram:
    """The program that runs the steps of ``path`` one after the other."""
    options = TreeOptions() if options is None else options
    builder = _Tree(path, machine, options, Emission(), [], [], [])
    tensors = (*(factor.tensor for factor in contraction.inputs), contraction.output.tensor)
    for tensor in tensors:
        builder.emission.name(tensor.name)
    body = builder.sliced(contraction, tuple(options.slices.items()))
    program = Program(
        name=contraction.name,
        tensors=tensors,
        axes=tuple(builder.emission.axes.values()),
        primitives=tuple(builder.emission.primitives.values()),
        roots=body.nodes,
        scratch=body.scratch,
    )
    first = builder.arrangements[0] if builder.arrangements else None
    return TreeProgram(
        program,
        tuple(builder.notes),
        tuple(builder.matrix_steps),
        dict(options.slices),
        None if first is None else first.cycles,
        None if first is None else first.written_cycles,
    )


class _Tree(msgspec.Struct, frozen=True):
    path: Path
    machine: Machine
    options: TreeOptions
    emission: Emission
    notes: list[StepNote]
    matrix_steps: list[MatrixStep]
    arrangements: list[Arrangement]

    def choose(self, shape: ProductShape, machine: Machine) -> Choice:
        """The next of the choices given, the default where there is none."""
        number = len(self.matrix_steps)
        self.matrix_steps.append(MatrixStep(shape, machine))
        given = self.options.choices
        return given[number] if number < len(given) else default_choice(shape, machine)

    def sliced(self, contraction: Contraction, slices: tuple[tuple[str, int], ...]) -> Body:
        """Loops over the slices, the tree inside."""
        if not slices:
            return self.tree(contraction)
        (index, block), *others = slices
        output, extents = contraction.output, contraction.extents
        is_summed = index not in output.strides
        body = zeroed(self.emission, output, extents) if is_summed else Body()
        inner = self.summed if is_summed else self.sliced
        for one in slices_of(contraction, index, block):
            inside = inner(one.inside, tuple(others))
            body += self.emission.loops((one.loop,), partial(_body, inside), parallel=False)
        return body

    def summed(self, contraction: Contraction, slices: tuple[tuple[str, int], ...]) -> Body:
        """One slice of a sum: its result in scratch, then added to the output."""
        part = slice_sum(self.emission, contraction)
        body = self.sliced(msgspec.structs.replace(contraction, output=part), slices)
        body += added(self.emission, part, contraction.output, contraction.extents)
        return Body(body.nodes, (*body.scratch, part.tensor))

    def tree(self, contraction: Contraction) -> Body:
        steps = _Steps(contraction, self.machine, self.emission, self.notes, self.choose, [])
        factors = only_step(contraction, self.path)
        if factors is not None:
            steps.emit(factors, contraction.output)
            return steps.bodies[0]
        meetings = meeting_tree(contraction, self.path, self.options.results)
        arrangement = as_written(meetings)
        if self.options.rearrange:
            arrangement = arrange(meetings, contraction, self.machine)
        self.arrangements.append(arrangement)
        if _is_entrywise(contraction):
            return self.entrywise(contraction)
        steps.run(_planned(arrangement.root, contraction), contraction.output)
        body = Body()
        for one in steps.bodies:
            body += one
        return body

    def entrywise(self, contraction: Contraction) -> Body:
        """All inputs multiplied in one pass, whatever the path."""
        factors, output = contraction.inputs, contraction.output
        self.notes.append(_note(factors, output, contraction.extents))
        step = normalise(_step(factors, output, contraction.extents))
        return emit_product(self.emission, step, self.machine)


def _is_entrywise(contraction: Contraction) -> bool:
    """True for a product, element by element, of more than two tensors that lie alike."""
    output = contraction.output
    is_plain = contraction.compute in (DataType.FP32, DataType.FP64)
    return (
        is_plain
        and len(contraction.inputs) > 2
        and all(
            one.order == output.order
            and one.adjacent == output.adjacent is not None
            and one.tensor.data_type is contraction.compute
            for one in contraction.inputs
        )
    )


def _body(body: Body) -> Body:
    return body


class _Steps(msgspec.Struct, frozen=True):
    """The steps of one tree, in the order they run."""

    contraction: Contraction
    machine: Machine
    emission: Emission
    notes: list[StepNote]
    choose: Choose
    bodies: list[Body]

    def run(self, root: _Planned, output: Factor) -> None:
        """Emit every step after those it needs."""
        made: dict[int, Factor] = {}
        for node in _in_turn(root):
            factors = tuple(
                part.factor if isinstance(part, Given) else made[id(part)] for part in node.parts
            )
            if node is root:
                self.emit(factors, output)
            else:
                made[id(node)] = self.scratch(factors, node.order)

    def scratch(self, factors: tuple[Factor, ...], order: tuple[str, ...]) -> Factor:
        """A step into scratch of this order."""
        tensor = Tensor(name=self.emission.name("part"), data_type=self.contraction.compute)
        strides, _ = dense_strides(order, self.contraction.extents, tensor.data_type.width)
        result = Factor(tensor, strides)
        self.emit(factors, result)
        last = self.bodies[-1]
        self.bodies[-1] = Body(last.nodes, (*last.scratch, tensor))
        return result

    def emit(self, factors: tuple[Factor, ...], output: Factor) -> None:
        step = _step(factors, output, self.contraction.extents)
        self.bodies.append(emit_step(self.emission, step, self.machine, self.choose))
        self.notes.append(_note(factors, output, self.contraction.extents))


class _Planned(msgspec.Struct, frozen=True):
    """A step, the places of its parts in the order they are computed, and the bytes that takes.

    ``peak_bytes`` counts the intermediates alive at once, the step's own result among them.
    """

    parts: tuple[Given | _Planned, ...]
    order: tuple[str, ...]
    sequence: tuple[int, ...]
    size_bytes: int
    peak_bytes: int


def _planned(root: Arranged, contraction: Contraction) -> _Planned:
    """The parts of every step in the order that needs the least memory."""
    found: list[Arranged] = []
    waiting = [root]
    while waiting:
        found.append(waiting.pop())
        waiting += [part for part in found[-1].parts if isinstance(part, Arranged)]
    made: dict[int, _Planned] = {}
    for node in reversed(found):
        parts = tuple(part if isinstance(part, Given) else made[id(part)] for part in node.parts)
        size = dense_strides(node.order, contraction.extents, contraction.compute.width)[1]
        made[id(node)] = _sequenced(parts, node.order, size)
    return made[id(root)]


def _sequenced(parts: tuple[Given | _Planned, ...], order: tuple[str, ...], size: int) -> _Planned:
    sizes = [0 if isinstance(part, Given) else part.size_bytes for part in parts]
    peaks = [0 if isinstance(part, Given) else part.peak_bytes for part in parts]
    if len(parts) == 1:
        return _Planned(parts, order, (0,), size, max(peaks[0], sizes[0] + size))
    below = [max(peaks[0], sizes[0] + peaks[1]), max(peaks[1], sizes[1] + peaks[0])]
    first = below.index(min(below))
    return _Planned(parts, order, (first, 1 - first), size, max(min(below), sum(sizes) + size))


def _in_turn(root: _Planned) -> list[_Planned]:
    """Every step after its parts, the parts in their sequence."""
    found: list[_Planned] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        parts = [node.parts[place] for place in node.sequence]
        waiting += [part for part in parts if isinstance(part, _Planned)]
    return found[::-1]


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


def _note(factors: tuple[Factor, ...], output: Factor, extents: Mapping[str, int]) -> StepNote:
    products = 1
    for index in {index for factor in (*factors, output) for index in factor.strides}:
        products *= extents[index]
    return StepNote(factors, output, products)


def _shown(factor: Factor) -> str:
    return f"{factor.tensor.name}[{' '.join(factor.strides)}]"
