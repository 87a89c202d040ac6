"""Which gathered rows are copied to where lines begin, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from teir.arrays.levels import Format, Level
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.check import check
from teir.ir.nodes import InvocationNode, Operation, Program
from teir.passes.facts import Facts
from teir.passes.gathered_lines import with_gathered_lines
from teir.passes.shared_roots import with_shared_roots
from teir.pipeline.executable import compile_for, compile_program
from teir.search.sparse.graph import linear
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of

FACTS = Facts(vector_bytes=64, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=32 << 20, threads=1)
SPMM = "A[i,l] = B[i,j] * C[j,l]"
SDDMM = "A[i,j] = B[i,j] * C[i,k] * D[j,k]"
OFTEN = {"B.crd1": 1 << 40}


def program_for(text: str, extents: dict[str, int], data_type: DataType = DataType.FP64) -> Program:
    """B, and A where it has B's indices, are compressed below their first index."""
    levels = Format(levels=(Level.DENSE, Level.COMPRESSED), mode_order=(0, 1))
    shares = text.startswith("A[i,j]")
    formats = {"B": levels, "A": levels} if shares else {"B": levels}
    statement = statement_of(parse_index_notation(text), formats)
    return program_of(
        linear(statement, tuple(extents)),
        extents,
        data_type=data_type,
        index_type=DataType.I32,
        name="gather",
        shares="B" if shares else None,
    )


def copied(program: Program) -> dict[str, str]:
    """What root Copies read, by what they write."""
    primitives = program.primitive_table()
    leaves = [primitives[one.primitive] for _, one in program.invocations()]
    return {one.output: one.inputs[0] for one in leaves if one.operation is Operation.COPY}


@pytest.mark.parametrize(
    ("columns", "width", "gathers", "is_copied"),
    [
        (512, 16, 512 * 250, True),
        (512, 128, 512 * 250, True),
        (512, 128, 512 * 100, False),
        (513, 128, 513 * 250, False),
        (512, 20, 512 * 250, False),
    ],
)
def test_rows_of_whole_lines_that_are_gathered_often_and_fit(
    columns: int, width: int, gathers: int, is_copied: bool
) -> None:
    program = program_for(SPMM, {"i": 4000, "j": columns, "l": width})
    after = with_gathered_lines(program, {"B.crd1": gathers}, FACTS)
    assert copied(after) == ({"C_lines": "C"} if is_copied else {})
    assert is_copied or after is program
    check(after).raise_if_wrong()


def test_half_a_line_a_vector_leaves_rows_where_they_are() -> None:
    program = program_for(SPMM, {"i": 40, "j": 9, "l": 16})
    facts = Facts(vector_bytes=32, l1_bytes=1 << 15, l2_bytes=1 << 20, l3_bytes=1 << 25, threads=1)
    assert with_gathered_lines(program, OFTEN, facts) is program


def test_only_what_coordinates_choose_is_copied() -> None:
    program = program_for(SDDMM, {"i": 40, "j": 9, "k": 32})
    after = with_gathered_lines(program, OFTEN, FACTS)
    assert copied(after) == {"D_lines": "D"}
    check(after).raise_if_wrong()


def test_all_copies_together_fit() -> None:
    text = "A[i,l] = B[i,j] * C[j,l] * D[j,l]"
    program = program_for(text, {"i": 40, "j": 512, "l": 128})
    assert copied(with_gathered_lines(program, OFTEN, FACTS)) == {"C_lines": "C"}


def test_a_copy_is_shared_by_threads() -> None:
    program = program_for(SPMM, {"i": 4000, "j": 512, "l": 128})
    after = with_shared_roots(with_gathered_lines(program, OFTEN, FACTS), 2)
    assert not isinstance(after.roots[0], InvocationNode)
    check(after).raise_if_wrong()


@pytest.mark.parametrize("text", [SPMM, SDDMM, "A[i,l] = B[i,j] * C[j,l] * D[j,l]"])
@pytest.mark.parametrize("data_type", [DataType.FP64, DataType.FP32])
def test_every_bit_is_kept(text: str, data_type: DataType) -> None:
    """Of native code, with rows that begin inside a line, and of the evaluator."""
    extents = {"i": 50, "j": 40, "k" if text == SDDMM else "l": 32}
    program = program_for(text, extents, data_type)
    after = with_gathered_lines(program, OFTEN, FACTS)
    assert copied(after)
    draw = np.random.default_rng(3)
    pattern = draw.random((50, 40)) < 0.6
    pattern[7:9] = False
    pos = np.append(0, pattern.sum(1).cumsum()).astype(np.int32)
    crd = np.nonzero(pattern)[1].astype(np.int32)
    kind = data_type.numpy_dtype()
    operands = {"B.pos1": pos, "B.crd1": crd, "B": draw.standard_normal(crd.size).astype(kind)}
    for name in {tensor.name for tensor in program.tensors} - {*operands, "A"}:
        rows = 50 if text == SDDMM and name == "C" else 40
        operands[name] = draw.standard_normal((rows, 32)).astype(kind)
    shape = crd.size if text == SDDMM else (50, 32)
    results = []
    for one in (program, after):
        reference = compile_for(one, backend="reference", threads=1)
        for run in (compile_program(one, threads=1), compile_program(one, threads=2), reference):
            results.append(np.full(shape, np.nan, kind))
            run.run({**operands, "A": results[-1]})
    for before, found in zip(results[:3], results[3:], strict=True):
        np.testing.assert_array_equal(found, before)
