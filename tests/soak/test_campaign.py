"""A small campaign gives every figure, and notices what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teir.errors import TeirError
from teir.ir.check import check
from teir.ir.load import loads
from teir.ir.printing import print_program
from teir.soak import campaign as campaign_module
from teir.soak.campaign import Campaign, run_campaign
from teir.soak.catalogue import count_catalogue
from teir.soak.draws import seeded
from teir.soak.figures import figures_table, write_figures
from teir.soak.gather import gather
from teir.soak.kept import Kept
from teir.soak.kernel_corpus import program_of_case
from teir.soak.kernel_pages import press_one, pressed_cases
from teir.soak.kernel_programs import family_program, kernel_families
from teir.soak.mutants import CHANGES, TEXT_CHANGES, draw_mutant, draw_text_mutant
from teir.soak.programs import draw_program
from teir.soak.running import host_variants
from teir.soak.same_code import different_variants
from teir.soak.soundness import examine_one
from teir.soak.sparse_products import compare_product, pair_count


def small(**changed: Any) -> Campaign:
    return Campaign(**changed)


def test_figures_of_a_small_campaign(tmp_path: Path) -> None:
    said: list[str] = []
    figures = tuple(run_campaign(small(programs=12, mutants=60, enumerations=40), said.append))
    assert [figure.number for figure in figures] == [1, 5, 6]
    assert all(figure.ok for figure in figures), said
    assert figures[0].runs >= 12
    write_figures(figures, "a machine", tmp_path / "new")
    record = json.loads((tmp_path / "new" / "soak.json").read_text())
    assert [figure["cases"] for figure in record["figures"]] == [12, 60, 40]
    assert (tmp_path / "new" / "soak.md").read_text() == figures_table(figures, "a machine")


def test_random_sparse_products_and_pairs_of_formats_mean_the_same() -> None:
    numbers = (*range(0, pair_count(), 97), *range(pair_count(), pair_count() + 60))
    assert [compare_product(number)["wrong"] for number in numbers] == [[]] * len(numbers)


def test_a_wrong_result_and_a_crash_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(seed: int) -> dict[str, Any]:
        if seed == 1:
            raise RuntimeError("crash")
        return {"wrong": ["out: differs"] if seed == 2 else [], "runs": 1}

    monkeypatch.setattr(campaign_module, "compare_one", broken)
    said: list[str] = []
    (figure,) = run_campaign(small(programs=4), said.append)
    assert not figure.ok
    assert len(figure.wrong) == 2
    assert any("RuntimeError: crash" in text for text in figure.wrong)
    assert any("item 2: out: differs" in text for text in said)


def test_a_soak_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    kept, said = Kept(path=tmp_path / "new" / "items.jsonl", key=str), list[str]()

    def first(item: int) -> dict[str, Any]:
        if item == 2:
            raise RuntimeError("stopped")
        return {"runs": 10 + item, "wrong": ["no"] if item == 1 else []}

    assert gather("first", first, range(4), 1, said.append, kept=kept).counts["wrong"] == 2
    with kept.path.open("a") as file:
        file.write('\n{"item": 2, "seco')

    def second(item: int) -> dict[str, Any]:
        return {"runs": 100 + item}

    for _ in range(2):
        tally = gather("second", second, range(4), 1, said.append, kept=kept)
        assert tally.counts["runs"] == 10 + 13 + 101 + 102
        assert tally.counts["wrong"] == 0
    other = Kept(path=kept.path, key="other {}".format)
    assert gather("other", second, range(4), 1, said.append, kept=other).counts["runs"] == 406


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_programs_are_refused_or_harmless(change: Any) -> None:
    changed = 0
    for seed in range(30):
        draw = seeded(seed)
        program = draw_program(draw, 200).program
        mutant = change(draw, program)
        changed += mutant != program
        check(mutant)
    assert changed >= 3


@pytest.mark.parametrize("change", TEXT_CHANGES)
def test_changed_texts_are_read_or_refused(change: Any) -> None:
    text = print_program(draw_program(seeded(14), 200).program).text.encode()
    refused = 0
    for seed in range(60):
        mutant = change(seeded(seed), text)
        try:
            check(loads(mutant))
        except TeirError:
            refused += 1
    assert refused


def test_mutants_follow_their_seed() -> None:
    program = draw_program(seeded(4), 200).program
    assert draw_mutant(seeded(9), program) == draw_mutant(seeded(9), program)
    text = print_program(program).text
    assert draw_text_mutant(seeded(9), text) == draw_text_mutant(seeded(9), text)


def test_enumeration_agrees_with_the_checker() -> None:
    results = [examine_one(seed) for seed in range(120)]
    assert [result["wrong"] for result in results if result.get("wrong")] == []
    assert [result for result in results if result.get("false_refusal")] == []
    assert sum(bool(result.get("race")) for result in results) >= 5


def test_every_kernel_family_is_a_right_program() -> None:
    for family in kernel_families():
        assert check(family_program(family, 5)).ok, family


def test_kernels_between_inaccessible_pages() -> None:
    kernels: set[str] = set()
    for item in range(0, len(pressed_cases()), 97):
        result = press_one(item, remainders=5)
        assert result["wrong"] == []
        programs = (program_of_case(pressed_cases()[item], number) for number in range(1, 6))
        variants = [different_variants(program, host_variants()) for program in programs]
        assert result["runs"] == 2 * sum(map(len, variants))
        kernels.update(result["kernels"])
    assert len(kernels) > 20


def test_catalogue_counts_tests_by_name(tmp_path: Path) -> None:
    lines = ["def test_wrong_a(): pass", "def test_refuses_b(): assert False", "def test_c(): pass"]
    (tmp_path / "test_it.py").write_text("\n".join(lines))
    assert count_catalogue(tmp_path) == (1, 2)
