"""Nodes are values: equal, hashed, copied and pickled by their fields."""

from __future__ import annotations

import copy
import gc
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


def test_bytes_do_not_change() -> None:
    """They are shared by programs, kernel programs and proofs."""
    kept = Bytes({"a": 4, "b": 0})
    assert (kept["a"], kept["b"], dict(kept)) == (4, 0, {"a": 4})
    for change in (
        lambda: kept.__setitem__("a", 8),
        lambda: kept.__delitem__("a"),
        lambda: kept.update(a=8),
        lambda: kept.setdefault("b", 8),
        lambda: kept.pop("a"),
        kept.popitem,
        kept.clear,
    ):
        with pytest.raises(TypeError, match="do not change"):
            change()
    assert kept == Bytes({"a": 4})


def test_nodes_cost_the_garbage_collector_nothing() -> None:
    """They refer to no one who refers to them, so nothing is gained by looking at them."""
    program = parse_program(TEN_NODES)
    assert not any(map(gc.is_tracked, (program, *program.nodes(), *program.axes)))
