"""A whole einsum as one program: one root per step, intermediates in scratch.

    path -> meetings -> layouts -> order of the steps -> program

The path says which operands meet, in opt_einsum's convention: positions in the current list, the
result appended at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import prod
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from teir.dtypes import DataType
from teir.ir.nodes import Program, Tensor
from teir.search.arrange import Arrangement, arrange, as_written
from teir.search.choice import Choice
from teir.search.contraction import Contraction as Contraction
from teir.search.contraction import Factor as Factor
from teir.search.contraction import Path as Path
from teir.search.contraction import dense_strides
from teir.search.default_choice import default_choice
from teir.search.dense import Choose, emit_step
from teir.search.elementwise import emit_product
from teir.search.emission import Body, Emission
from teir.search.fused_columns import fused_columns
from teir.search.fused_steps import FusedSteps, fused_steps
from teir.search.machine import Machine
from teir.search.meetings import Given, meeting_tree, only_step
from teir.search.sequence import Planned, in_turn, planned
from teir.search.shape import ProductShape
from teir.search.slicing import added, slice_sum, slices_of, zeroed
from teir.search.standing_copies import standing_copies
from teir.search.step import Span, Step, normalise

_TENSOR = attrgetter("tensor")


class StepNote(msgspec.Struct, frozen=True, gc=False):
    """One step for people: what meets, what comes out, and how many products it forms."""

    parts: tuple[Factor, ...]
    result: Factor
    products: int

    @property
    def text(self) -> str:
        left = ", ".join(_shown(factor) for factor in self.parts)
        return f"{left} -> {_shown(self.result)}"


class MatrixStep(msgspec.Struct, frozen=True, gc=False):
    """A matrix-like step, or part of one, and the machine as its loops may use it."""

    shape: ProductShape
    machine: Machine


class TreeProgram(msgspec.Struct, frozen=True, gc=False):
    """A program and what to tell about it: its steps, its slices, the steps fused in a loop.

    ``matrix_steps`` are what there is to choose for, in the order they run. ``cycles`` is what the
    model gives the chosen layouts on one core, ``written_cycles`` the layouts that a tree wrote
    or, without one, the usual ones; of one slice, where there are several. None where there was
    nothing to choose.
    """

    program: Program
    steps: tuple[StepNote, ...]
    matrix_steps: tuple[MatrixStep, ...]
    slices: Mapping[str, int]
    fused: FusedSteps | None
    cycles: float | None
    written_cycles: float | None


class TreeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a path becomes a program.

    ``results`` are the indices of every step's result as a tree wrote them; ``rearrange`` is False
    to keep every layout as written; ``slices`` maps indices to blocks. ``choices``
    are taken by the matrix-like steps in the order they run; those beyond take the default.
    """

    results: Sequence[Sequence[str]] | None = None
    rearrange: bool = True
    slices: Mapping[str, int] = msgspec.field(default_factory=dict)
    choices: tuple[Choice, ...] = ()


def contraction_program(
    contraction: Contraction, path: Path, machine: Machine, options: TreeOptions | None = None
) -> TreeProgram:
    """The program that runs the steps of ``path`` one after the other."""
    options = TreeOptions() if options is None else options
    builder = _Tree(path, machine, options, Emission(), [], [], [], [])
    tensors = tuple(map(_TENSOR, (*contraction.inputs, contraction.output)))
    for tensor in tensors:
        builder.emission.name(tensor.name)
    slices = tuple(options.slices.items())
    body = builder.sliced(contraction, slices) if slices else builder.tree(contraction)
    program = builder.emission.program(contraction.name, tensors, body)
    first = builder.arrangements[0] if builder.arrangements else None
    return TreeProgram(
        program,
        tuple(builder.notes),
        tuple(builder.matrix_steps),
        dict(options.slices),
        builder.fused[0] if builder.fused else None,
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
    fused: list[FusedSteps]

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
        body = self.sliced(replace(contraction, output=part), slices)
        body += added(self.emission, part, contraction.output, contraction.extents)
        return Body(body.nodes, (*body.scratch, part.tensor))

    def tree(self, contraction: Contraction) -> Body:
        steps = _Steps(
            contraction, contraction, self.machine, self.emission, self.notes, self.choose, []
        )
        factors = only_step(contraction, self.path)
        if factors is not None:
            indices = factors[0].strides.keys() | factors[1].strides.keys()
            products = prod(map(contraction.extents.__getitem__, indices))
            steps.emit(factors, contraction.output, products)
            return steps.bodies[0]
        meetings = meeting_tree(contraction, self.path, self.options.results)
        arrangement = as_written(meetings)
        if self.options.rearrange:
            arrangement = arrange(meetings, contraction, self.machine)
        self.arrangements.append(arrangement)
        if _is_entrywise(contraction):
            return self.entrywise(contraction)
        root = planned(arrangement.root, contraction)
        fused = self.fused_in(root, contraction) if self.options.rearrange else None
        if fused is None:
            steps.run(in_turn(root), root, {})
            return steps.body()
        self.fused.append(fused)
        return self.together(fused, steps, root)

    def together(self, fused: FusedSteps, steps: _Steps, root: Planned) -> Body:
        """What the fused steps need, then these in their loops."""
        nodes, made = in_turn(root), dict[int, Factor]()
        steps.run([node for node in nodes if not fused.takes(node)], root, made)
        before = steps.body()
        standing = frozenset(
            factor.tensor.name
            for factor in (*steps.contraction.inputs, *made.values())
            if not fused.indices & factor.strides.keys()
        )
        loops = _Loops([node for node in nodes if fused.takes(node)], root, made, [])
        inside = replace(steps, bodies=[], standing=standing).in_blocks(fused.blocks, loops)
        for one in loops.before:
            before += one
        return before + inside

    def fused_in(self, root: Planned, contraction: Contraction) -> FusedSteps | None:
        """The loops in which steps run together, None where they run one after the other."""
        fused = fused_steps(root, contraction, self.machine)
        return fused_columns(root, contraction, self.machine) if fused is None else fused

    def entrywise(self, contraction: Contraction) -> Body:
        """All inputs multiplied in one pass, whatever the path."""
        factors, output = contraction.inputs, contraction.output
        products = _products(factors, contraction.extents)
        self.notes.append(StepNote(factors, output, products))
        step = normalise(_step(factors, output, contraction.extents))
        return emit_product(self.emission, step, self.machine)


def _is_entrywise(contraction: Contraction) -> bool:
    """True for a product, element by element, of more than two tensors that lie alike."""
    output = contraction.output
    is_plain = not contraction.compute.is_complex and contraction.compute is not DataType.TF32
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


class _Loops(msgspec.Struct, frozen=True):
    """The steps that run together in loops, what is ``made`` for them, and copies of it made
    ``before`` the loops."""

    nodes: list[Planned]
    root: Planned
    made: Mapping[int, Factor]
    before: list[Body]


class _Steps(msgspec.Struct, frozen=True):
    """Steps of one tree, in the order they run: of all of it, or of what is ``inside`` a block.

    ``standing`` as in `Step`.
    """

    contraction: Contraction
    inside: Contraction
    machine: Machine
    emission: Emission
    notes: list[StepNote]
    choose: Choose
    bodies: list[Body]
    standing: frozenset[str] = frozenset()

    def body(self) -> Body:
        """All steps emitted so far."""
        body = Body()
        for one in self.bodies:
            body += one
        return body

    def run(self, nodes: Iterable[Planned], root: Planned, made: dict[int, Factor]) -> None:
        """Emit these steps, each after those it needs; what they make is added to ``made``."""
        inputs = {factor.tensor.name: factor for factor in self.inside.inputs}
        for node in nodes:
            factors = tuple(
                inputs[part.factor.tensor.name] if isinstance(part, Given) else made[id(part)]
                for part in node.parts
            )
            products = _products(node.parts, self.contraction.extents)
            if node is root:
                self.emit(factors, self.inside.output, products)
            else:
                order = tuple(index for index in node.order if self.inside.extents[index] > 1)
                made[id(node)] = self.scratch(factors, order, node.data_type, products)

    def in_blocks(self, blocks: Sequence[tuple[str, int]], loops: _Loops) -> Body:
        """The steps of the loops, in loops over these blocks."""
        if not blocks:
            self.run(loops.nodes, loops.root, dict(loops.made))
            before, inside = standing_copies(self.emission, self.body(), self.standing)
            loops.before.append(before)
            return inside
        (index, block), *others = blocks
        body = Body()
        for number, one in enumerate(slices_of(self.inside, index, block)):
            notes = [] if number else self.notes
            steps = replace(self, inside=one.inside, notes=notes, bodies=[])
            within = partial(steps.in_blocks, others, loops)
            body += self.emission.loops((one.loop,), within, parallel=False)
        return body

    def scratch(
        self,
        factors: tuple[Factor, ...],
        order: tuple[str, ...],
        data_type: DataType,
        products: int,
    ) -> Factor:
        """A step into scratch of this order and type."""
        tensor = Tensor(name=self.emission.name("part"), data_type=data_type)
        strides, _ = dense_strides(order, self.inside.extents, tensor.data_type.width)
        result = Factor(tensor, strides)
        self.emit(factors, result, products, is_kept=True)
        last = self.bodies[-1]
        self.bodies[-1] = Body(last.nodes, (*last.scratch, tensor))
        return result

    def emit(
        self, factors: tuple[Factor, ...], output: Factor, products: int, is_kept: bool = False
    ) -> None:
        step = _step(factors, output, self.inside.extents, is_kept, self.standing)
        self.bodies.append(emit_step(self.emission, step, self.machine, self.choose))
        self.notes.append(StepNote(factors, output, products))


def _step(
    factors: tuple[Factor, ...],
    output: Factor,
    extents: Mapping[str, int],
    is_kept: bool = False,
    standing: frozenset[str] = frozenset(),
) -> Step:
    indices = dict.fromkeys(output.strides)
    for factor in factors:
        indices.update(dict.fromkeys(factor.strides))
    axes = []
    for index in indices:
        strides: dict[str, int] = {}
        offsets: dict[str, int] = {}
        for one in (*factors, output):
            stride = one.strides.get(index)
            if stride:
                strides[one.tensor.name] = stride
            if index in one.offsets:
                offsets[one.tensor.name] = one.offsets[index]
        axes.append(Span(index, extents[index], strides, offsets))
    inputs = tuple(map(_TENSOR, factors))
    return Step(inputs, output.tensor, tuple(axes), is_kept, standing)


def _products(parts: Iterable[Factor | Given | Planned], extents: Mapping[str, int]) -> int:
    return prod(extents[index] for index in {index for part in parts for index in part.order})


def _shown(factor: Factor) -> str:
    return f"{factor.tensor.name}[{' '.join(factor.strides)}]"
