"""The contractions whose kernels are compiled ahead."""

from __future__ import annotations

import pytest

import teir
from teir.dtypes import DataType
from teir.expr.parsing import parse_expression
from teir.lower.calls import kernels_of
from teir.lower.copy_kernels import PermuteCopy
from teir.lower.kernels import BatchBlock, LaneBlock, PanelBlock
from teir.pipeline import usual_contractions as usual
from teir.pipeline.executable import default_isa
from teir.pipeline.operand_types import contiguous
from teir.pipeline.problem import state_problem

FEW = (
    ("ab,bc->ac", ((96, 40), (40, 60))),
    ("abc->cba", ((400, 96, 110),)),
    ("nab,nbc->nac", ((64, 4, 4), (64, 4, 4))),
    ("abn,bcn->acn", ((4, 4, 64), (4, 4, 64))),
    ("abc,dc->abd", ((24, 8, 64), (512, 64))),
    ("dega,gfbc->abcdef", ((24, 20, 20, 24), (20, 20, 20, 24))),
)


def test_every_line_is_a_contraction() -> None:
    lines = tuple(usual.usual_contractions())
    assert len(set(lines)) == len(lines)
    for expression, shapes in lines:
        types = tuple(contiguous(DataType.FP32, shape) for shape in shapes)
        assert state_problem(parse_expression(expression), types, None, None).contraction


def test_plans_of_these_contractions_find_their_kernels_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usual, "usual_contractions", lambda: iter(FEW))
    ready = usual.contraction_kernels(default_isa(), (DataType.FP32,))
    called = set()
    for expression, shapes in FEW:
        plan = teir.plan(expression, *shapes, dtype="float32")
        assert isinstance(plan, teir.Plan)
        assert plan.executable is not None
        called |= kernels_of(plan.executable.kernel_program.roots)
    assert {one for one in called if not isinstance(one, BatchBlock)} <= ready
    assert not any(isinstance(one, BatchBlock) for one in ready)
    assert {LaneBlock, PermuteCopy} <= {type(one) for one in ready}
    assert any(isinstance(one, PanelBlock) for one in ready) or default_isa().vector_bytes < 64
