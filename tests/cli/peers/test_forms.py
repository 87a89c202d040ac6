"""Every form of every installed peer computes the einsum it stands for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from teir.cli.peers.case import Case
from teir.cli.peers.choosing import Settings, choose_form
from teir.cli.peers.libraries import PEERS, installed_peers
from teir.cli.peers.matrix_form import matrix_product
from teir.cli.peers.operands import agrees, draw
from teir.dtypes import DataType

EXTENTS = {"a": 3, "b": 5, "c": 4, "d": 6, "e": 2}
EXPRESSIONS = (
    "ab,bc->ac",
    "abc,cbd->da",
    "eab,ebc->eac",
    "abe,bce->ace",
    "ab,cd->cadb",
    "ab,ab->ba",
    "ab,ab->a",
    "ab,ab->",
    "ab,b->a",
    "acd,bdce->eabd",
)
FACTORS = ("a,b,c,d->abcd", "ab,b,ca->bca")
"""Products of more than two factors that sum nothing."""


def _case(einsum: str, turned: bool = False) -> Case:
    terms = einsum.partition("->")[0].split(",")
    shapes = tuple(tuple(EXTENTS[index] for index in term) for term in terms)
    orders = tuple(tuple(reversed(range(len(shape)))) for shape in shapes) if turned else ()
    return Case(
        name=einsum,
        family="",
        einsum=einsum,
        shapes=shapes,
        orders=orders,
        is_copy=len(terms) == 1,
    )


@pytest.mark.parametrize("peer", [name for name in installed_peers() if "etops" not in name])
@pytest.mark.parametrize("turned", [False, True])
def test_every_form_is_right(peer: str, turned: bool) -> None:
    timed = 0
    for einsum in (*EXPRESSIONS, *FACTORS, "abcd->cadb"):
        case = _case(einsum, turned)
        for data_type in (DataType.FP32, DataType.FP64):
            operands = draw(case, data_type, offset_bytes=16)
            for label, call in PEERS[peer].forms(case, data_type, operands, 1):
                operands.out[...] = -1
                result = call()
                found = operands.out if result is None else result
                assert agrees(found, operands.expected, data_type), (einsum, label)
                timed += 1
    assert timed > 0 or peer.startswith("opt_einsum")


@pytest.mark.parametrize("peer", ["torch", "opt_einsum torch"])
def test_results_of_bfloat16_tensors_are_read(peer: str) -> None:
    if peer not in installed_peers():
        pytest.skip("PyTorch is not installed")
    case, data_type = _case("acd,bdce->eabd"), DataType.BF16
    operands = draw(case, data_type, offset_bytes=16)
    results = [call() for _, call in PEERS[peer].forms(case, data_type, operands, 1)]
    assert agrees(results[0], operands.expected, data_type)
    assert not agrees(results[0] + 1000, operands.expected, data_type)
    clearing = replace(case, clears_negatives=True)
    operands = draw(clearing, data_type, offset_bytes=16)
    settings = Settings(data_type=data_type, rounds=1, threads=1, offset_bytes=16, peers=(peer,))
    chosen = choose_form(peer, clearing, settings, operands)
    assert chosen.call is not None, chosen.form


@pytest.mark.parametrize("einsum", EXPRESSIONS)
@pytest.mark.parametrize("always_copy", [False, True])
def test_a_matrix_product_with_its_copies_is_the_einsum(einsum: str, always_copy: bool) -> None:
    case = _case(einsum)
    operands = draw(case, DataType.FP64, offset_bytes=0)
    product = matrix_product(case, operands.inputs, operands.out, always_copy)
    for target, source in product.before:
        target[...] = source
    product.result[...] = product.left @ product.right
    for target, source in product.after:
        target[...] = source
    assert np.array_equal(operands.out, operands.expected)


def test_a_peer_that_fails_has_a_reason() -> None:
    if "etops" not in installed_peers():
        pytest.skip("etops is not installed")
    case = _case("ab,bc,cd->ad")
    operands = draw(case, DataType.FP32, offset_bytes=0)
    settings = Settings(
        data_type=DataType.FP32, rounds=1, threads=1, offset_bytes=0, peers=("etops",)
    )
    chosen = choose_form("etops", case, settings, operands)
    assert chosen.call is None
    assert chosen.form == "more than two operands"


def test_wrong_results_are_told_from_right_ones() -> None:
    operands = draw(_case("ab,bc->ac"), DataType.FP32, offset_bytes=0)
    wrong = operands.expected.copy()
    assert agrees(wrong, operands.expected, DataType.FP32)
    wrong[0, 0] += 1
    assert not agrees(wrong, operands.expected, DataType.FP32)
    assert not agrees(wrong[:1], operands.expected, DataType.FP32)
