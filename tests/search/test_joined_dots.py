"""Dots of joined rows; batches of matrices whose rows are so joined are products of blocks."""

from __future__ import annotations

import pytest

from search.planned import USUAL, assert_exact, planned
from teir.dtypes import DataType
from teir.ir.lanes import lanes_of

TEXT = "ake,bke->abe"


@pytest.mark.parametrize(
    ("rows", "columns", "are_joined"),
    [(5, 5, False), (60, 7, False), (4, 60, True), (60, 4, True), (2, 2, True)],
)
@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64])
@pytest.mark.parametrize("batch", [2, 5, 8])
def test_batches_of_matrices_are_not_joined(
    rows: int, columns: int, are_joined: bool, data_type: DataType, batch: int
) -> None:
    extents = {"a": rows, "b": columns, "k": 97, "e": batch}
    program = planned(TEXT, extents, USUAL, data_type).program
    chains = [one for one in program.primitives if one.k and lanes_of(one) is not None]
    assert bool(chains) == are_joined
    assert_exact(program, TEXT, extents, data_type, 97)
