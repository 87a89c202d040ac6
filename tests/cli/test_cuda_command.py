"""``teir cuda``: a folder of kernels, or why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.cuda.disassembly import need_compiler
from cli.command_line import Teir
from teir.backends.cuda.driver import find_driver
from teir.errors import TeirError


def test_a_folder_is_written(teir: Teir, product: Path, tmp_path: Path) -> None:
    need_compiler()
    out = tmp_path / "built"
    done = teir("cuda", "compile", product, "--out", out, "--json")
    assert done.code == 0
    (kernel,) = done.json()["kernels"]
    assert kernel["spilled_bytes"] == 0
    names = {path.name for path in out.iterdir()}
    assert names >= {"program.teir", "kernel0.cu", "kernel0.ptx", "kernel0.cubin", "kernels.json"}
    assert '"cuda"' in (out / "program.teir").read_text()
    assert teir("check", out / "program.teir").code == 0
    assert f"wrote {out}" in teir("cuda", "compile", product, "--out", out, "--debug").out


def test_what_cannot_be_compiled_is_said(teir: Teir, product: Path, tmp_path: Path) -> None:
    assert teir("cuda", "compile", tmp_path / "none.teir", "--out", tmp_path / "x").code == 2
    need_compiler()
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    refused = teir("cuda", "compile", product, "--out", blocked)
    assert refused.code == 2
    assert "TEIR807" in refused.err


def test_tuning_needs_a_gpu_and_says_so(teir: Teir, product: Path, tmp_path: Path) -> None:
    try:
        find_driver()
    except TeirError:
        refused = teir("cuda", "tune", product, "--out", tmp_path / "tuned")
        assert refused.code == 2
        assert "TEIR721" in refused.err
        assert not (tmp_path / "tuned").exists()
        return
    pytest.skip("there is a GPU here")
