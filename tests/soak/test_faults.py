"""Seeded faults can be seeded, mutants are small mistakes, drills and repeats do what they say."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import teir
from teir.ir.check import check
from teir.ir.parsing import parse_program
from teir.soak import check_cost
from teir.soak.campaign import Campaign, run_campaign
from teir.soak.coverage import parts_of
from teir.soak.drills import DRILLS, drill_one
from teir.soak.fault import Fault
from teir.soak.fault_list import FAULTS
from teir.soak.faults import checker_mutants, mutate_one, seed_one
from teir.soak.figures import Figure, write_figures
from teir.soak.mutation import mutant_count, mutated
from teir.soak.repeats import CASES, repeat_one

PACKAGE = Path(teir.__file__).parent
TESTS = Path(__file__).parents[1]


def test_there_are_fifty_faults_in_every_room() -> None:
    assert len(FAULTS) >= 50
    rooms = {fault.file.partition("/")[0] for fault in FAULTS}
    assert rooms >= {"ir", "passes", "search", "lower", "backends", "runtime", "pipeline"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.title)
def test_a_fault_fits_the_source(fault: Fault) -> None:
    source = (PACKAGE / fault.file).read_text()
    changed = source.replace(fault.before, fault.after)
    assert changed != source
    ast.parse(changed)


def test_a_seeded_fault_is_caught_and_a_harmless_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    number = next(at for at, fault in enumerate(FAULTS) if "no look for races" in fault.title)
    assert seed_one(number, TESTS) == {"named": {"bounds": 1}}
    monkeypatch.setattr("teir.soak.faults._status", lambda *_: 0)
    assert "nobody noticed" in seed_one(number, TESTS)["wrong"][0]
    assert mutate_one(0, [("ir/check/bounds.py", 0)], TESTS)["skipped"]


def test_every_mutant_is_a_different_program() -> None:
    source = "def f(a, b):\n    if not a or b < 3:\n        return False\n    return a + b * 2\n"
    assert mutant_count(source) == 6
    texts = {mutated(source, number) for number in range(6)}
    assert len(texts | {ast.unparse(ast.parse(source))}) == 7
    with pytest.raises(IndexError):
        mutated(source, 6)
    assert checker_mutants(5, 1) == checker_mutants(5, 1) != checker_mutants(5, 2)


@pytest.mark.parametrize("item", range(len(DRILLS)), ids=[drill.__name__ for drill in DRILLS])
def test_drill(item: int) -> None:
    assert drill_one(item)["wrong"] == []


def test_there_are_twelve_drills() -> None:
    assert len(DRILLS) == 12


@pytest.mark.parametrize("item", range(0, len(CASES), 3))
def test_runs_repeat(item: int) -> None:
    assert repeat_one(item, runs=2) == {"wrong": [], "runs": 8}


def test_a_bound_plan_is_not_checked_again() -> None:
    program = parse_program(check_cost.TEN_NODES)
    assert check(program).ok
    assert len(list(program.nodes())) == 10
    assert check_cost._checks_of_a_call() == 0


def test_coverage_is_summed_by_part() -> None:
    def record(lines: int, reached: int) -> dict[str, dict[str, int]]:
        numbers = {"num_branches": 10, "covered_branches": 9}
        return {"summary": {"num_statements": lines, "covered_lines": reached, **numbers}}

    parts = parts_of(
        {
            "src/teir/ir/check/bounds.py": record(100, 99),
            "src/teir/ir/load.py": record(50, 40),
            "src/teir/lower/lower.py": record(10, 10),
            "src/teir/dtypes.py": record(1, 0),
        }
    )
    assert [part.line_percent for part in parts.values()] == [99, 80, 100]
    assert parts["checker"].branch_percent == 90


def test_figures_of_the_new_kinds() -> None:
    said: list[str] = []
    campaign = Campaign(translations=2, einsums=4, check_cost=True)
    figures = tuple(run_campaign(campaign, said.append))
    assert [figure.number for figure in figures] == [2, 3, 10]
    assert all(figure.ok for figure in figures if figure.number != 10), said


def test_figures_that_are_not_measured_anew_are_kept(tmp_path: Path) -> None:
    def figure(number: int, cases: int) -> Figure:
        return Figure(
            number=number,
            title="a",
            cases=cases,
            runs=1,
            wrong=(),
            remarks=(),
            seconds=1.0,
            day=f"day {cases}",
        )

    write_figures([figure(1, 1), figure(3, 1)], "before", tmp_path)
    write_figures([figure(2, 2), figure(3, 2)], "now", tmp_path)
    text = (tmp_path / "soak.md").read_text()
    assert [line for line in text.splitlines() if line.startswith(("| 1", "| 2", "| 3"))] == [
        "| 1 | a | 1 | 1 | 0 |  | 1 | day 1 |",
        "| 2 | a | 2 | 1 | 0 |  | 1 | day 2 |",
        "| 3 | a | 2 | 1 | 0 |  | 1 | day 2 |",
    ]
