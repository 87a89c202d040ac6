"""``teir explain`` of index notation: operands drawn to sizes or read from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli.command_line import Teir

EXPRESSION = "A[i,l] = B[i,j] * C[j,k] * D[k,l]"
SIZES = "i=40,j=50,jpos=5,k=8,l=16"


def test_the_frontier_and_the_reason(teir: Teir) -> None:
    done = teir("explain", EXPRESSION, "--format", "B:ds", "--sizes", SIZES, "--threads", "1")
    assert done.code == 0
    assert "B: float32 of shape (40, 50), levels ds" in done.out
    assert "why: " in done.out
    assert "frontier: " in done.out
    assert "measured" not in done.out


def test_measured(teir: Teir) -> None:
    options = ("--format", "B:ds", "--sizes", SIZES, "--dtype", "FP64", "--measure")
    done = teir("explain", EXPRESSION, *options)
    assert done.code == 0
    assert "measured" in done.out


def test_a_file_brings_its_extents(teir: Teir, tmp_path: Path) -> None:
    file = tmp_path / "b.tns"
    file.write_text("1 2 3.5\n3 1 1.0\n", encoding="utf-8")
    done = teir("explain", EXPRESSION, "--operand", f"B={file}", "--sizes", "k=8,l=16")
    assert done.code == 0
    assert "B: float32 of shape (3, 2), levels ds" in done.out


def test_a_format_of_the_output_asks_for_a_sparse_result(teir: Teir) -> None:
    options = ("--format", "B:ds", "--format", "A:ds", "--sizes", "i=40,j=50,jpos=5")
    done = teir("explain", "A[i,j] = B[i,j] * C[i,j]", *options)
    assert done.code == 0
    assert "pattern: that of the sparse operand" in done.out


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--format", "B:ds", "--sizes", "i=4,j=5,k=2,l=2"), "TEIR805", "--sizes jpos="),
        (("--format", "X:ds", "--sizes", SIZES), "TEIR818", "'X'"),
        (("--format", "B:ds", "--sizes", "i=4,j=5,jpos=6,k=2,l=2"), "TEIR805", "at most 5"),
        (("--format", "B:dss", "--sizes", SIZES), "TEIR818", "2 levels"),
        (("--sizes", "i=4,q=2"), "TEIR805", "'q'"),
        (("--sizes", "i=4"), "TEIR805", "--sizes l="),
        (("--sizes", "i=4.5,j=2,k=2,l=2"), "TEIR805", "a positive integer for i, found 4.5"),
        (("--sizes", "i=nan,j=2,k=2,l=2"), "TEIR805", "nan"),
        (("--sizes", "i=inf,j=2,k=2,l=2"), "TEIR805", "inf"),
        (("--format", "B:ds", "--sizes", "i=4,j=5,jpos=nan,k=2,l=2"), "TEIR805", "nan"),
        (("--operand", "X=x.mtx", "--sizes", SIZES), "TEIR802", "'X'"),
        (("--operand", "B=none.mtx", "--sizes", SIZES), "TEIR680", "none.mtx"),
    ],
)
def test_a_wrong_option_is_refused(
    teir: Teir, options: tuple[str, ...], code: str, words: str
) -> None:
    done = teir("explain", EXPRESSION, *options)
    assert done.code != 0
    assert code in done.err
    assert words in done.err


@pytest.mark.parametrize(("tensor", "shape"), [("B", (40, 51)), ("C", (49, 8))])
def test_a_file_and_sizes_that_disagree_are_refused(
    teir: Teir, tmp_path: Path, tensor: str, shape: tuple[int, int]
) -> None:
    file = tmp_path / "operand.npy"
    np.save(file, np.ones(shape, np.float32))
    options = ("--format", "B:ds", "--operand", f"{tensor}={file}", "--sizes", SIZES)
    done = teir("explain", EXPRESSION, *options)
    assert done.code == 2
    assert f"TEIR802 at --operand {tensor}: expected extent 50 of j" in done.err


def test_a_file_of_another_rank_is_refused(teir: Teir, tmp_path: Path) -> None:
    file = tmp_path / "b.npy"
    np.save(file, np.ones(5, np.float32))
    done = teir("explain", EXPRESSION, "--operand", f"B={file}", "--sizes", SIZES)
    assert done.code == 2
    assert "TEIR802 at --operand B: expected a tensor of 2 axes" in done.err
    assert "shape (5,)" in done.err


def test_formats_are_for_index_notation(teir: Teir) -> None:
    done = teir("explain", "ab,bc->ac", "--sizes", "a=4,b=3,c=2", "--format", "B:ds")
    assert done.code == 2
    assert "TEIR818" in done.err
