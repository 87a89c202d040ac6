"""``teir show``: text, tables, loops, records, figures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from cli.command_line import PRODUCT, Teir


def test_the_canonical_text(teir: Teir, product: Path) -> None:
    assert teir("show", product).out == PRODUCT


def test_tables_and_loops(teir: Teir, product: Path) -> None:
    done = teir("show", "--tables", "--loops", product)
    assert done.code == 0
    assert "Schedule tree" in done.out
    assert "TEIR-Primitives" in done.out
    assert "Contraction( in0" in done.out


def test_records_read_back(teir: Teir, product: Path, tmp_path: Path) -> None:
    records = teir("show", "--json", product)
    assert records.json()["teir"] == 1
    copy = tmp_path / "copy.json"
    copy.write_text(records.out, encoding="utf-8")
    assert teir("show", copy).out == PRODUCT


def test_a_figure(teir: Teir, product: Path, tmp_path: Path) -> None:
    drawing = tmp_path / "product.svg"
    done = teir("show", "--svg", drawing, product)
    assert (done.code, done.out) == (0, f"drew {drawing}\n")
    words = [element.text for element in ElementTree.parse(drawing).iter() if element.text]
    assert {"in0", "in1", "out", "m (5)", "n (3)", "k (7)"} <= set(words)


def test_a_figure_that_cannot_be_written(teir: Teir, product: Path, tmp_path: Path) -> None:
    done = teir("show", "--svg", tmp_path / "missing" / "x.svg", product)
    assert done.code == 2
    assert "TEIR807" in done.err


def test_a_wrong_program_is_refused(teir: Teir, tmp_path: Path) -> None:
    path = tmp_path / "wrong.teir"
    path.write_text(PRODUCT.replace("axis k = 7", "axis k = 0"))
    done = teir("show", path)
    assert done.code == 1
    assert done.out == ""
    assert "axis k = 0" in done.err
