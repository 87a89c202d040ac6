"""``teir schedules``: counts, frontier, choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_line import Teir

EXPRESSION = "A[i,l] = B[i,j] * C[i,k] * D[j,k] * E[j,l]"
SIZES = "i=4000,j=4000,jpos=30,k=64,l=64"


def test_json_has_the_counts_of_the_paper(teir: Teir) -> None:
    done = teir("schedules", EXPRESSION, "--format", "B:ds", "--rule", "paper", "--json")
    assert done.code == 0
    document = done.json()
    counts = [document[key] for key in ("generated", "stage1", "stage2", "stage3")]
    assert counts == [18869, 1484, 1, 1]
    assert document["frontier"][0]["schedule"] == "(i, j, (k,), (l,))"
    assert document["frontier"][0]["time"] == "nnz(B_ij) K + nnz(B_ij) L"
    assert document["frontier"][0]["memory"] == "0"
    assert document["chosen"] is None


def test_sizes_make_a_choice(teir: Teir) -> None:
    done = teir("schedules", EXPRESSION, "--format", "B:ds", "--sizes", SIZES, "--json")
    document = done.json()
    assert document["stage1"] == document["stage2"] > document["stage3"]
    assert document["chosen"] in document["frontier"]
    assert document["chosen"]["schedule"] == "(i, j, (k,), (l,))"


def test_the_table_names_counts_and_the_chosen_schedule(teir: Teir) -> None:
    done = teir("schedules", EXPRESSION, "--format", "B:ds", "--sizes", SIZES)
    assert "generated                        18,869" in done.out
    assert "chosen: i, j' < T1; k: T1 += B[i,j] C[i,k] D[j,k], l: A[i,l] += T1 E[j,l] >" in done.out


def test_stage_2_may_be_left_out(teir: Teir) -> None:
    expression = "A[i,l] = B[i,j] * C[j,k] * D[k,l]"
    options = ("--format", "B:ds", "--rule", "paper", "--skip-stage", "2", "--json")
    document = teir("schedules", expression, *options).json()
    assert document["stage2"] == document["stage1"] == 128


def test_the_cache_decides(teir: Teir) -> None:
    expression = "A[i,l] = B[i,j] * C[j,k] * D[k,l]"
    options = ("--format", "B:ds", "--sizes", SIZES, "--json")
    large = teir("schedules", expression, *options, "--llc", "4000000").json()
    small = teir("schedules", expression, *options, "--llc", "8").json()
    assert large["chosen"]["memory"] == "K"
    assert small["chosen"]["memory"] == "0"


def test_a_sparse_output_with_dense_levels_below(teir: Teir) -> None:
    done = teir(
        *("schedules", "A[i,j,m] = B[i,j,k] * C[k,l] * D[l,m]", "--rule", "paper", "--json"),
        *("--format", "B:dss", "--format", "A:dsd"),
    )
    document = done.json()
    assert [document[key] for key in ("generated", "stage1")] == [109, 46]


def test_the_frontier_is_drawn(teir: Teir, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "frontier.svg"
    options = ("--format", "B:ds", "--sizes", SIZES, "--plot", file)
    assert teir("schedules", EXPRESSION, *options).code == 0
    assert "<svg" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--format", "B"), "TEIR818"),
        (("--format", "B:dx"), "TEIR660"),
        (("--format", "B:d"), "TEIR662"),
        (("--format", "X:ds"), "TEIR662"),
        (("--format", "B:ds", "--format", "E:ss:1,0", "--format", "C:ss:1,0"), None),
        (("--format", "B:ds", "--format", "E:ds", "--format", "A:ds"), "TEIR663"),
        (("--format", "B:ds", "--sizes", "i=4"), "TEIR669"),
        (("--format", "B:ds", "--sizes", "i"), "TEIR818"),
        (("--format", "B:ds", "--sizes", SIZES, "--sizes", "i=3"), "TEIR818"),
        (("--format", "B:ds", "--sizes", SIZES.replace("=30", "=5000")), "TEIR669"),
        (("--format", "B:ds", "--sizes", SIZES.replace("=30", "=inf")), "TEIR669"),
        (("--format", "B:ds", "--sizes", SIZES.replace("=30", "=nan")), "TEIR669"),
        (("--format", "B:ds", "--sizes", SIZES + ",z=3"), "TEIR669"),
        (("--format", "B:ds", "--format", "B:ss"), "TEIR818"),
        (("--format", "B:ds", "--constraint", "k <"), "TEIR667"),
        (("--format", "B:ds", "--plot", "x.svg"), "TEIR818"),
    ],
)
def test_a_wrong_option_is_refused(teir: Teir, options: tuple[str, ...], code: str | None) -> None:
    done = teir("schedules", EXPRESSION, *options)
    if code is None:
        assert done.code == 0
        return
    assert done.code == 2
    assert code in done.err


def test_a_sum_is_refused(teir: Teir) -> None:
    done = teir("schedules", "A[i] = B[i,j] * C[j] + D[i]", "--format", "B:ds")
    assert done.code == 2
    assert "TEIR661" in done.err


def test_scalar_factors(teir: Teir) -> None:
    assert teir("schedules", "A[k] = B * C[j,k] * D[j]").code == 0
    done = teir("schedules", "A = B * C * D")
    assert done.code == 2
    assert "TEIR661" in done.err
    assert "scalars alone" in done.err


def test_many_schedules_are_shown_by_classes(teir: Teir) -> None:
    expression = "A[i,l] = B[i,j] * C[j,k] * D[k,l]"
    table = teir("schedules", expression)
    found = teir("schedules", expression, "--json").json()
    assert table.code == 0
    rows = table.out.split("\n\n")[1].splitlines()
    assert rows[0].split() == ["schedule", "time", "memory", "alike"]
    assert len(rows) == 1 + found["classes"]
    assert sum(int(row.split()[-1]) for row in rows[1:]) == found["stage3"] > 40


def test_no_bar_where_standard_error_is_no_terminal(
    teir: Teir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teir.pipeline.progress._PATIENCE_SECONDS", -1.0)
    done = teir("schedules", "A[i,l] = B[i,j] * C[j,k] * D[k,l]", "--format", "B:ds", "--json")
    assert done.code == 0
    assert done.err == ""
