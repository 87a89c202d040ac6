"""A pass: copy an input into scratch, contiguous along K, where warpgroup products need that.

    gemm: a[m, k] * b[k, n] (TF32)   ->   copy: b into T[n, k]    gemm: a[m, k] * T[n, k]

TF32 operands are contiguous along K only, and two inputs that are contiguous along different axes
of K have no common chunk. The copies are roots of their own, plain primitives that anybody can
read; the pass changes nothing where it does not lead to warpgroup products.
"""

from __future__ import annotations

from math import prod

from msgspec.structs import replace

from teir.backends.cuda.decision import decision_of
from teir.backends.cuda.maps import MAP_ALIGNMENT
from teir.backends.cuda.problem import ContractionProblem, recognise
from teir.backends.cuda.sides import Kind, kinds_of
from teir.backends.cuda.warpgroup import INPUTS, warpgroup_plan
from teir.ir.check import check
from teir.ir.nodes import Axis, Bytes, InvocationNode, Operation, Primitive, Program, Tensor
from teir.lower.slots import assign_slots

LEAST_SIDE = 64
"""Rows and columns below which a copy is not worth its bytes."""
_NAMES = ("turned left", "turned right")


def turn_inputs(program: Program) -> Program:
    """``program`` with copies of one input or both, or itself."""
    if program.scratch or any(axis.is_sparse for axis in program.axes):
        return program
    problem = recognise(program.roots, program, assign_slots(program))
    if not isinstance(problem, ContractionProblem):
        return program
    primitive = program.primitive_table()[problem.primitive]
    if decision_of(primitive) is not None or problem.operands[0].data_type not in INPUTS:
        return program
    if warpgroup_plan(problem) is not None or not _is_large(problem):
        return program
    for sides in ((1,), (0,), (0, 1)):
        turned = _with_copies(program, problem, sides)
        last = turned.roots[len(sides) :]
        found = recognise(last, turned, assign_slots(turned))
        if isinstance(found, ContractionProblem) and warpgroup_plan(found) is not None:
            return turned if check(turned).ok else program
    return program


def _is_large(problem: ContractionProblem) -> bool:
    kinds = kinds_of(problem)
    for kind in (Kind.ROW, Kind.COLUMN):
        pairs = zip(problem.axes, kinds, strict=True)
        if prod(axis.extent for axis, found in pairs if found is kind) < LEAST_SIDE:
            return False
    return True


def _with_copies(program: Program, problem: ContractionProblem, sides: tuple[int, ...]) -> Program:
    """The problem as a program of its own: copies, then Zero, Contraction and ReLU as roots."""
    kinds = kinds_of(problem)
    scratch = {side: _NAMES[side] for side in sides}
    layouts = {side: _layout(problem, kinds, side, sides) for side in sides}
    axes = []
    for at, one in enumerate(problem.axes):
        strides = {
            operand.tensor: one.strides[side] for side, operand in enumerate(problem.operands)
        }
        strides |= {scratch[side]: layouts[side].get(at, 0) for side in sides}
        axes.append(Axis(name=f"x{at}", extent=one.extent, strides=Bytes(strides)))
    for side, operand in enumerate(problem.operands):
        # An offset counts once where its axis is consumed: any axis that moves the tensor will do.
        at = next(n for n, one in enumerate(problem.axes) if one.strides[side])
        offsets = dict(axes[at].offsets.items()) | {operand.tensor: operand.offset}
        axes[at] = replace(axes[at], offsets=Bytes(offsets))
    primitives = [_copy(problem, side, scratch[side]) for side in sides]
    names = [scratch.get(side, problem.operands[side].tensor) for side in (0, 1)]
    out = problem.operands[2].tensor
    free = tuple(f"x{at}" for at, kind in enumerate(kinds) if kind is not Kind.SUM)
    summed = tuple(f"x{at}" for at, kind in enumerate(kinds) if kind is Kind.SUM)
    common = Primitive(name="", operation=Operation.ZERO, inputs=(), output=out, m=free)
    if problem.from_zero:
        primitives.append(replace(common, name="zero"))
    roles = {kind: tuple(f"x{a}" for a, k in enumerate(kinds) if k is kind) for kind in Kind}
    original = program.primitive_table()[problem.primitive]
    primitives.append(
        replace(
            original,
            inputs=tuple(names),
            c=roles[Kind.BATCH],
            m=roles[Kind.ROW],
            n=roles[Kind.COLUMN],
            k=summed,
        )
    )
    if problem.relu:
        relu = replace(common, name="relu", operation=Operation.RELU, inputs=(out,))
        primitives.append(relu)
    data_type = problem.operands[0].data_type
    return Program(
        name=program.name,
        tensors=program.tensors,
        axes=tuple(axes),
        primitives=tuple(primitives),
        roots=tuple(InvocationNode(name=one.name, primitive=one.name) for one in primitives),
        scratch=tuple(Tensor(name=name, data_type=data_type) for name in scratch.values()),
    )


def _copy(problem: ContractionProblem, side: int, target: str) -> Primitive:
    moving = tuple(f"x{at}" for at, one in enumerate(problem.axes) if one.strides[side])
    return Primitive(
        name=f"copy into {target}",
        operation=Operation.COPY,
        inputs=(problem.operands[side].tensor,),
        output=target,
        m=moving,
    )


def _layout(
    problem: ContractionProblem, kinds: tuple[Kind, ...], side: int, sides: tuple[int, ...]
) -> dict[int, int]:
    """Byte strides of the copy: K innermost in the other input's order, rows as in the output."""
    other = 1 - side if 1 - side not in sides else 0
    moving = [at for at, one in enumerate(problem.axes) if one.strides[side]]
    sums = [at for at in moving if kinds[at] is Kind.SUM]
    sums.sort(
        key=lambda at: (problem.axes[at].strides[other] == 0, problem.axes[at].strides[other])
    )
    rest = [at for at in moving if kinds[at] is not Kind.SUM]
    rest.sort(key=lambda at: problem.axes[at].strides[2])
    step, strides = problem.operands[side].data_type.width, {}
    for at in sums:
        strides[at] = step
        step *= problem.axes[at].extent
    step = -(-step // MAP_ALIGNMENT) * MAP_ALIGNMENT
    for at in rest:
        strides[at] = step
        step *= problem.axes[at].extent
    return strides
