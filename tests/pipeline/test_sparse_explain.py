"""The frontier of sparse plans as a table, the reason of the choice, measured schedules."""

from __future__ import annotations

import gc
import os
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import teir
from teir.arrays.levels import parse_format
from teir.arrays.sparse_checks import require_levels
from teir.pipeline import sparse_tuning
from teir.pipeline.sparse_drawn import StandIn, stand_in
from teir.pipeline.sparse_frontier import FrontierRow, why
from teir.pipeline.sparse_operands import hold
from teir.target import host_target

draw = np.random.default_rng(3)
B = scipy.sparse.random_array((60, 50), density=0.1, format="csr", rng=draw)
PRODUCT = "A[i,l] = B[i,j] * C[j,k] * D[k,l]"


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every measured program runs once and takes a millisecond more than the one before."""
    times: list[float] = []

    def seconds_per_call(call: Any) -> float:
        call()
        times.append(1e-3 * (1 + len(times)))
        return times[-1]

    monkeypatch.setattr(sparse_tuning, "seconds_per_call", seconds_per_call)
    return times


def table(text: str) -> list[str]:
    lines = text.splitlines()
    (head,) = [place for place, line in enumerate(lines) if line.startswith("  frontier: ")]
    end = next(n for n in range(head + 1, len(lines)) if not lines[n].startswith("    "))
    return lines[head + 1 : end]


def test_the_frontier_is_a_table_with_the_chosen_schedule_first() -> None:
    plan = teir.plan(PRODUCT, B, (50, 24), (24, 16))
    head, *rows = table(plan.explain())
    assert head.split() == ["time", "memory", "predicted", "alike", "schedule"]
    assert len(rows) > 3
    assert rows[0].split()[0] == "*"
    assert rows[0].endswith(str(plan.outlines[0].scheduled.graph))  # type: ignore[union-attr]
    assert any("i, j', k, l: A[i,l] += B[i,j] C[j,k] D[k,l]" in row for row in rows)
    assert "  why: " in plan.explain()


def test_schedules_are_measured_on_the_operands_planned_with(counted: list[float]) -> None:
    plan = teir.plan(PRODUCT, B, (50, 24), (24, 16))
    assert not counted
    text = plan.explain(measure=True)
    head, first, *_ = table(text)
    assert "measured" in head
    assert "1 ms" in first
    assert counted
    assert "drawn positions" not in text


@pytest.mark.usefixtures("counted")
def test_operands_that_are_gone_are_drawn() -> None:
    operand = B.copy()
    plan = teir.plan(PRODUCT, operand, (50, 24), (24, 16))
    del operand
    gc.collect()
    text = plan.explain(measure=True)
    assert "measured on drawn positions: the operands planned with are gone" in text
    assert "1 ms" in table(text)[1]


@pytest.mark.usefixtures("counted")
def test_a_product_without_a_choice_is_measured_too() -> None:
    text = teir.plan("A[i] = B[i,j]", B).explain(measure=True)
    assert "chosen among: no other schedule" in text
    assert "measured: 1 ms" in text
    both = teir.plan("A[i,j] = B[i,j] + C[i,j]", B, B.copy(), out_levels="ds")
    assert "row by row" in both.explain(measure=True)


def test_an_empty_operand_has_nothing_to_measure() -> None:
    nothing = scipy.sparse.csr_array((60, 50))
    text = teir.plan(PRODUCT, nothing, (50, 24), (24, 16)).explain(measure=True)
    assert "nothing to add" in text


def row(schedule: str, *costs: float, seconds: float, is_fused: bool = False) -> FrontierRow:
    iterations, strided, memory = costs
    return FrontierRow(
        schedule=schedule,
        time="",
        memory="",
        iterations=iterations,
        strided=strided,
        memory_bytes=memory,
        seconds=seconds,
        is_fused=is_fused,
    )


FUSED = row("fused", 9e9, 0, 0, seconds=9.0, is_fused=True)


@pytest.mark.parametrize(
    ("mine", "other", "reason"),
    [
        ((1e6, 0, 0), (2e6, 0, 0), "1 M iterations, the best of another kind 2 M"),
        (
            (2e6, 0, 8),
            (2e6, 1e6, 0),
            "its innermost loops run along the operands in 100 % of its iterations",
        ),
        ((2e6, 0, 8), (2e6, 0, 16), "temporaries take 8 bytes"),
        ((2e6, 0, 16), (2e6, 0, 8), "suit the kernels better"),
    ],
)
def test_the_reason_names_the_cost_that_decided(
    mine: tuple[float, ...], other: tuple[float, ...], reason: str
) -> None:
    rows = [row("a", *mine, seconds=1.0), row("b", *other, seconds=2.0), FUSED]
    assert reason in why(rows, "a")
    assert why(rows, "a").endswith("the fused default would take 9 G iterations")
    assert "though predicted" in why(rows, "b")
    assert why(rows, "c") == "tuning remembers it"
    assert "order of loops" in why(rows[:1], "a")


@pytest.mark.parametrize("levels", ["ds", "ss", "ds:1,0", "sd", "dd", "dss", "sss:2,0,1", "dsd"])
def test_what_is_drawn_is_like_what_was_given(levels: str) -> None:
    fmt = parse_format(levels)
    shape = (6, 9, 4)[: len(fmt.levels)]
    dense = draw.integers(-2, 3, shape) * (draw.random(shape) < 0.5)
    coords = np.nonzero(dense)
    given = teir.Sparse.from_coo(coords, dense[coords], shape, levels)
    known = stand_in(hold("B", given))
    assert known.operand(draw) is given
    assert not known.is_drawn
    del given
    gc.collect()
    made = known.operand(draw)
    assert (made.shape, made.format, made.nnz) == (known.shape, known.format, made.values.size)
    assert tuple(level.crd.size for level in made.stored if level) == known.counts
    require_levels("B", made.stored, made.level_extents, made.values)


def test_dense_operands_are_drawn_in_their_order_of_memory() -> None:
    made = StandIn(shape=(3, 4), dtype=np.dtype(np.float32), order=(1, 0)).operand(draw)
    assert made.shape == (3, 4)
    assert made.flags.f_contiguous
    assert made.dtype == np.float32


def test_more_coordinates_than_fit_are_cut() -> None:
    known = StandIn(shape=(3, 4), dtype=np.dtype(float), format=parse_format("ds"), counts=(99,))
    np.testing.assert_array_equal(known.operand(draw).to_dense() > 0, np.ones((3, 4), bool))


@pytest.mark.skipif(
    host_target(os.environ).isa.vector_bytes != 64, reason="needs vectors of a line"
)
def test_a_copy_of_what_is_gathered_often_is_in_the_program() -> None:
    """Rows that lie in a line are gathered 200 times each here, then 100 times."""
    for rows, is_copied in ((200, True), (100, False)):
        often = scipy.sparse.csr_array(np.tile(np.eye(2), (rows, 16)))
        plan = teir.plan("ij,jl->il", often, (32, 16))
        assert ("Copy(in1 -> in1_lines;" in plan.explain()) is is_copied
        dense = draw.random((32, 16))
        np.testing.assert_allclose(plan(often, dense), often @ dense, rtol=1e-12)
