"""The code a plan shows: its program as one function, or the kernels its table calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import teir
from teir.backends.llvm.library import leaf_symbol
from teir.lower.calls import kernels_of
from teir.pipeline.executable import Form
from teir.pipeline.plan import Plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return teir.plan("ij,jk->ik", (20, 30), (30, 40), dtype="float32", threads=1)


def test_llvm_shows_the_whole_program_by_default(plan: Plan) -> None:
    text = plan.llvm()
    assert "define void @teir_program(" in text
    assert "phi ptr" in text
    assert text == plan.llvm(Form.SPECIALISED)


def test_llvm_shows_the_kernels_of_the_table(plan: Plan) -> None:
    text = plan.llvm(Form.TABLE)
    assert "teir_program" not in text
    assert plan.executable is not None
    for kernel in kernels_of(plan.executable.kernel_program.roots):
        assert leaf_symbol(kernel, plan.executable.isa) in text


def test_assembly_shows_the_same_two_forms(plan: Plan) -> None:
    assert "teir_program:" in plan.assembly()
    assert "teir_program" not in plan.assembly(Form.TABLE)


@pytest.mark.parametrize("limit", [170_000, 200_000, 240_000])
def test_plans_within_a_limit_are_explained(limit: int) -> None:
    """Other decisions may need more than is allowed; those are left out."""
    operands = [np.ones((200, 200), np.float32)] * 3
    plan = teir.plan("ij,jk,kl->il", *operands, threads=1, memory_limit=limit)
    assert "decisions:" in plan.explain()


def test_results_of_numpy_have_no_strides() -> None:
    plan = teir.plan("ab,bc->ac", np.ones((20, 15), np.int64), np.ones((15, 3), np.int64))
    assert "out: int64 of shape (20, 3)\n" in plan.explain()


def test_a_form_that_is_none_is_refused(plan: Plan) -> None:
    wrong: Any = "table"
    for call in (plan.llvm, plan.assembly):
        with pytest.raises(teir.TeirError, match="TEIR708 at form"):
            call(wrong)
