"""Panels are packed one at a time where the columns they meet stay in the second cache."""

from __future__ import annotations

import pytest

from search.planned import USUAL, choice_of
from teir.dtypes import DataType
from teir.search.choice import Packing

TEXT = "trus,pqtu->pqrs"
SIZES = {"p": 23, "q": 12, "r": 74, "s": 17, "t": 11, "u": 11}


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64, DataType.C64])
def test_a_panel_is_packed_when_it_is_needed(data_type: DataType) -> None:
    choice = choice_of(TEXT, SIZES, USUAL, data_type)
    assert choice.packed_a is Packing.BLOCKS
    assert choice.row_block == choice.panel


@pytest.mark.parametrize(
    ("changed", "data_type"),
    [({"q": 40}, DataType.FP64), ({"r": 800}, DataType.FP64), ({}, DataType.BF16)],
    ids=["many columns", "from memory", "narrow"],
)
def test_others_are_packed_together(changed: dict[str, int], data_type: DataType) -> None:
    choice = choice_of(TEXT, SIZES | changed, USUAL, data_type)
    assert choice.packed_a is Packing.NONE or choice.row_block > choice.panel
