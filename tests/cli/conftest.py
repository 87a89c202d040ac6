"""Fixtures of the command-line tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_line import PRODUCT, Done, Teir
from teir.cli.main import run


@pytest.fixture
def teir(capsys: pytest.CaptureFixture[str]) -> Teir:
    def call(*arguments: str | Path) -> Done:
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return call


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """out[n, m] = sum over k of in0[k, m] in1[n, k], with m adjacent."""
    path = tmp_path / "product.teir"
    path.write_text(PRODUCT, encoding="utf-8")
    return path
