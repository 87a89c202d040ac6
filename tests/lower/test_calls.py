"""Every call of a kernel program, how often it is made, and scratch as the check measured it."""

from __future__ import annotations

from pathlib import Path

import pytest

from teir.dtypes import DataType
from teir.ir.check import prove
from teir.ir.load import load
from teir.lower.asking_kernels import BringLines
from teir.lower.calls import USUAL_FIBRE, calls_of
from teir.lower.explanation import count_calls
from teir.lower.kernel_program import Address, Call, Grid, GridAxis, Loop, RunLoop, SparseLoop
from teir.lower.lower import lower
from teir.target import Isa

HERE = Address(slot=0, offset_bytes=0)
CASES = sorted((Path(__file__).parents[1] / "cases").glob("*.teir"))


def call(number: int) -> Call:
    return Call(kernel=BringLines(), operands=(HERE, HERE, HERE), arguments=(number,))


def test_loops_and_grids_multiply() -> None:
    inner = Loop(extent=5, steps=(), index=None, body=(call(1), call(2)))
    axes = tuple(GridAxis(extent=extent, steps=(), index=None) for extent in (3, 4))
    found = calls_of((Grid(axes=axes, body=(inner,)), call(3)))
    assert {one.arguments[0]: times for one, times in found} == {1: 60, 2: 60, 3: 1}


def test_a_fibre_counts_as_a_usual_one() -> None:
    sparse = SparseLoop(extent=1000, walks=(), steps=(), index=None, last=None, body=(call(1),))
    assert calls_of((sparse,)) == [(call(1), USUAL_FIBRE)]


def test_what_runs_rarely_is_listed_but_not_counted() -> None:
    runs = RunLoop(
        pos=HERE,
        pos_type=DataType.I32,
        size=8,
        bounds=HERE,
        steps=(),
        body=(call(1),),
        first=(call(2),),
    )
    assert calls_of((runs,)) == [(call(2), 0), (call(1), 1)]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_scratch_as_the_check_measured_it_is_scratch_as_lowering_does(path: Path) -> None:
    """The bytes of the proof are those a walk of the program finds; no call is lost."""
    proof = prove(load(path))
    if not proof.report.ok:
        pytest.skip("not a program that runs")
    alone = lower(proof.report.program, Isa.AVX512)
    assert lower(proof.report.program, Isa.AVX512, proof.report.needs) == alone
    assert {one.kernel for one, _ in calls_of(alone.roots)} == set(count_calls(alone.roots))
