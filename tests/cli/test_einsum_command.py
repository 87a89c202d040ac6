"""``teir einsum``, ``bench`` and ``explain`` on expressions and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_line import Teir

SIZES = ("--sizes", "a=9,b=33", "--sizes", "c=17")


def test_an_expression_is_run_and_compared(teir: Teir) -> None:
    done = teir("einsum", "ab,bc->ac", *SIZES, "--compare", "--threads", "1")
    assert done.code == 0, done.err
    assert done.out.startswith("ab,bc->ac, FP32: 9×33, 33×17 -> 9×17\n1 thread: ")
    assert "GFLOP/s" in done.out
    assert "compared with NumPy: OK" in done.out


@pytest.mark.parametrize("command", ["einsum", "bench"])
def test_a_result_without_axes_is_timed(teir: Teir, command: str) -> None:
    done = teir(command, "a,a->", "--sizes", "a=40", "--dtype", "C64")
    assert done.code == 0, done.err


def test_missing_and_unknown_indices_are_named(teir: Teir) -> None:
    done = teir("einsum", "ab,bc->ac", "--sizes", "a=4")
    assert "found none for b, c" in done.err
    done = teir("einsum", "ab,bc->ac", "--sizes", "a=4,b=5,c=6,z=7,y=8")
    assert "expected indices of the expression (a, b, c), found z, y" in done.err


@pytest.mark.parametrize("command", ["einsum", "explain"])
def test_a_wrong_expression_is_refused_before_it_asks_for_sizes(teir: Teir, command: str) -> None:
    done = teir(command, "ij,jk->ikz")
    assert done.code == 2
    assert "TEIR605 at line 1, column 10" in done.err
    assert "TEIR805" not in done.err


@pytest.mark.parametrize("data_type", ["FP64", "tf32", "BF16", "FP16", "C64", "C128"])
def test_every_type(teir: Teir, data_type: str) -> None:
    done = teir("einsum", "ab,bc->ac", *SIZES, "--compare", "--json", "--dtype", data_type)
    assert done.code == 0, done.err
    answer = done.json()
    assert answer["ok"] is True
    assert answer["shape"] == [9, 17]
    assert answer["dtype"] == data_type.upper()


@pytest.mark.parametrize(
    ("tree", "sizes"),
    [
        ("[[i,k],[k,l]->[i,l]],[l,10]->[10,i]", "i=5,k=6,l=7,10=8"),
        ("[0,1],[[1,2],[2,3]->[3,1]]->[0,3]", "5,6,7,8"),
    ],
)
def test_a_tree_is_run_and_compared(teir: Teir, tree: str, sizes: str) -> None:
    done = teir("einsum", tree, "--sizes", sizes, "--compare")
    assert done.code == 0, done.err
    assert done.out.startswith(f"{tree}, FP32: 5×6, 6×7, 7×8 -> ")
    assert "compared with NumPy: OK" in done.out


def test_a_finding_points_into_the_tree(teir: Teir) -> None:
    done = teir("einsum", "[i,k],[k,j]->i", "--sizes", "i=5,k=6,j=7")
    assert done.code != 0
    assert "TEIR617 at line 1, column 14" in done.err


def test_the_program_is_shown(teir: Teir) -> None:
    done = teir("einsum", "ab,bc->ac", *SIZES, "--show")
    assert done.out.startswith("teir 1 ")
    assert "Contraction" in done.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("ab,bc->ac",), "TEIR805"),
        (("ab,bc->ac", "--sizes", "a=9,b=33"), "TEIR805"),
        (("ab,bc->ac", *SIZES, "--sizes", "z=3"), "TEIR805"),
        (("ab,bc->ac", *SIZES, "--sizes", "a=3"), "TEIR805"),
        (("ab,bc->ac", "--sizes", "a=0,b=1,c=1"), "TEIR805"),
        (("ab,bc->ac", "--sizes", "a=-1,b=1,c=1"), "TEIR805"),
        (("ab,bc->ac", "--sizes", "a=x"), "TEIR805"),
        (("...a->a", "--sizes", "a=3"), "TEIR805"),
        (("ab,bc->ad", *SIZES), "TEIR60"),
        (("a$,bc->ac", *SIZES), "TEIR60"),
        (("ab,bc->ac", *SIZES, "--dtype", "FP8"), "TEIR806"),
        (("ab,bc->ac", "--sizes", f"a={10**12},b={10**12},c=1"), "TEIR809"),
    ],
)
def test_unusable_expressions_exit_2(teir: Teir, arguments: tuple[str, ...], code: str) -> None:
    done = teir("einsum", *arguments)
    assert done.code == 2
    assert code in done.err
    assert done.out == ""


def test_threads_are_positive(teir: Teir) -> None:
    done = teir("einsum", "ab,bc->ac", *SIZES, "--threads", "0")
    assert done.code == 2
    assert "threads" in done.err


def test_a_file_is_explained(teir: Teir, product: Path) -> None:
    done = teir("explain", product)
    assert done.code == 0, done.err
    assert "gemm: GEMM, M = 5, N = 3, K = 7, lda = 5, ldb = 7, ldc = 5" in done.out
    assert "210 floating-point operations, 224 bytes read, 60 bytes written" in done.out
    assert "GemmBlock FP32" in done.out


def test_an_expression_is_explained(teir: Teir) -> None:
    done = teir("explain", "ab,bc->ac", *SIZES)
    assert done.code == 0, done.err
    assert "Contraction" in done.out


def test_a_file_and_an_expression_are_measured(teir: Teir, product: Path) -> None:
    done = teir("bench", product, "--json")
    assert done.code == 0, done.err
    answer = done.json()
    assert answer["unit"] == "GFLOP/s"
    assert answer["share"] == pytest.approx(answer["per_second"] / answer["peak_per_second"])
    assert teir("bench", "ab->ba", "--sizes", "a=40,b=50").out.count("GB/s") == 2


def test_a_missing_file_is_no_expression(teir: Teir) -> None:
    done = teir("bench", "nothing.teir")
    assert done.code == 2
    assert done.err.startswith("TEIR100")


@pytest.mark.parametrize("command", ["einsum", "bench", "compare"])
def test_index_notation_is_refused_with_one_finding(teir: Teir, command: str) -> None:
    done = teir(command, "A[i,l] = B[i,j] * C[j,l]", "--sizes", "i=3,j=4,l=5")
    assert done.code == 2
    assert done.err.startswith("TEIR817 at expression: expected an einsum such as ij,jk->ik")
    assert done.err.count("TEIR") == 1
    assert "teir explain" in done.err


def test_dense_products_in_index_notation_are_tuned_by_their_subscripts(teir: Teir) -> None:
    done = teir("tune", "A[i,l] = B[i,j] * C[j,l]", "--sizes", "i=3,j=4,l=5")
    assert done.code == 2
    assert done.err.startswith("TEIR814 at EXPRESSION: expected a product with more than one")
    assert "tune dense products as einsums" in done.err


@pytest.mark.parametrize("name", ["FP32", "float32", "complex64", "BFloat16"])
def test_types_have_the_names_of_numpy_too(teir: Teir, name: str) -> None:
    done = teir("einsum", "ab,bc->ac", *SIZES, "--dtype", name)
    assert done.code == 0
