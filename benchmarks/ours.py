"""This package as a contender."""

from __future__ import annotations

from functools import partial
from importlib.resources import files

from msgspec.structs import replace

import teir
from teir.cli.measuring import bound_call
from teir.cli.peers.case import Case
from teir.cli.peers.operands import Operands
from teir.cli.peers.rounds import Call
from teir.dtypes import DataType
from teir.ir.nodes import Axis, Bytes, IterationNode, Operation, Policy, Primitive, Program
from teir.ir.subnormals import with_subnormals_zero
from teir.pipeline.program_tuning import measured_variants

_PARALLEL_AXES = ("m", "n")


def our_call(
    case: Case, data_type: DataType, operands: Operands, threads: int, *, is_tuned: bool
) -> Call:
    """A planned einsum that writes into ``out``, or the example program, as written or tuned."""
    if case.program is None:
        plan = teir.plan(case.einsum, *operands.inputs, threads=threads)
        return partial(plan, *operands.inputs, out=operands.out)
    written = configuration(case.program, data_type, threads)
    program = _fastest(written, threads) if is_tuned else written
    arrays = {f"in{place}": array for place, array in enumerate(operands.inputs)}
    executable = teir.compile(program, threads=threads)
    return bound_call(executable, {**arrays, "out": operands.out})


def _fastest(program: Program, threads: int) -> Program:
    """The program as it is written, or what the passes make of it where that is faster."""
    measured = measured_variants(program, threads)
    return min(measured, key=lambda one: one.seconds).variant.program


def configuration(name: str, data_type: DataType, threads: int) -> Program:
    """The example program in ``data_type``; the outer axes parallel for several threads."""
    text = files("teir").joinpath("examples", f"{name}.teir").read_text(encoding="utf-8")
    program = teir.loads(text)
    return replace(
        program,
        tensors=tuple(replace(tensor, data_type=data_type) for tensor in program.tensors),
        axes=tuple(_widened(axis, data_type) for axis in program.axes),
        primitives=tuple(_retyped(one, data_type) for one in program.primitives),
        roots=tuple(map(_parallel, program.roots)) if threads > 1 else program.roots,
    )


def _widened(axis: Axis, data_type: DataType) -> Axis:
    strides = {
        tensor: stride * data_type.width // DataType.FP32.width
        for tensor, stride in axis.strides.items()
    }
    return replace(axis, strides=Bytes(strides))


def _retyped(primitive: Primitive, data_type: DataType) -> Primitive:
    """BF16 products as einsum writes them: subnormal numbers count as zero."""
    is_pairs = data_type is DataType.BF16 and primitive.operation is Operation.CONTRACTION
    metadata = with_subnormals_zero(primitive.metadata) if is_pairs else primitive.metadata
    return replace(primitive, data_type=data_type, metadata=metadata)


def _parallel(node: IterationNode) -> IterationNode:
    policy = Policy.PARALLEL if node.axis in _PARALLEL_AXES else node.policy
    children = tuple(
        _parallel(child) if isinstance(child, IterationNode) else child for child in node.children
    )
    return replace(node, policy=policy, children=children)
