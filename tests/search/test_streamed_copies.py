"""Permutations of long sides that leave the second cache are one tile, written past the caches."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from search.planned import USUAL, assert_exact, stated
from teir.dtypes import DataType
from teir.ir.memory_hints import memory_hints
from teir.ir.nodes import IterationNode, Policy, Program
from teir.pipeline.operand_types import contiguous
from teir.search.machine import Machine
from teir.search.tree import TreeOptions, contraction_program

TILES = replace(
    USUAL, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=105 << 20, follows_few_rows=True
)


def permuted(text: str, extents: dict[str, int], machine: Machine, data_type: DataType) -> Program:
    """The program of a permutation."""
    types = (contiguous(data_type, tuple(extents.values())),)
    return contraction_program(stated(text, types), ((0,),), machine, TreeOptions()).program


def streams(text: str, extents: dict[str, int], machine: Machine, data_type: DataType) -> bool:
    """True where the program writes past the caches: a block for each thread then, while what is
    left, if anything, is small."""
    program = permuted(text, extents, machine, data_type)
    found = [memory_hints(primitive).streams for primitive in program.primitives]
    assert len(found) <= 1 + (machine.threads > 1) or not any(found)
    assert found[0] == any(found)
    return found[0]


@pytest.mark.parametrize(
    ("text", "extents", "data_type"),
    [
        ("ij->ji", {"i": 500, "j": 500}, DataType.FP64),
        ("ij->ji", {"i": 600, "j": 600}, DataType.FP32),
        ("abcd->dcba", {"a": 20, "b": 20, "c": 22, "d": 20}, DataType.FP64),
        ("ij->ji", {"i": 320, "j": 320}, DataType.C128),
        ("ij->ji", {"i": 390, "j": 390}, DataType.FP64),
        ("ij->ji", {"i": 275, "j": 275}, DataType.C128),
    ],
)
def test_what_the_second_cache_loses_is_read_as_streams(text, extents, data_type) -> None:
    assert streams(text, extents, TILES, data_type)
    assert not streams(text, extents, USUAL, data_type)
    assert streams(text, extents, replace(TILES, threads=2), data_type)


@pytest.mark.parametrize(
    ("text", "extents", "data_type"),
    [
        ("ij->ji", {"i": 400, "j": 400}, DataType.FP64),
        ("ij->ji", {"i": 300, "j": 300}, DataType.C128),
        ("ij->ji", {"i": 365, "j": 365}, DataType.FP64),
        ("ij->ji", {"i": 100, "j": 5000}, DataType.FP64),
        ("ij->ji", {"i": 100000, "j": 10}, DataType.FP64),
        ("ij->ji", {"i": 900, "j": 900}, DataType.BF16),
        ("hij->hji", {"h": 32, "i": 128, "j": 128}, DataType.FP64),
        ("hij->ihj", {"h": 64, "i": 64, "j": 64}, DataType.FP64),
    ],
)
def test_what_fits_and_what_has_a_short_side_is_not(text, extents, data_type) -> None:
    assert not streams(text, extents, TILES, data_type)


def test_larger_tiles_are_turned_where_the_first_cache_is_larger() -> None:
    extents = {"i": 512, "j": 512}
    for machine, side in ((USUAL, 64), (replace(USUAL, l1_bytes=48 << 10), 128)):
        program = permuted("ij->ji", extents, machine, DataType.FP64)
        sizes = {axis.name: axis.extent for axis in program.axes}
        used = {sizes[name] for one in program.primitives for name in (*one.m, *one.n)}
        assert used == {side}


def test_a_streamed_permutation_means_what_numpy_computes() -> None:
    small = replace(TILES, l2_bytes=1 << 14)
    extents = {"i": 513, "j": 517}
    assert streams("ij->ji", extents, small, DataType.FP32)
    program = permuted("ij->ji", extents, small, DataType.FP32)
    assert_exact(program, "ij->ji", extents, DataType.FP32, 1)


@pytest.mark.parametrize("extents", [{"i": 514, "j": 519}, {"i": 520, "j": 540}])
def test_every_thread_takes_a_block_of_long_sides(extents: dict[str, int]) -> None:
    machine = replace(TILES, threads=2, l2_bytes=1 << 14)
    program = permuted("ij->ji", extents, machine, DataType.FP32)
    loops = [node for node in program.nodes() if isinstance(node, IterationNode)]
    shared = [one for one in loops if one.policy is Policy.PARALLEL]
    assert [program.axis_table()[one.axis].extent for one in shared] == [2]
    assert_exact(program, "ij->ji", extents, DataType.FP32, 2)


def test_blocks_of_many_threads_would_be_short() -> None:
    machine = replace(TILES, threads=16)
    assert not streams("ij->ji", {"i": 500, "j": 500}, machine, DataType.FP64)
