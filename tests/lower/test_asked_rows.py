"""Which rows of a result are asked for before they are written, and that sums stay the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from teir.arrays.levels import parse_format
from teir.backends.llvm.kernel_words import kernel_words
from teir.dtypes import DataType
from teir.expr.index_notation_parsing import parse_index_notation
from teir.ir.nodes import Program
from teir.lower import asked_rows
from teir.lower.kernel_program import Call, Grid, KernelNode
from teir.lower.lower import lower
from teir.lower.walked_kernels import WalkedSum
from teir.pipeline.executable import compile_program
from teir.search.sparse.graph import linear
from teir.search.sparse.statement import statement_of
from teir.search.sparse.translate import program_of
from teir.target import Isa


def product(rows: int, columns: int, data_type: DataType = DataType.FP64) -> Program:
    """A sparse matrix of rows by 500 times a dense one."""
    statement = statement_of(
        parse_index_notation("A[i,l] = B[i,j] * C[j,l]"), {"B": parse_format("ds")}
    )
    return program_of(
        linear(statement, ("i", "j", "l")),
        {"i": rows, "j": 500, "l": columns},
        data_type=data_type,
        index_type=DataType.I32,
        name="spmm",
    )


def sums(nodes: tuple[KernelNode, ...]) -> Iterator[WalkedSum]:
    for node in nodes:
        if isinstance(node, Grid):
            yield from sums(node.body)
        elif isinstance(node, Call) and isinstance(node.kernel, WalkedSum):
            yield node.kernel


@pytest.mark.parametrize(
    ("isa", "rows", "columns", "data_type", "asks"),
    [
        (Isa.AMX, 16_000, 64, DataType.FP64, True),
        (Isa.AMX, 16_010, 64, DataType.FP64, True),
        (Isa.AMX, 16_000, 128, DataType.FP32, True),
        (Isa.AMX, 4000, 64, DataType.FP64, False),
        (Isa.AMX, 60_000, 32, DataType.FP64, False),
        (Isa.AVX512, 16_000, 64, DataType.FP64, False),
        (Isa.AVX2, 16_000, 64, DataType.FP64, False),
    ],
)
def test_long_rows_of_large_results_are_asked_for(
    isa: Isa, rows: int, columns: int, data_type: DataType, asks: bool
) -> None:
    found = list(sums(lower(product(rows, columns, data_type), isa).roots))
    assert found
    for kernel in found:
        assert kernel.rows is not None
        assert kernel.rows.asks is asks
        assert ("_asks" in kernel_words(kernel)) is asks


@pytest.mark.parametrize("threads", [1, 2])
def test_asking_changes_no_sum(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of no elements, of few, and of more than are asked for."""
    monkeypatch.setattr(asked_rows, "_FAR_RESULT_BYTES", 0)
    draw = np.random.default_rng(1)
    lengths = draw.integers(0, 30, 203)
    columns = [np.sort(draw.choice(500, length, replace=False)) for length in lengths]
    dense = np.zeros((203, 500))
    for row, places in enumerate(columns):
        dense[row, places] = draw.integers(1, 9, places.size)
    operands = {
        "B": dense[dense != 0],
        "B.pos1": np.append(0, np.cumsum(lengths)).astype(np.int32),
        "B.crd1": np.concatenate(columns).astype(np.int32),
        "C": draw.integers(-9, 9, (500, 64)).astype(np.float64),
        "A": np.full((203, 64), np.nan),
    }
    compile_program(product(203, 64), threads=threads).run(operands)
    np.testing.assert_array_equal(operands["A"], dense @ operands["C"])
