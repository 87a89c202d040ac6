"""Wrong calls of the commands: one finding that names the mistake, exit code 2, nothing done."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from cli.command_line import PRODUCT, Teir

soak = import_module("teir.cli.soak")  # the package's name is the command

SPARSE = ("A[i,l] = B[i,j] * C[j,l]", "--format", "B:ds")


@pytest.fixture
def product(tmp_path: Path) -> Path:
    file = tmp_path / "product.teir"
    file.write_text(PRODUCT)
    return file


def test_a_file_that_is_no_array_is_told_once(teir: Teir, product: Path) -> None:
    done = teir("run", product, "--random", "--operand", f"in0={product}")
    assert done.code == 2
    assert done.err.count("TEIR803") == 1
    assert "a file that begins with b'teir 1'" in done.err


def test_indices_without_an_extent_are_listed_as_words(teir: Teir) -> None:
    done = teir("explain", *SPARSE)
    assert done.code == 2
    assert "none for i, l, j" in done.err


@pytest.mark.parametrize("command", ["tune", "bench", "explain"])
def test_a_missing_program_file_is_no_expression(teir: Teir, command: str) -> None:
    done = teir(command, "missing.teir")
    assert done.code == 2
    assert "TEIR100 at missing.teir" in done.err


@pytest.mark.parametrize(("command", "code"), [("tune", "TEIR805"), ("bench", "TEIR817")])
def test_index_notation_is_no_file(teir: Teir, command: str, code: str) -> None:
    done = teir(command, "A[i] = B[i]")
    assert done.code == 2
    assert code in done.err


@pytest.mark.parametrize("command", ["tune", "bench", "explain"])
def test_a_program_file_takes_no_sizes(teir: Teir, product: Path, command: str) -> None:
    done = teir(command, product, "--sizes", "m=3")
    assert done.code == 2
    assert "TEIR805 at --sizes" in done.err
    assert product.name in done.err


def test_an_expression_has_no_program_to_write(teir: Teir, tmp_path: Path) -> None:
    output = tmp_path / "faster.teir"
    done = teir("tune", "ab,b->a", "--sizes", "a=2,b=3", "--output", output)
    assert done.code == 2
    assert "TEIR814 at --output" in done.err


def test_an_index_of_the_output_alone_is_refused_in_the_expression(teir: Teir) -> None:
    done = teir("einsum", "ab,bc->ad", "--sizes", "a=2,b=3,c=4,d=5")
    assert done.code == 2
    assert "TEIR805" not in done.err
    assert "ab,bc->ad" in done.err


def test_an_export_that_cannot_be_written_names_the_file(teir: Teir, tmp_path: Path) -> None:
    file = tmp_path / "missing" / "records.json"
    done = teir("tune", "--export", file)
    assert done.code == 2
    assert f"TEIR807 at {file}" in done.err
    assert "Errno" not in done.err


def test_kernel_sizes_that_contradict_one_another_are_refused(teir: Teir, product: Path) -> None:
    done = teir("optimize", product, "--max-kernel-size", "4", "--min-kernel-size", "8")
    assert done.code == 2
    assert "8 is above --max-kernel-size 4" in done.err


@pytest.mark.parametrize("command", [("demo",), ("bench", "ab->a"), ("compare", "ab->a")])
def test_threads_are_bounded(teir: Teir, command: tuple[str, ...]) -> None:
    done = teir(*command, "--threads", "100000")
    assert done.code == 2
    assert "--threads" in done.err


@pytest.mark.parametrize("option", ["--out", "--kept"])
def test_a_folder_of_figures_is_made_before_any_is_measured(
    teir: Teir, product: Path, option: str
) -> None:
    done = teir("soak", "--programs", "1", option, product)
    assert done.code == 2
    assert f"TEIR807 at {product}" in done.err


@pytest.mark.parametrize(
    ("module", "options"),
    [
        ("capstone", ("--audit", "1")),
        ("pytest", ("--catalogue", "--tests", ".")),
        ("pytest-cov", ("--coverage", "--tests", ".")),
    ],
)
def test_figures_name_the_package_they_lack(
    teir: Teir, monkeypatch: pytest.MonkeyPatch, module: str, options: tuple[str, ...]
) -> None:
    lacking = module.replace("-", "_")
    found = soak.find_spec
    monkeypatch.setattr(soak, "find_spec", lambda name: None if name == lacking else found(name))
    done = teir("soak", *options)
    assert done.code == 2
    assert f"needs {module} installed" in " ".join(done.err.replace("│", " ").split())


def test_figures_that_need_the_tests_name_the_option(teir: Teir) -> None:
    done = teir("soak", "--faults")
    assert done.code == 2
    assert "'--tests'" in done.err


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("tune", ("--operand", "in0=r.npy")),
        ("tune", ("--format", "in0:ds")),
        ("explain", ("--format", "in0:ds")),
        ("tune", ("--dtype", "FP64")),
    ],
)
def test_a_program_file_tells_of_its_own_tensors(
    teir: Teir, product: Path, command: str, option: tuple[str, str]
) -> None:
    done = teir(command, product, *option)
    assert done.code == 2
    assert f"TEIR819 at {option[0]}" in done.err
    assert product.name in done.err


def test_compare_takes_letters_that_every_library_takes(teir: Teir) -> None:
    done = teir("compare", "äb,bc", "--sizes", "ä=4,b=5,c=6")
    assert done.code == 2
    assert "TEIR815" in done.err
    assert "'ä'" in done.err


def test_a_product_without_axes_is_compared(teir: Teir) -> None:
    assert teir("compare", ",", "--rounds", "1").code == 0


def test_a_program_of_nothing_is_explained(teir: Teir, tmp_path: Path) -> None:
    file = tmp_path / "nothing.teir"
    file.write_text('teir 1 "x"\n')
    for options in ((), ("--measure",)):
        done = teir("explain", file, *options)
        assert (done.code, done.err) == (0, "")


def test_a_full_disk_is_told(product: Path) -> None:
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("no /dev/full")
    with device.open("w") as full:
        command = [sys.executable, "-m", "teir", "check", str(product)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "the output cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_not_kept_is_not_said_to_be(teir: Teir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEIR_CACHE", "off")
    done = teir("warm")
    assert done.code == 1
    assert "kernels for" not in done.out
