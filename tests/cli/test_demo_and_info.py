"""``teir demo`` and ``teir info``."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from cli.command_line import Teir
from teir import __version__
from teir.cli import demo as demo_module
from teir.cli.demo import MODES, cosine_modes, read_stiffness
from teir.ir.limits import LIMITS

FAST = ("batched-product-scalar", "contraction-brgemm")


def test_every_row_is_compared_and_measured(teir: Teir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "EXAMPLES", FAST)
    done = teir("demo", "--json")
    assert done.code == 0, done.err
    rows = done.json()["rows"]
    assert [row["name"] for row in rows] == [*FAST, "stiffness-galerkin"]
    for row in rows:
        assert row["ok"] is True
        assert row["per_second"] > 0
        assert row["peak_per_second"] > 0


def test_the_table_and_a_wrong_row(teir: Teir, monkeypatch: pytest.MonkeyPatch) -> None:
    from teir.cli import comparison

    monkeypatch.setattr(demo_module, "EXAMPLES", FAST[:1])
    monkeypatch.setattr(comparison, "error_ratio", lambda *_: 2.0)
    done = teir("demo")
    assert done.code == 1
    assert "WRONG" in done.out
    assert "GFLOP/s" in done.out
    assert "wrong: batched-product-scalar" in done.err


def test_examples_in_the_package_are_all_run() -> None:
    from importlib.resources import files

    shipped = {
        entry.name.removesuffix(".teir")
        for entry in files("teir").joinpath("examples").iterdir()
        if entry.name.endswith(".teir")
    }
    assert shipped == set(demo_module.EXAMPLES)


def test_the_shipped_matrix_is_a_stiffness_matrix() -> None:
    stiffness = read_stiffness()
    assert stiffness.shape == (1024, 1024)
    assert np.array_equal(stiffness, stiffness.T)
    np.linalg.cholesky(stiffness)  # raises unless it is positive definite
    modes = cosine_modes(MODES, len(stiffness))
    assert np.allclose(modes @ modes.T, np.eye(MODES), atol=1e-12)


@pytest.mark.parametrize("command", [(), ("cuda",)])
def test_the_list_of_commands_cuts_no_sentence_short(teir: Teir, command: tuple[str, ...]) -> None:
    listed = teir(*command, "--help").out.partition("Commands:\n")[2].splitlines()
    assert listed
    assert all(line.endswith(".") and "..." not in line for line in listed)


def test_info(teir: Teir) -> None:
    done = teir("info", "--json")
    assert done.code == 0, done.err
    answer = done.json()
    assert answer["threads"] >= 1
    assert set(answer["limits"].values()) == {limit.largest for limit in LIMITS}
    peaks = answer["peaks"]
    assert (peaks.pop("tile_flops_per_second") is None) == (answer["isa"] != "amx")
    assert all(value > 0 for value in peaks.values())
    text = teir("info").out
    assert "limits of inputs" in text
    assert "measured" in text


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "teir", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"teir {__version__}"
