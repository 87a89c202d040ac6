"""Sparse programs as native code: both forms mean what the evaluator says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.sparse.drawn import Case, cases, graphs
from search.sparse.kernels import KERNELS
from search.sparse.stored import Array, dense_of, stored
from teir.dtypes import DataType
from teir.ir.check import check
from teir.ir.evaluate import evaluate
from teir.ir.load import loads
from teir.ir.nodes import Program
from teir.lower.evaluate import evaluate_kernels
from teir.lower.lower import lower
from teir.passes.row_blocks import with_row_blocks
from teir.pipeline.executable import compile_program, default_isa
from teir.search.sparse.predicted import Problem
from teir.search.sparse.ranked import ranked
from teir.search.sparse.translate import program_of


def copies(operands: dict[str, Array]) -> dict[str, Array]:
    return {name: array.copy() for name, array in operands.items()}


def same_everywhere(program: Program, operands: dict[str, Array], threads: int = 1) -> None:
    """Table and specialised code agree bit for bit, and with the evaluators."""
    expected = copies(operands)
    evaluate(program, expected)
    lowered = copies(operands)
    evaluate_kernels(lower(program, default_isa()), lowered, {})
    executable = compile_program(program, threads=threads)
    in_table = copies(operands)
    executable.run(in_table)
    specialised = copies(operands)
    executable.specialised().run(specialised)
    for name, array in expected.items():
        np.testing.assert_array_equal(in_table[name], specialised[name], err_msg=name)
        for found in (lowered, in_table):
            np.testing.assert_allclose(found[name], array, rtol=1e-9, atol=1e-9, err_msg=name)


@settings(max_examples=40, deadline=None)
@given(cases(), st.sampled_from((DataType.I32, DataType.I64)), st.data())
def test_every_schedule_runs_natively(case: Case, index: DataType, data: st.DataObject) -> None:
    graph = data.draw(graphs(case.statement))
    program = program_of(
        graph, case.extents, data_type=DataType.FP64, index_type=index, name="drawn"
    )
    operands: dict[str, Array] = {}
    for access, fmt in zip(case.statement.accesses, case.statement.formats, strict=True):
        name = access.tensor
        operands |= stored(name, case.arrays[name], case.patterns[name], fmt)
    for name, array in operands.items():
        if ".pos" in name or ".crd" in name:
            operands[name] = array.astype(index.numpy_dtype())
    same_everywhere(program, operands, data.draw(st.sampled_from((1, 2))))


GUARDED = """teir 1 "guarded"
tensor pos: I32
tensor crd: I64
tensor B: FP64
tensor A: FP64
tensor L: FP64
axis i = 3: pos 4, A 8, L 8
axis j = 9: crd 8, B 8; segment pos pos crd crd by_position [B]
primitive start = Copy(B -> A; M=[], N=[])
primitive add = Contraction FP64 (B -> A; M=[], N=[], K=[])
primitive keep = Copy(B -> L; M=[], N=[])
sequential i over i
  sequential j over j
    s: start if first(j)
    a: add
    l: keep if last(j)
"""


def test_guards_speak_of_visits() -> None:
    operands = {
        "pos": np.array([0, 3, 3, 4], np.int32),
        "crd": np.array([1, 4, 8, 0], np.int64),
        "B": np.array([1.0, 2.0, 4.0, 8.0]),
        "A": np.zeros(3),
        "L": np.zeros(3),
    }
    program = loads(GUARDED)
    same_everywhere(program, operands)
    compile_program(program).run(operands)
    np.testing.assert_array_equal(operands["A"], [8.0, 0.0, 16.0])
    np.testing.assert_array_equal(operands["L"], [4.0, 0.0, 8.0])


FIRST = "segment pos p crd c by_position [X]"
SECOND = "segment pos q crd d by_position [Y]"
MEETING = f"""teir 1 "meeting"
tensor p: I32
tensor c: I32
tensor X: FP64
tensor q: I64
tensor d: I64
tensor Y: FP64
tensor A: FP64
axis j = 100000: c 4, X 8, d 8, Y 8; {FIRST}; {SECOND}
primitive add = Contraction FP64 (X, Y -> A; M=[], N=[], K=[])
sequential j over j
  a: add
"""


@pytest.mark.parametrize("counts", [(0, 5), (5, 0), (1, 1), (3, 4000), (4000, 3), (900, 900)])
def test_coordinates_that_two_levels_hold(counts: tuple[int, int]) -> None:
    draw = np.random.default_rng(sum(counts))
    left, right = (np.sort(draw.choice(5000, count, replace=False)) for count in counts)
    operands = {
        "p": np.array([0, left.size], np.int32),
        "c": left.astype(np.int32),
        "X": draw.standard_normal(left.size),
        "q": np.array([0, right.size], np.int64),
        "d": right.astype(np.int64),
        "Y": draw.standard_normal(right.size),
        "A": np.zeros(1),
    }
    same_everywhere(loads(MEETING), operands)


@settings(max_examples=40, deadline=None)
@given(cases(), st.data())
def test_row_blocks_keep_every_bit(case: Case, data: st.DataObject) -> None:
    extents = case.extents
    graph = data.draw(graphs(case.statement))
    program = program_of(
        graph, extents, data_type=DataType.FP64, index_type=DataType.I32, name="drawn"
    )
    blocked = with_row_blocks(program, 1)
    if blocked is program:
        return
    check(blocked).raise_if_wrong()
    operands: dict[str, Array] = {}
    for access, fmt in zip(case.statement.accesses, case.statement.formats, strict=True):
        name = access.tensor
        operands |= stored(name, case.arrays[name], case.patterns[name], fmt)
    before, after = copies(operands), copies(operands)
    compile_program(program, threads=1).run(before)
    compile_program(blocked, threads=2).run(after)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)


SIZES = {"i": 53, "j": 19, "k": 21, "l": 24, "m": 16, "n": 17}


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_the_frontier_of_each_kernel_runs_natively(name: str) -> None:
    """With rows enough for blocks and what is left over, dots and fibres of all lengths."""
    statement = KERNELS[name].statement
    extents = {index: SIZES[index] for index in statement.indices}
    draw = np.random.default_rng(7)
    inputs, operands = {}, {}
    for access, fmt in zip(statement.accesses, statement.formats, strict=True):
        shape = tuple(extents[index] for index in access.indices)
        pattern = np.ones(shape, bool)
        if fmt.is_sparse and access is not statement.output:
            pattern = draw.random(shape) < 0.2
            pattern[3] = False
        inputs[access.tensor] = draw.standard_normal(shape) * pattern
        operands |= stored(access.tensor, inputs[access.tensor], pattern, fmt)
    words = ",".join("".join(access.indices) for access in statement.inputs)
    arrays = [inputs[access.tensor] for access in statement.inputs]
    output = statement.output
    wanted = np.einsum(f"{words}->{''.join(output.indices)}", *arrays, optimize=True)
    symbols = {**extents, **{f"{index}pos": 4.0 for index in extents}}
    problem = Problem(statement=statement, symbols=symbols, element_bytes=8, cache_bytes=1 << 25)
    for one in ranked(problem)[:14]:
        graph = one.candidate.graph
        program = program_of(
            graph, extents, data_type=DataType.FP64, index_type=DataType.I32, name=name
        )
        blocked = with_row_blocks(program, 1)
        results = []
        for made, threads in ((program, 1), (blocked, 2)):
            executable = compile_program(made, threads=threads)
            for run in (executable, executable.specialised()):
                found = copies(operands)
                run.run(found)
                results.append(dense_of(output.tensor, found, wanted.shape, statement.formats[0]))
        for found in results:
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
            np.testing.assert_array_equal(found, results[0])
