"""``teir warm`` and the kernels it compiles."""

from __future__ import annotations

import pytest

from cli.command_line import Teir
from teir.backends.llvm.emit_kernel import emit_kernel, kernel_symbol
from teir.dtypes import DataType
from teir.lower import usual_kernels
from teir.lower.copy_kernels import (
    MOST_PIECES,
    JoinedTranspose,
    RowCopy,
    ShortTranspose,
    SteppedCopy,
    TransposeCopy,
)
from teir.lower.kernels import Elementwise, GemmBlock, Kernel
from teir.lower.walked_kernels import WalkedDots, WalkedSum
from teir.pipeline import usual_contractions
from teir.target import Isa

FEW = (("ab,bc->ac", ((30, 40), (40, 60))),)


@pytest.mark.parametrize("isa", list(Isa))
def test_usual_kernels_cover_blocks_element_wise_work_and_transposes(
    isa: Isa, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usual_kernels, "COLUMNS", range(6, 8))
    kernels = usual_kernels.usual_kernels(isa, [DataType.FP32])
    kinds = {type(kernel) for kernel in kernels}
    assert {GemmBlock, Elementwise, WalkedSum, WalkedDots} <= kinds
    assert TransposeCopy in kinds or isa is Isa.PLAIN
    assert {JoinedTranspose, RowCopy} <= kinds
    sides = {(one.side, one.joins) for one in kernels if isinstance(one, ShortTranspose)}
    assert isa is Isa.PLAIN or sides >= {(3, True), (3, False)}
    steps = {one.step for one in kernels if isinstance(one, SteppedCopy)}
    assert steps == ({2, 3, 4} if isa.has_masks else set())
    rows = {one.pieces for one in kernels if isinstance(one, RowCopy)}
    assert rows == set(range(1, MOST_PIECES + 1))
    assert kernels == usual_kernels.usual_kernels(isa, [DataType.FP32])


@pytest.mark.parametrize("data_type", [one for one in DataType if not one.is_index], ids=str)
def test_there_is_code_for_all_usual_kernels(
    data_type: DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usual_kernels, "COLUMNS", range(6, 7))
    for kernel in usual_kernels.usual_kernels(Isa.AVX512, [data_type]):
        assert kernel_symbol(kernel, Isa.AVX512) in emit_kernel(kernel, Isa.AVX512)


def test_what_is_compiled_is_told_and_kept(teir: Teir, monkeypatch: pytest.MonkeyPatch) -> None:
    from teir.backends.llvm.library import CodeLibrary

    given: list[frozenset[Kernel]] = []
    monkeypatch.setattr(usual_kernels, "COLUMNS", range(6, 7))
    monkeypatch.setattr(usual_contractions, "usual_contractions", lambda: iter(FEW))
    monkeypatch.setattr(CodeLibrary, "warm", lambda _, kernels: given.append(kernels) or True)
    done = teir("warm", "--dtype", "fp64", "--json")
    assert done.code == 0, done.err
    assert done.json()["kernels"] == len(given[0])
    assert done.json()["kept"] is True


def test_a_cache_that_cannot_be_written_exits_1(
    teir: Teir, monkeypatch: pytest.MonkeyPatch
) -> None:
    from teir.backends.llvm.library import CodeLibrary

    monkeypatch.setattr(usual_kernels, "COLUMNS", range(6, 7))
    monkeypatch.setattr(usual_contractions, "usual_contractions", lambda: iter(FEW))
    monkeypatch.setattr(CodeLibrary, "warm", lambda *_: False)
    done = teir("warm", "--dtype", "FP32")
    assert done.code == 1
    assert "cache" in done.err


def test_a_type_that_is_none_exits_2(teir: Teir) -> None:
    assert teir("warm", "--dtype", "FP8").code == 2
