"""The code a plan shows: its program as one function, or the kernels its table calls."""

from __future__ import annotations

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
