"""What a call of a case is counted as."""

from __future__ import annotations

import pytest

from teir.cli.peers.case import Case
from teir.dtypes import DataType

EXTENTS = {"i": 7, "j": 5, "k": 3, "l": 11}


@pytest.mark.parametrize(
    ("einsum", "products"),
    [
        ("ij,jk->ik", 7 * 5 * 3),
        ("ij,jk,kl->il", 7 * 5 * 3 + 7 * 3 * 11),
        ("i,i,i->i", 2 * 7),
        ("ij->i", 7 * 5),
    ],
)
def test_operations_are_those_of_the_path(einsum: str, products: int) -> None:
    shapes = tuple(
        tuple(EXTENTS[index] for index in term) for term in einsum.partition("->")[0].split(",")
    )
    case = Case(name=einsum, family="", einsum=einsum, shapes=shapes)
    assert case.flops(DataType.FP32) == 2 * products
    assert case.flops(DataType.C64) == 8 * products
