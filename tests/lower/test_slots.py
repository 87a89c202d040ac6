"""Scratch whose lifetimes do not meet shares bytes, and nothing else does."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.nodes import Program
from teir.ir.parsing import parse_program
from teir.lower.evaluate import evaluate_kernels
from teir.lower.lower import lower
from teir.lower.slots import Room, assign_slots, place, scratch_uses
from teir.target import Isa

CHAIN = """teir 1 "chain"
tensor in0: FP32
tensor out: FP32
axis i = 100: in0 4, t 4, u 4, v 4, out 4
axis j = 100: v 4, out 4
scratch t: FP32
scratch u: FP32
scratch v: FP32
primitive one = Add(in0, in0 -> t; M=[i], N=[])
primitive two = Mul(t, in0 -> u; M=[i], N=[])
primitive three = Add(u, u -> v; M=[i], N=[])
primitive four = Copy(v -> out; M=[j], N=[])
a: one
b: two
c: three
d: four
"""

NESTED = """teir 1 "nested"
tensor in0: FP32
tensor out: FP32
axis p = 3: in0 400, out 400
axis i = 100: in0 4, t 4, u 4, v 4, w 4, out 4
primitive one = Copy(in0 -> t; M=[i], N=[])
primitive two = Add(t, t -> u; M=[i], N=[])
primitive three = Add(u, u -> v; M=[i], N=[])
primitive four = Add(v, t -> w; M=[i], N=[])
primitive five = Copy(w -> out; M=[i], N=[])
{policy} p over p
  scratch t: FP32
  scratch u: FP32
  scratch v: FP32
  scratch w: FP32
  a: one
  b: two
  c: three
  d: four
  e: five
"""


def starts(text: str) -> dict[str, int]:
    return {slot.tensor: slot.start_bytes for slot in assign_slots(parse_program(text)).slots}


def run(text: str) -> tuple[np.ndarray, np.ndarray]:
    """What the kernel program and the evaluator make of the same operands."""
    program = parse_program(text)
    assert check(program).ok
    results = []
    for native in (True, False):
        memory = {
            "in0": np.arange(300, dtype=np.float32).view(np.uint8).copy(),
            "out": np.zeros(1200, np.uint8),
        }
        if native:
            evaluate_kernels(lower(program, Isa.AVX512), memory, {})
        else:
            evaluate(program, memory)
        results.append(memory["out"].view(np.float32))
    return results[0], results[1]


def lifetimes(program: Program) -> dict[str, range]:
    return {name: range(use.first, use.stop) for name, use in scratch_uses(program).items()}


def test_the_lifetime_is_from_the_first_to_the_last_leaf() -> None:
    found = lifetimes(parse_program(CHAIN))
    assert found == {"t": range(2), "u": range(1, 3), "v": range(2, 4)}


def test_a_chain_of_roots_uses_two_rooms_in_turn() -> None:
    where = starts(CHAIN)
    assert where["t"] == where["v"] != where["u"]
    assert assign_slots(parse_program(CHAIN)).run_scratch_bytes == 2 * 448


@pytest.mark.parametrize("policy", ["sequential", "parallel"])
def test_scratch_of_a_node_lives_among_its_children(policy: str) -> None:
    table = assign_slots(parse_program(NESTED.format(policy=policy)))
    where = {slot.tensor: slot.start_bytes for slot in table.slots}
    assert where["t"] not in (where["u"], where["v"], where["w"])
    assert where["u"] == where["w"] != where["v"]
    used = table.run_scratch_bytes, table.thread_scratch_bytes
    assert used == ((1344, 0) if policy == "sequential" else (0, 1344))


@pytest.mark.parametrize(
    "text", [CHAIN, NESTED.format(policy="sequential"), NESTED.format(policy="parallel")]
)
def test_sharing_changes_no_result(text: str) -> None:
    native, expected = run(text)
    assert expected.any()
    np.testing.assert_array_equal(native, expected)


def test_scratch_touched_in_a_loop_of_another_owner_lives_for_the_whole_loop() -> None:
    """``t`` is read in every iteration, so nothing inside the loop may have its bytes."""
    found = lifetimes(
        parse_program(
            """teir 1 "kept"
tensor in0: FP32
tensor out: FP32
axis p = 3: out 400
axis i = 100: in0 4, t 4, u 4, v 4, out 4
scratch t: FP32
primitive one = Copy(in0 -> t; M=[i], N=[])
primitive two = Add(t, t -> u; M=[i], N=[])
primitive three = Add(u, u -> v; M=[i], N=[])
primitive four = Copy(v -> out; M=[i], N=[])
a: one
sequential p over p
  scratch u: FP32
  scratch v: FP32
  b: two
  c: three
  d: four
"""
        )
    )
    assert found == {"t": range(4), "u": range(1, 3), "v": range(2, 4)}


@pytest.mark.parametrize("seed", range(50))
def test_rooms_that_live_together_lie_apart(seed: int) -> None:
    rng = random.Random(seed)
    rooms = []
    for number in range(rng.randint(1, 20)):
        first = rng.randint(0, 9)
        size = 64 * rng.randint(1, 30)
        rooms.append(Room(f"t{number}", size, range(first, first + rng.randint(1, 6))))
    placed, end = place(rooms)
    live = [sum(one.size_bytes for one in rooms if leaf in one.lifetime) for leaf in range(16)]
    assert max(live) <= end <= sum(one.size_bytes for one in rooms)
    for leaf in range(16):
        spans = sorted(
            (placed[one.tensor], placed[one.tensor] + one.size_bytes)
            for one in rooms
            if leaf in one.lifetime
        )
        assert all(0 <= low < high <= end for low, high in spans)
        assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))
