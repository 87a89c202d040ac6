"""A second cache of 2 MB stands before a third that is far: rows are packed, results asked for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import FAR, USUAL, assert_alike, choice_of, planned
from teir.dtypes import DataType
from teir.ir.nodes import Program
from teir.lower.kernel_program import Call, KernelNode, inner_nodes
from teir.lower.kernels import PanelBlock
from teir.lower.lower import lower
from teir.search.choice import Packing
from teir.search.default_choice import default_choice
from teir.target import Isa

NEAR = replace(FAR, l3_bytes=64 << 20)
TEXT = "ij,jk->ik"


def _square(side: int) -> dict[str, int]:
    return dict.fromkeys("ijk", side)


def _panels(program: Program) -> list[PanelBlock]:
    waiting: list[KernelNode] = list(lower(program, Isa.AVX512).roots)
    found = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and isinstance(node.kernel, PanelBlock):
            found.append(node.kernel)
        waiting += inner_nodes(node)
    return found


@pytest.mark.parametrize(
    ("l2_mb", "l3_mb", "is_far"),
    [(2, 105, True), (2, 64, False), (1, 96, False), (2, 0, False)],
    ids=["server", "desktop", "stacked", "unknown"],
)
def test_large_caches_of_a_server_are_far(l2_mb: int, l3_mb: int, is_far: bool) -> None:
    machine = replace(USUAL, l2_bytes=l2_mb << 20, l3_bytes=l3_mb << 20)
    assert machine.has_far_third_cache is is_far


@pytest.mark.parametrize(
    ("side", "data_type", "usual", "far"),
    [
        (768, DataType.FP32, (Packing.BLOCKS, 128, False), (Packing.BLOCKS, 6, True)),
        (384, DataType.FP32, (Packing.NONE, 384, False), (Packing.WHOLE, 6, True)),
        (224, DataType.FP32, (Packing.NONE, 224, False), (Packing.NONE, 224, False)),
        (1024, DataType.BF16, (Packing.BLOCKS, 256, False), (Packing.BLOCKS, 256, False)),
    ],
    ids=["large", "short rows", "small", "narrow"],
)
def test_choices_follow_the_caches(
    side: int,
    data_type: DataType,
    usual: tuple[Packing, int, bool],
    far: tuple[Packing, int, bool],
) -> None:
    for machine, expected in ((NEAR, usual), (FAR, far)):
        choice = choice_of(TEXT, _square(side), machine, data_type)
        assert (choice.packed_a, choice.column_block, choice.prefetches_out) == expected


@pytest.mark.parametrize(("side", "is_written_once"), [(800, True), (700, False)])
def test_short_sums_beyond_the_second_cache_are_written_past_it(
    side: int, is_written_once: bool
) -> None:
    extents = {"i": side, "j": 31, "k": side}
    assert choice_of(TEXT, extents, FAR, DataType.FP32).streams is is_written_once
    assert not choice_of(TEXT, extents, NEAR, DataType.FP32).streams


def test_blocks_of_a_near_a_stay_small() -> None:
    extents = {"i": 1600, "j": 448, "k": 96}
    assert choice_of(TEXT, extents, FAR, DataType.FP32).column_block == 400 // 2


def test_rows_of_part_of_a_vector_ask_for_nothing() -> None:
    ragged = {"p": 21, "q": 72, "r": 20, "s": 13, "t": 39, "u": 7}
    choice = choice_of("trus,tupq->pqrs", ragged, FAR, DataType.FP32)
    assert choice.packed_a is not Packing.NONE
    assert not choice.prefetches_out


def test_columns_are_read_ahead_where_results_are_asked_for() -> None:
    extents = _square(384)
    asking = _panels(planned(TEXT, extents, FAR).program)
    assert asking
    assert all(kernel.claims and kernel.reads_ahead for kernel in asking)
    assert not _panels(planned(TEXT, extents, NEAR).program)


def test_streams_are_not_read_ahead() -> None:
    program = planned(TEXT, {"i": 3000, "j": 64, "k": 3000}, FAR).program
    kernels = _panels(program)
    assert kernels
    assert not any(kernel.reads_ahead for kernel in kernels)


def test_all_choices_give_the_same_bits() -> None:
    extents = {"i": 70, "j": 260, "k": 130}
    double = [
        planned(TEXT, extents, machine, DataType.FP64).program for machine in (USUAL, FAR, NEAR)
    ]
    assert_alike(double, TEXT, extents, 3)


@pytest.mark.parametrize("depth", [16, 32])
def test_short_runs_go_through_caches_a_tile_of_l1_at_a_time(depth: int) -> None:
    extents = {"b": 100000, "d": 384, "h": depth}
    far = choice_of("hd,bh->bd", extents, FAR, DataType.FP32)
    assert (far.streams, far.column_block) == (False, 64)
    assert choice_of("hd,bh->bd", extents, NEAR, DataType.FP32).streams


def test_long_panels_go_past_the_caches() -> None:
    extents = {"b": 150000, "d": 384, "h": 64}
    assert choice_of("hd,bh->bd", extents, FAR, DataType.FP32).streams


def test_results_kept_in_scratch_begin_at_lines_and_go_past_the_caches() -> None:
    (step,) = planned("hd,bh->bd", {"b": 40000, "d": 384, "h": 32}, FAR).matrix_steps
    assert not default_choice(step.shape, FAR).streams
    assert default_choice(replace(step.shape, is_kept=True), FAR).streams


def test_all_columns_meet_rows_that_are_read_once() -> None:
    extents = {"k": 128, "m": 96000, "n": 60}
    assert choice_of("km,nk->nm", extents, FAR, DataType.FP32).column_block == 60
    assert choice_of("km,nk->nm", extents, NEAR, DataType.FP32).column_block == 24
