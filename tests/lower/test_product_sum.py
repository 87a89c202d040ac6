"""How the terms of a sum along rows are taken: row by row, or in runs that several pieces of a row
find near."""

from __future__ import annotations

import pytest

from teir.ir.parsing import parse_program
from teir.lower.calls import calls_of
from teir.lower.kernel_program import Call, KernelNode, Loop
from teir.lower.kernels import ProductSum
from teir.lower.lower import lower
from teir.target import Isa


def sums_of_rows(
    m: int, k: int, inputs: int = 3, blocks: int = 1, batch: int = 1
) -> tuple[KernelNode, ...]:
    """The nodes of out[block, m] = sum over batch, k of in0[block, batch, k, m] in1 .. in FP32.

    From one batch to the next lies one more row.
    """
    row = 4 * m
    steps = {"m": 4, "k": row, "z": row * (k + 1), "b": row * (k + 1) * batch}
    names = [f"in{number}" for number in range(inputs)]
    moves = {axis: ", ".join(f"{name} {step}" for name in names) for axis, step in steps.items()}
    roles = "C=[m], M=[]" if inputs > 1 else "M=[m]"
    tensors = "\n".join(f"tensor {name}: FP32" for name in names)
    program = parse_program(
        f"""teir 1 "sums"
{tensors}
tensor out: FP32
axis b = {blocks}: {moves["b"]}, out {row}
axis m = {m}: {moves["m"]}, out 4
axis z = {batch}: {moves["z"]}
axis k = {k}: {moves["k"]}
primitive zero = Zero(out; M=[m], N=[])
primitive sums = Contraction FP32 ({", ".join(names)} -> out; {roles}, N=[], K=[z, k])
sequential loop_b over b
  do_zero: zero
  do_sums: sums
"""
    )
    return lower(program, Isa.AVX512).roots


def calls(nodes: tuple[KernelNode, ...]) -> list[tuple[int | None, int, int]]:
    """Of every call the vectors of its kernel, its terms, and how often it runs."""
    found = []
    for call, times in calls_of(nodes):
        assert isinstance(call.kernel, ProductSum)
        found.append((call.kernel.vectors, call.arguments[1] * call.arguments[2], times))
    return found


@pytest.mark.parametrize("m", [17, 32, 40])
def test_short_rows_of_several_pieces_are_taken_in_runs_that_stay_near(m: int) -> None:
    first, loop, *left = sums_of_rows(m, 10_000)
    assert isinstance(first, Call)
    assert isinstance(first.kernel, ProductSum)
    assert isinstance(loop, Loop)
    run = first.arguments[1]
    assert 3 * 4 * m * run <= 1 << 14
    rest = sum(node.arguments[1] for node in left if isinstance(node, Call))
    assert run * (1 + loop.extent) + rest == 10_000


@pytest.mark.parametrize(("m", "k"), [(16, 10_000), (50, 300)])
def test_rows_of_one_piece_and_few_rows_are_one_run(m: int, k: int) -> None:
    (call,) = sums_of_rows(m, k)
    assert isinstance(call, Call)


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize(("m", "vectors"), [(17, 2), (32, 2), (384, 24), (16, None), (385, None)])
def test_rows_that_registers_hold_are_summed_whole(
    m: int, vectors: int | None, inputs: int
) -> None:
    assert calls(sums_of_rows(m, 10, inputs, batch=3)) == [(vectors, 30, 1)]


def test_longer_rows_from_memory_are_taken_one_by_one() -> None:
    blocks, batch, k, m = 30, 5, 60, 1000
    taken = calls(sums_of_rows(m, k, 1, blocks, batch))
    assert {(vectors, terms) for vectors, terms, _ in taken} == {(None, 1)}
    assert sum(times for _, _, times in taken) == blocks * batch * k
    near = calls(sums_of_rows(m, k, 1, 1, batch))
    assert near == [(None, batch * k, 1)]
