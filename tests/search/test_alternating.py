"""Results in short runs of both operands: made in an order of their own, or written at once."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

import teir
from search.planned import FAR, USUAL, assert_alike, assert_exact, planned
from teir.dtypes import DataType
from teir.search.machine import Machine
from teir.search.tree import TreeProgram

TEXT = "afbk,kcf->cbfa"
EXTENTS = {"a": 4, "f": 15, "b": 13, "c": 36, "k": 35}


def is_ordered(one: TreeProgram) -> bool:
    return "out_ordered" in {tensor.name for tensor in one.program.scratch}


@pytest.mark.parametrize("machine", [USUAL, FAR], ids=["usual", "far"])
@pytest.mark.parametrize(
    ("changed", "expected"),
    [({}, True), ({"a": 8}, False), ({"c": 3, "k": 8}, False)],
    ids=["short runs", "lines", "little work"],
)
def test_when_results_are_made_in_another_order(
    changed: dict[str, int], expected: bool, machine: Machine
) -> None:
    assert is_ordered(planned(TEXT, EXTENTS | changed, machine, DataType.FP64)) is expected


def test_results_that_lie_well_are_written_at_once() -> None:
    extents = {"a": 7, "b": 64, "c": 64, "k": 64}
    assert not is_ordered(planned("bck,ka->bca", extents, USUAL, DataType.FP64))


@pytest.mark.parametrize("data_type", [DataType.FP32, DataType.FP64, DataType.C64, DataType.BF16])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_computed(data_type: DataType, threads: int) -> None:
    extents = EXTENTS | {"f": 5, "b": 6}
    one = planned(TEXT, extents, replace(USUAL, threads=threads), data_type)
    assert is_ordered(one) or threads > 1
    assert_exact(one.program, TEXT, extents, data_type, threads)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex64])
def test_what_no_operand_moves_is_repeated_not_summed(kind: type) -> None:
    left = np.arange(26 * 7 * 4 * 31).reshape(1, 26, 7, 4, 31) % 7
    repeated = np.broadcast_to(left.astype(kind), (6, 26, 7, 4, 31))
    out = np.zeros((4, 26, 7, 7), kind)[..., 1:]
    teir.einsum("dcbea,->ecbd", repeated, kind(2), out=out)
    np.testing.assert_array_equal(out, 2 * np.einsum("dcbea->ecbd", repeated))


def test_every_sum_stays_the_chain_it_was() -> None:
    extents = EXTENTS | {"f": 5, "b": 6}
    programs = [
        planned(TEXT, extents, replace(USUAL, threads=threads), DataType.FP64).program
        for threads in (1, 2)
    ]
    assert_alike(programs, TEXT, extents, 5)


def test_what_is_compared_takes_no_decision_of_tuning() -> None:
    """One matrix step is recorded, whatever was put together on trial."""
    one = planned(TEXT, EXTENTS, USUAL, DataType.FP64)
    assert len(one.matrix_steps) == 1
    (step,) = one.matrix_steps
    assert step.shape.out.name == "out_ordered"
