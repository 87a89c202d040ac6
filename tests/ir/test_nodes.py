"""Nodes are values: equal, hashed, copied and pickled by their fields."""

from __future__ import annotations

import copy
import pickle

import pytest
from msgspec.structs import replace

from teir.ir.nodes import Axis, Bytes, InvocationNode, IterationNode, Node, Policy, Program
from teir.ir.parsing import parse_program
from teir.soak.check_cost import TEN_NODES

DEPTH = 200_000


def deep() -> Program:
    node: Node = InvocationNode(name="leaf", primitive="zero")
    for number in range(DEPTH):
        node = IterationNode(
            name=f"n{number}", axis="m", policy=Policy.SEQUENTIAL, children=(node,)
        )
    return Program(name="deep", tensors=(), axes=(), primitives=(), roots=(node,))


def test_copies_are_equal_and_hash_equally() -> None:
    program = parse_program(TEN_NODES)
    for other in (pickle.loads(pickle.dumps(program)), copy.deepcopy(program)):
        assert other == program
        assert hash(other) == hash(program)
    assert replace(program, name="another") != program
    assert replace(program, roots=program.roots[:0]) != program


def test_a_deep_schedule_compares_and_hashes() -> None:
    program, other = deep(), deep()
    assert program == other
    assert hash(program) == hash(other)
    assert hash(program.roots[0]) == hash(other.roots[0])


def test_fields_are_named_and_fixed() -> None:
    with pytest.raises(TypeError):
        Axis("m", 4)  # type: ignore[misc]
    axis = Axis(name="m", extent=4)
    assert axis.strides == Bytes()
    with pytest.raises(AttributeError):
        axis.extent = 5  # type: ignore[misc]
