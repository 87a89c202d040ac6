"""Operands read in steps: which are copied side by side first, and what their programs compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from search.planned import USUAL, shapes_of, stated
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.nodes import InvocationNode, IterationNode, Node, Operation, Program
from teir.ir.printing import print_program
from teir.pipeline.operand_types import OperandType
from teir.search.machine import Machine
from teir.search.tree import TreeOptions, contraction_program

SMALL = replace(USUAL, l2_bytes=1 << 13)
"""A second cache that no operand fits."""
CASES: dict[str, tuple[dict[str, int], set[str]]] = {
    "ab,b->a": ({"a": 41, "b": 50}, {"in0", "in1"}),
    "ba,b->a": ({"a": 60, "b": 50}, {"in0", "in1"}),
    "ak,kb->ab": ({"a": 40, "b": 30, "k": 50}, {"in1"}),
    "cak,ckb->cab": ({"a": 20, "b": 30, "k": 20, "c": 5}, {"in0", "in1"}),
    "abc->b": ({"a": 20, "b": 13, "c": 20}, {"in0"}),
    "abc->cba": ({"a": 20, "b": 13, "c": 20}, {"in0"}),
    "abc->bac": ({"a": 20, "b": 13, "c": 3}, {"in0"}),
    "cdab,cbd->cad": ({"a": 40, "b": 30, "c": 3, "d": 20}, {"in0", "in1", "in1_dense"}),
    "cb,cab->ac": ({"a": 9, "b": 30, "c": 41}, {"in0", "in1"}),
    "ab->ba": ({"a": 41, "b": 50}, set()),
    "bac->acb": ({"a": 20, "b": 5, "c": 30}, set()),
    "bac->cba": ({"a": 40, "b": 9, "c": 4}, set()),
    "bca->acb": ({"a": 6, "b": 5, "c": 30}, {"in0"}),
    "abc->abc": ({"a": 20, "b": 13, "c": 20}, set()),
    "bac->abc": ({"a": 20, "b": 13, "c": 20}, set()),
}


def _program(
    text: str, extents: Mapping[str, int], step: int, kind: DataType, machine: Machine
) -> Program:
    types = []
    for shape in shapes_of(text, extents):
        strides, reach = [], step * kind.width
        for extent in reversed(shape):
            strides.insert(0, reach)
            reach *= extent
        types.append(OperandType(kind, kind.numpy_dtype(), shape, tuple(strides)))
    contraction = stated(text, types)
    path = (tuple(range(len(contraction.inputs))),)
    return contraction_program(contraction, path, machine, TreeOptions()).program


def _made_dense(program: Program) -> set[str]:
    copies = (one for one in program.primitives if one.operation is Operation.COPY)
    return {one.inputs[0] for one in copies if "dense" in one.output}


@pytest.mark.parametrize("text", CASES)
def test_what_is_read_in_steps_is_made_dense_where_whole_vectors_are_read(text: str) -> None:
    extents, dense = CASES[text]
    assert _made_dense(_program(text, extents, 2, DataType.FP32, USUAL)) == dense
    assert not _made_dense(_program(text, extents, 1, DataType.FP32, USUAL))
    assert not _made_dense(_program(text, extents, 2, DataType.C128, USUAL))
    assert not _made_dense(_program(text, extents, 16, DataType.FP32, USUAL))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", CASES)
def test_programs_mean_what_numpy_computes(text: str, threads: int) -> None:
    extents, _ = CASES[text]
    draw = np.random.default_rng(4)
    for kind in (DataType.FP32, DataType.FP64, DataType.C64):
        machine = replace(SMALL, threads=threads, threaded_work=64)
        program = _program(text, extents, 3, kind, machine)
        assert check(program).ok, print_program(program).text
        numbers = kind.numpy_dtype()
        memory = [
            draw.integers(-2, 3, (*shape[:-1], 3 * shape[-1])).astype(numbers)
            for shape in shapes_of(text, extents)
        ]
        expected = np.einsum(text, *(one[..., ::3] for one in memory))
        out = np.full(expected.shape, 7, numbers)
        evaluate(program, {f"in{i}": one for i, one in enumerate(memory)} | {"out": out})
        np.testing.assert_array_equal(out, expected)


def test_large_inputs_are_made_dense_in_pieces() -> None:
    """Two indices at least, and never one alone in the end."""
    for extent in (40, 41, 43):
        program = _program("ab,b->a", {"a": extent, "b": 500}, 2, DataType.FP64, SMALL)
        sizes = [axis.extent for axis in program.axes if axis.name.startswith("a")]
        assert "in0" in _made_dense(program)
        assert len(sizes) > 1
        assert _made_dense(_program("ab,b->a", {"a": extent, "b": 500}, 2, DataType.FP64, USUAL))


@pytest.mark.parametrize("threads", [1, 2])
def test_far_turns_are_one_tile_of_all_axes_or_one_for_each_part(threads: int) -> None:
    extents = {"a": 129, "b": 81, "c": 101}
    machine = replace(USUAL, threads=threads)
    program = _program("abc->cab", extents, 2, DataType.FP64, machine)
    assert check(program).ok, print_program(program).text
    assert not _made_dense(program)
    assert (len(program.primitives) == 1) == (threads == 1)
    source = np.random.default_rng(5).standard_normal((129, 81, 202))
    expected = np.einsum("abc->cab", source[..., ::2])
    out = np.full(expected.shape, 7.0)
    evaluate(program, {"in0": source, "out": out})
    np.testing.assert_array_equal(out, expected)


def _copies_below(nodes: Sequence[Node], program: Program) -> list[str]:
    """The tensors that are copied in these nodes and below."""
    primitives = {one.name: one for one in program.primitives}
    found: list[str] = []
    for node in nodes:
        match node:
            case IterationNode():
                found += _copies_below(node.children, program)
            case InvocationNode():
                one = primitives[node.primitive]
                found += one.inputs if one.operation is Operation.COPY else ()
    return found


def test_what_every_piece_reads_whole_is_copied_and_turned_once() -> None:
    extents = {"a": 64, "b": 300, "c": 3, "d": 20}
    program = _program("cdab,cbd->cad", extents, 2, DataType.FP64, replace(SMALL, l2_bytes=1 << 16))
    assert check(program).ok, print_program(program).text
    pieces = [
        node
        for node in program.roots
        if isinstance(node, IterationNode) and "in0" in _copies_below([node], program)
    ]
    assert pieces
    assert not {"in1", "in1_dense"} & {*_copies_below(pieces, program)}
    assert {"in1", "in1_dense"} <= {*_copies_below(program.roots, program)}


def test_batches_along_results_are_cut_where_inputs_lie_batch_after_batch() -> None:
    extents, machine = {"a": 9, "b": 30, "c": 96}, replace(SMALL, l2_bytes=1 << 16)
    cut = _program("cb,cab->ac", extents, 2, DataType.FP64, machine)
    assert "c" in {axis.name for axis in cut.axes if axis.extent == 12}
    whole = _program("cb,acb->ac", extents, 2, DataType.FP64, machine)
    assert [axis.extent for axis in whole.axes if axis.name == "c"] == [96]
