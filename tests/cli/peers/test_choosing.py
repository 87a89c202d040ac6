"""What is measured has settled: the code made for calls that are made often is there."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import teir
from teir.backends.llvm import background
from teir.backends.llvm.background import background_specialiser
from teir.cli.peers import choosing
from teir.cli.peers.case import Case
from teir.cli.peers.choosing import OURS, Settings, measure_contenders
from teir.cli.peers.operands import draw
from teir.cli.peers.rounds import Call, Rounds
from teir.dtypes import DataType
from teir.runtime.runtime import current

CASE = Case(name="turned", family="", einsum="bik,bjk->bij", shapes=((512, 8, 8), (512, 8, 8)))
SETTINGS = Settings(data_type=DataType.FP64, rounds=1, threads=1, offset_bytes=16, peers=())
Calls = dict[str, Call]


def test_specialised_code_is_there_when_measuring_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_CODE_SECONDS", 1e-4)
    operands = draw(CASE, DataType.FP64, 16)
    plan = teir.plan(CASE.einsum, *operands.inputs, threads=1)
    calls = partial(plan, *operands.inputs, out=operands.out)
    seen: list[bool] = []

    def measured(*_: object) -> Rounds:
        assert plan.executable is not None
        seen.append(plan.executable.native.is_specialised)
        return Rounds(seconds={OURS: [1.0]})

    monkeypatch.setattr(choosing, "measure", measured)
    measure_contenders(CASE, SETTINGS, operands, calls, "plan")
    assert seen == [background_specialiser(current()).is_on]
    np.testing.assert_allclose(operands.out, np.einsum(CASE.einsum, *operands.inputs))


def test_a_wrong_result_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = draw(CASE, DataType.FP64, 16)
    contenders: list[Calls] = []

    def measured(_: Case, _type: DataType, calls: Calls, *_rest: object) -> Rounds:
        contenders.append(calls)
        return Rounds()

    monkeypatch.setattr(choosing, "measure", measured)
    _, forms = measure_contenders(CASE, SETTINGS, operands, lambda: None, "plan")
    assert contenders == [{}]
    assert forms == {OURS: "wrong"}
