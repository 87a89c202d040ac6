"""Rows shared among threads by what they store: every row once, whatever the rows hold."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from teir.ir.load import loads
from teir.lower.balance import balance_of
from teir.lower.kernel_program import Grid
from teir.lower.lower import lower
from teir.lower.slots import assign_slots
from teir.pipeline.executable import compile_program, default_isa

Array = np.ndarray[Any, np.dtype[Any]]

TEXT = """teir 1 "rows"
tensor B: FP64
tensor pos: {index}
tensor crd: {index}
tensor C: FP64
tensor A: FP64
axis j = 50: B 8, crd {w}, C 24; segment pos pos crd crd by_position [B]
axis i = {rows}: pos {step}, A 24
axis k = 3: C 8, A 8
primitive zero = Zero(A; M=[k], N=[])
primitive add = Contraction FP64 (B, C -> A; M=[k], N=[], K=[])
parallel i over i
  zero: zero
  sequential j over j
    add: add
"""


def text(rows: int, index: str = "I32", apart: int = 1) -> str:
    width = {"I32": 4, "I64": 8}[index]
    return TEXT.format(rows=rows, index=index, w=width, step=apart * width)


def lengths(kind: str, rows: int) -> Array:
    match kind:
        case "even":
            return np.full(rows, 4)
        case "none":
            return np.zeros(rows, int)
        case "first":
            return np.where(np.arange(rows) == 0, 50, 0)
        case "last":
            return np.where(np.arange(rows) == rows - 1, 50, 0)
        case _:
            return np.random.default_rng(rows).integers(0, 50, rows) ** 3 // 2500


@pytest.mark.parametrize("kind", ["even", "none", "first", "last", "skewed"])
@pytest.mark.parametrize("rows", [2, 17, 300, 1500])
@pytest.mark.parametrize("index", ["I32", "I64"])
def test_every_row_once(kind: str, rows: int, index: str) -> None:
    program = loads(text(rows, index))
    random = np.random.default_rng(rows)
    pos = np.concatenate([[0], np.cumsum(lengths(kind, rows))])
    crd = [np.sort(random.permutation(50)[: b - a]) for a, b in pairwise(pos)]
    dtype = np.int32 if index == "I32" else np.int64
    operands = {
        "B": random.integers(-3, 4, max(1, pos[-1])).astype(float),
        "pos": pos.astype(dtype),
        "crd": np.concatenate([*crd, np.zeros(int(pos[-1] == 0))]).astype(dtype),
        "C": random.integers(-3, 4, (50, 3)).astype(float),
    }
    expected = np.zeros((rows, 3))
    np.add.at(
        expected,
        np.repeat(np.arange(rows), np.diff(pos)),
        operands["B"][: pos[-1], None] * operands["C"][operands["crd"][: pos[-1]]],
    )
    for threads in (1, 2, 3):
        executable = compile_program(program, threads=threads)
        for one in (executable, executable.specialised()):
            found = {**operands, "A": np.full((rows, 3), np.nan)}
            one.run(found)
            np.testing.assert_array_equal(found["A"], expected)


def test_shares_go_by_the_bounds_of_the_first_sparse_loop() -> None:
    program = loads(text(300))
    grids = [node for node in lower(program, default_isa()).roots if isinstance(node, Grid)]
    balance = grids[0].balance
    assert balance is not None
    assert balance.stride_bytes == 4 * balance.rows


def test_bounds_that_leave_gaps_tell_nothing() -> None:
    """With bounds two entries apart the end of a row is not where the next one begins."""
    for apart, is_shared in ((1, True), (2, False)):
        program = loads(text(20, apart=apart))
        (node,) = program.roots
        axes = program.axis_table()
        found = balance_of(node, (axes["i"],), axes, assign_slots(program))  # type: ignore[arg-type]
        assert (found is not None) == is_shared
