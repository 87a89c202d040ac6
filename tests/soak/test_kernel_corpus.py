"""Every kind of kernel is in the corpus, advice about memory and sparse rows included."""

from __future__ import annotations

from functools import cache
from typing import get_args

import pytest

from teir.backends.llvm.emit_kernel import kernel_symbol
from teir.dtypes import DataType
from teir.ir.check import check
from teir.lower.calls import kernels_of
from teir.lower.copy_kernels import (
    JoinedTranspose,
    PermuteCopy,
    RowCopy,
    ShortTranspose,
    SteppedCopy,
    TransposeCopy,
)
from teir.lower.kernels import (
    BatchBlock,
    DotRows,
    Elementwise,
    GemmBlock,
    Kernel,
    LaneBlock,
    PairBlock,
    PanelBlock,
)
from teir.lower.lower import lower
from teir.lower.tile_kernels import TileProduct
from teir.lower.walked_kernels import (
    FibreParts,
    Follows,
    WalkedDots,
    WalkedSampledSum,
    WalkedScatter,
    WalkedSum,
)
from teir.soak.kernel_corpus import audit_kernel
from teir.soak.kernel_pages import kernel_cases, press_one
from teir.soak.kernel_programs import family_program, kernel_families
from teir.soak.special_programs import special_program, special_programs
from teir.soak.walked_programs import long_walks, walk_program, walks
from teir.target import Isa


@cache
def reached() -> frozenset[Kernel]:
    """Kernels that some remainders of the programs call, of the families every seventh."""
    found: set[Kernel] = set()
    for family in kernel_families()[::7]:
        for isa, remainder in ((Isa.AVX512, 24), (Isa.AVX2, 29)):
            found |= kernels_of(lower(family_program(family, remainder), isa).roots)
    for special in special_programs():
        for remainder in (3, 24, 36):
            for isa in (Isa.AVX512_ZEN5, Isa.AMX, Isa.AVX2):
                found |= kernels_of(lower(special_program(special, remainder), isa).roots)
    for walk in walks():
        found |= kernels_of(lower(walk_program(walk, 24), Isa.AVX512).roots)
    return frozenset(found)


@pytest.mark.parametrize("remainder", [1, 24])
def test_every_program_is_right(remainder: int) -> None:
    made = [special_program(special, remainder) for special in special_programs()]
    made += [walk_program(walk, remainder) for walk in (*walks(), *long_walks())]
    assert [one for one in made if not check(one).ok] == []


def test_no_kind_of_kernel_is_left_out() -> None:
    """A new kernel needs programs in the corpus: a family, a special program or a walk."""
    assert {type(one) for one in reached()} == set(get_args(Kernel))


@pytest.mark.parametrize("kind", get_args(Kernel), ids=lambda kind: kind.__name__)
def test_code_of_every_kind_of_kernel_keeps_to_the_set(kind: type) -> None:
    """The whole corpus takes minutes; a kind that is written anew shows in one of its kernels."""
    one = min((one for one in reached() if type(one) is kind), key=str)
    isa = Isa.AMX if kind is TileProduct else Isa.AVX512
    assert audit_kernel(one, isa) == ()


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (PanelBlock, ("streams", "brings", "brings_b", "claims", "dense_columns")),
        (PanelBlock, ("staggers", "repeats", "joins", "turns", "reads_ahead")),
        (GemmBlock, ("flushes", "b_adjacent", "parts", "keeps")),
        (PairBlock, ("b_adjacent", "claims")),
        (TileProduct, ("b_adjacent", "keeps_rows", "a_adjacent", "packs_pairs", "asks")),
        (BatchBlock, ("from_zero",)),
        (LaneBlock, ("one_loop",)),
        (Elementwise, ("brings",)),
        (WalkedSum, ("masked", "aligns", "outer", "rows", "ahead", "chains")),
        (WalkedDots, ("masked", "ahead")),
        (WalkedSampledSum, ("masked", "rows", "ahead")),
        (WalkedScatter, ("outer", "accumulates", "has_rows")),
        (FibreParts, ("is_numbered",)),
        (ShortTranspose, ("joins",)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_form_of_a_kernel_is_reached(kind: type, flags: tuple[str, ...]) -> None:
    ours = [one for one in reached() if type(one) is kind]
    for flag in flags:
        assert len({bool(getattr(one, flag)) for one in ours}) == 2, flag


def test_rows_in_panels_are_reached() -> None:
    blocks = [one for one in reached() if isinstance(one, GemmBlock) and one.parts]
    assert {one.splits_numbers for one in blocks} == {True, False}


def test_runs_and_reductions_are_reached() -> None:
    assert {one.runs for one in reached() if isinstance(one, PanelBlock)} >= {1, 2}
    assert {one.runs for one in reached() if isinstance(one, PairBlock)} >= {1, 4, 8}
    assert {one.reductions for one in reached() if isinstance(one, DotRows)} >= {1, 2, 3}
    assert {one.columns for one in reached() if isinstance(one, DotRows)} == {1, 2}
    assert {one.fibre for one in reached() if isinstance(one, WalkedScatter)} == {
        Follows.OUTER_POSITION,
        Follows.OUTER_COORDINATE,
    }
    assert {one.grouped for one in reached() if isinstance(one, TransposeCopy)} == {1, 2, 4}
    assert {one.columns for one in reached() if isinstance(one, TransposeCopy)} >= {0, 6, 11}
    for kind, steps in (
        (TransposeCopy, {1, 2, 3}),
        (PermuteCopy, {1, 2, 3}),
        (ShortTranspose, {1, 2}),
    ):
        assert {one.step for one in reached() if isinstance(one, kind)} == steps
    assert {one.pieces for one in reached() if isinstance(one, RowCopy)} >= {1, 2, 3}
    assert {one.lanes for one in reached() if isinstance(one, JoinedTranspose)} == {4, 8, 16, 32}
    assert {one.step for one in reached() if isinstance(one, SteppedCopy)} == {2, 3, 5}
    assert {one.side for one in reached() if isinstance(one, ShortTranspose)} == {2, 3, 4, 5, 6}


def test_long_rows_of_whole_vectors_are_audited() -> None:
    """Only those have forms for where they begin in a cache line; near ones and ones far apart."""
    made = [lower(walk_program(walk, 1), Isa.AVX512) for walk in long_walks()]
    kernels = {kernel for one in made for kernel in kernels_of(one.roots)}
    sampled = [one for one in kernels if isinstance(one, WalkedSampledSum)]
    whole = [one for one in sampled if not one.masked and not one.dot_masked]
    formed = [one for one in whole if min(one.vectors, one.dot_vectors) >= 3]
    assert {one.ahead is None for one in formed} == {True, False}
    assert {one.data_type for one in formed} == {DataType.FP32, DataType.FP64}


def test_special_kernels_between_inaccessible_pages() -> None:
    for item in range(len(kernel_families()), len(kernel_cases()), 14):
        assert press_one(item, remainders=2)["wrong"] == []


def test_different_kernels_have_different_names() -> None:
    assert len({kernel_symbol(one, Isa.AVX512) for one in reached()}) == len(reached())
